#include <bilevel/models/diagnosis.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include <Eigen/Eigenvalues>

#include "threads/side_by_side.hpp"

#include "findings.hpp"
#include "folds.hpp"

namespace bilevel::models {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t shown = std::min<std::size_t>(names.size(), 5);
  for (std::size_t k = 0; k < shown; ++k)
    text += fmt::format("{}'{}'", k == 0 ? "" : k + 1 == names.size() ? " and " : ", ", names[k]);
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

DataFinding not_looked_at(std::string name, std::string_view why) {
  DataFinding finding{std::move(name), false, fmt::format("not looked at: {}", why)};
  finding.looked_at = false;
  return finding;
}

std::optional<std::string> too_much(double operations, const DiagnosisOptions& options) {
  if (operations <= options.affordable) return {};
  return fmt::format("it would take about {:.1g} operations, more than {:.1g}", operations,
                     options.affordable);
}

double elements(const Prepared& p, Index rows) {
  const auto n = static_cast<double>(rows);
  return p.samples.matrix->sparse()
             ? n * static_cast<double>(p.nonzeros) / static_cast<double>(p.samples.matrix->rows())
             : n * static_cast<double>(p.names.size());
}

double work_of_fit(const Prepared& p, Index rows) {
  const auto size = static_cast<double>(static_cast<Index>(p.penalties.of.size()));
  const bool formed =
      !p.network() && size <= static_cast<double>(bilevel::problems::PenalisedModel::formed_hessian);
  // Of a linear model so many are its outputs; of a network its further layers are counted too.
  const double outputs = size / static_cast<double>(p.names.size()), pass = 4 * elements(p, rows) * outputs;
  return 30 *
         (formed ? 0.5 * elements(p, rows) * size * outputs + size * size * size / 3 + pass : 100 * pass);
}

bool counts(const Prepared& p, Index i) {
  return !p.samples.weights || (*p.samples.weights)[i] > 0;
}

Ranges ranges_of(const Prepared& p, Index groups, const std::function<Index(Index row)>& group) {
  const auto d = static_cast<Index>(p.names.size());
  const auto& matrix = *p.samples.matrix;
  Ranges r{Eigen::MatrixXd::Constant(d, groups, bilevel::everywhere),
           Eigen::MatrixXd::Constant(d, groups, -bilevel::everywhere),
           std::vector<Index>(static_cast<std::size_t>(groups), 0)};
  Eigen::MatrixXi stored = Eigen::MatrixXi::Zero(matrix.sparse() ? d : 0, groups);
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i) {
      if (!counts(p, i)) continue;
      const Index g = group(i);
      ++r.rows[static_cast<std::size_t>(g)];
      matrix.for_each(i, [&](Index j, double x) {
        r.least(j, g) = std::min(r.least(j, g), x);
        r.most(j, g) = std::max(r.most(j, g), x);
        if (stored.size() > 0) ++stored(j, g);
      });
    }
  // What is not stored is zero.
  for (Index g = 0; g < groups; ++g)
    for (Index j = 0; j < stored.rows(); ++j)
      if (stored(j, g) < r.rows[static_cast<std::size_t>(g)]) {
        r.least(j, g) = std::min(r.least(j, g), 0.0);
        r.most(j, g) = std::max(r.most(j, g), 0.0);
      }
  return r;
}

namespace {

using Mat = Eigen::MatrixXd;

constexpr Index most_columns = 2000;
/// Of the rows that are asked what they say of the penalties.
constexpr Index most_rows = 2000;
/// Training rows for each coefficient from which on estimates without a penalty are thought to be stable
/// (Peduzzi et al., 1996; of classes, rows of the rarest one).
constexpr double enough_rows_each = 10;
/// R² from which on a column says hardly anything of its own (a variance inflation of 100).
constexpr double collinear = 0.99;
/// Beyond this (Belsley, Kuh and Welsch, 1980) coefficients lose digits that matter.
constexpr double moderate_condition = 30;

/// Which features change on the training rows, and the correlations of these.
struct Columns {
  std::vector<Index> moving;
  std::vector<std::string> still;
  double rows = 0;      ///< that have a weight
  Mat correlation;      ///< empty where it was not looked at …
  std::string why_not;  ///< … for this reason
  double spread = 1;    ///< the largest mean square over variance: so much is lost by subtracting means
};

/// Features of one value are found exactly; those whose variance is lost in the rounding of the moments too.
Columns columns_of(const Prepared& p, const DiagnosisOptions& options) {
  const auto d = static_cast<Index>(p.names.size());
  Columns c;
  const Ranges ranges = ranges_of(p, 1, [](Index) { return Index{0}; });
  c.rows = static_cast<double>(ranges.rows[0]);
  std::vector<bool> moves(static_cast<std::size_t>(d));
  for (Index j = 0; j < d; ++j) moves[static_cast<std::size_t>(j)] = ranges.least(j, 0) < ranges.most(j, 0);
  Mat moments;
  const double work =
      elements(p, problems::row_count(p.final.training)) * static_cast<double>(d) + 10 * std::pow(d, 3);
  if (d > most_columns) {
    c.why_not = fmt::format("there are {} columns, more than {}", d, most_columns);
  } else if (const auto why = too_much(work, options)) {
    c.why_not = *why;
  } else {
    // The squared loss has the moments of the rows as its Hessian, by weight, the column of ones last.
    const auto loss =
        bilevel::problems::make_scalar_loss(bilevel::problems::kernels::Loss::squared,
                                            {p.samples.matrix,
                                             std::make_shared<Vec>(Vec::Zero(p.samples.matrix->rows())),
                                             p.samples.weights,
                                             {},
                                             {}},
                                            p.final.training);
    bilevel::problems::RowCurvature curvature;
    loss->curvature_at(Vec::Zero(d + 1), curvature);
    loss->dense(curvature, moments);
    const double unit = (loss->depths().dense + 4) * std::numeric_limits<double>::epsilon() / 2;
    for (Index j = 0; j < d; ++j) {
      const double variance = moments(j, j) - moments(d, j) * moments(d, j);
      if (!(variance > unit * moments(j, j))) moves[static_cast<std::size_t>(j)] = false;
      if (moves[static_cast<std::size_t>(j)]) c.spread = std::max(c.spread, moments(j, j) / variance);
    }
  }
  for (Index j = 0; j < d; ++j) {
    if (moves[static_cast<std::size_t>(j)])
      c.moving.push_back(j);
    else
      c.still.push_back(p.names[static_cast<std::size_t>(j)]);
  }
  if (moments.size() == 0) return c;
  const auto kept = static_cast<Index>(c.moving.size());
  c.correlation.resize(kept, kept);
  const Vec mean = moments.row(d).head(d);
  Vec scale(kept);
  for (Index a = 0; a < kept; ++a) {
    const Index j = c.moving[static_cast<std::size_t>(a)];
    scale[a] = 1 / std::sqrt(moments(j, j) - mean[j] * mean[j]);
  }
  for (Index b = 0; b < kept; ++b)
    for (Index a = 0; a < kept; ++a) {
      const Index i = c.moving[static_cast<std::size_t>(a)], j = c.moving[static_cast<std::size_t>(b)];
      c.correlation(a, b) =
          a == b ? 1 : (moments(std::max(i, j), std::min(i, j)) - mean[i] * mean[j]) * scale[a] * scale[b];
    }
  if (kept == 0) c.why_not = "no feature changes";
  return c;
}

/// Column j as a combination of those before it that are none themselves.
struct Dependence {
  Index column;
  double unexplained;                          ///< 1 − R²
  std::vector<std::pair<Index, double>> from;  ///< by size of the coefficient
};

/// A Cholesky factorisation, column by column in their order; what is left of a diagonal element is 1 − R².
std::vector<Dependence> dependences(const Mat& correlation, double unexplained) {
  const Index d = correlation.rows();
  Mat factor = Mat::Zero(d, d);  // rows: columns kept so far
  std::vector<Index> kept;
  std::vector<Dependence> found;
  for (Index j = 0; j < d; ++j) {
    const auto k = static_cast<Index>(kept.size());
    Vec along(k);
    for (Index a = 0; a < k; ++a) along[a] = correlation(kept[static_cast<std::size_t>(a)], j);
    const auto triangle = factor.topLeftCorner(k, k).triangularView<Eigen::Lower>();
    if (k > 0) triangle.solveInPlace(along);
    const double left = correlation(j, j) - along.squaredNorm();
    if (left > unexplained) {
      factor.row(k).head(k) = along.transpose();
      factor(k, k) = std::sqrt(left);
      kept.push_back(j);
      continue;
    }
    Dependence each{j, std::max(left, 0.0), {}};
    Vec weights = along;
    factor.topLeftCorner(k, k).triangularView<Eigen::Lower>().transpose().solveInPlace(weights);
    const double largest = k > 0 ? weights.cwiseAbs().maxCoeff() : 0;
    for (Index a = 0; a < k; ++a)
      if (std::abs(weights[a]) >= 0.05 * largest)
        each.from.emplace_back(kept[static_cast<std::size_t>(a)], weights[a]);
    std::stable_sort(each.from.begin(), each.from.end(),
                     [](const auto& x, const auto& y) { return std::abs(x.second) > std::abs(y.second); });
    found.push_back(std::move(each));
  }
  return found;
}

/// (Σw)²/Σw²: so many rows of the same weight say as much.
struct Effective {
  double sum = 0, squares = 0;
  void add(double weight) {
    sum += weight;
    squares += weight * weight;
  }
  double rows() const { return squares > 0 ? sum * sum / squares : 0; }
};

DataFinding rows_per_coefficient(const Prepared& p) {
  const bool classes = p.model.classifies();
  Effective all;
  std::vector<Effective> of(static_cast<std::size_t>(classes ? std::max<Index>(p.outputs, 2) : 0));
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i) {
      const double weight = p.samples.weights ? (*p.samples.weights)[i] : 1;
      all.add(weight);
      if (!classes) continue;
      const int label = (*p.samples.classes)[static_cast<std::size_t>(i)];
      of[p.outputs == 1 ? (label > 0 ? 1 : 0) : static_cast<std::size_t>(label)].add(weight);
    }
  double judged = all.rows();
  for (const Effective& each : of) judged = std::min(judged, each.rows());
  const Index coefficients = static_cast<Index>(p.penalties.of.size()) + (p.intercept ? p.outputs : 0);
  const double ratio = judged / static_cast<double>(coefficients);
  DataFinding finding{
      "rows-per-coefficient", ratio >= enough_rows_each,
      fmt::format("{:.3g} training rows{} for each of the {} coefficients{}", ratio,
                  classes ? " of the rarest class" : "", coefficients,
                  all.rows() < static_cast<double>(coefficients)
                      ? ": without penalties they would not be determined"
                  : ratio < enough_rows_each
                      ? fmt::format(": with fewer than {:g} they are uncertain unless they are penalised",
                                    enough_rows_each)
                      : "")};
  finding.numbers = {
      {"rows", all.rows()}, {"coefficients", static_cast<double>(coefficients)}, {"ratio", ratio}};
  if (classes) finding.numbers.emplace_back("rows_of_rarest_class", judged);
  return finding;
}

DataFinding constant_columns(const Prepared& p, const Columns& columns) {
  DataFinding finding{"constant-columns", p.constant.empty() && columns.still.empty(),
                      "every feature changes"};
  std::vector<std::string> sentences;
  if (!p.constant.empty())
    sentences.push_back(fmt::format("{} feature(s) never change and are left out: {}", p.constant.size(),
                                    listed(p.constant)));
  if (!columns.still.empty())
    sentences.push_back(
        fmt::format("{} feature(s) do not change on the training rows, or by less than rounding: {}",
                    columns.still.size(), listed(columns.still)));
  if (!finding.good) finding.sentence = fmt::format("{}", fmt::join(sentences, "; "));
  finding.columns = p.constant;
  finding.columns.insert(finding.columns.end(), columns.still.begin(), columns.still.end());
  return finding;
}

/// What n rows say of n columns or more: deviations from the means have n − 1 directions at most.
std::optional<std::string> more_columns_than_rows(const Columns& columns) {
  if (static_cast<double>(columns.moving.size()) < columns.rows) return {};
  return fmt::format(
      "{:g} training rows cannot tell {} columns apart: every column may be a combination of others",
      columns.rows, columns.moving.size());
}

DataFinding condition_number(const Columns& columns) {
  const Mat& correlation = columns.correlation;
  const Eigen::SelfAdjointEigenSolver<Mat> eigen(correlation, Eigen::EigenvaluesOnly);
  const double largest = eigen.eigenvalues().maxCoeff(), least = eigen.eigenvalues().minCoeff();
  // Below this an eigenvalue is rounding.
  const double rounding = 1e-14 * columns.spread * static_cast<double>(correlation.rows()) * largest;
  const bool singular = more_columns_than_rows(columns) || !(least > rounding);
  const double condition = singular ? bilevel::everywhere : std::sqrt(largest / least);
  return {"condition-number",
          condition <= moderate_condition,
          singular
              ? std::string("the standardised design is singular: some columns are combinations of others")
              : fmt::format("the standardised design has condition number {:.3g}{}", condition,
                            condition > moderate_condition
                                ? ": coefficients trade places, penalties decide between them"
                                : ""),
          {},
          {{"condition_number", condition}, {"largest_eigenvalue", largest}, {"least_eigenvalue", least}}};
}

DataFinding collinear_columns(const Prepared& p, const Columns& columns) {
  if (const auto all = more_columns_than_rows(columns)) return {"collinear-columns", false, *all};
  const std::vector<Dependence> found = dependences(columns.correlation, 1 - collinear);
  DataFinding finding{
      "collinear-columns", found.empty(),
      fmt::format("no feature is predicted by the ones before it with R² above {:g}", collinear)};
  const auto name_of = [&](Index column) {
    return p.names[static_cast<std::size_t>(columns.moving[static_cast<std::size_t>(column)])];
  };
  std::vector<std::string> sentences;
  for (const Dependence& each : found) {
    const std::string name = name_of(each.column);
    finding.columns.push_back(name);
    std::vector<std::string> from;
    for (const auto& [column, weight] : each.from) from.push_back(name_of(column));
    if (sentences.size() < 5)
      sentences.push_back(
          each.unexplained < 1e-12
              ? fmt::format("'{}' is a combination of {}", name, listed(from))
              : fmt::format("'{}' follows from {} with R² {:.6f}", name, listed(from), 1 - each.unexplained));
    finding.numbers.emplace_back(name, 1 - each.unexplained);
  }
  if (!found.empty())
    finding.sentence = fmt::format("{}{}", fmt::join(sentences, "; "),
                                   found.size() > 5 ? fmt::format("; and {} more", found.size() - 5) : "");
  return finding;
}

constexpr const char* told_apart_name = "penalties-told-apart";

/// u_i = d loss_i/dθ of validation rows of all folds, a column for each; or why there are none.
struct Pulls {
  Mat of_rows;
  std::string why_not;
};

/// `each`: operations of one adjoint solve. Rows are drawn, since their order may mean something.
Pulls row_pulls(const Prepared& p, const Vec& theta, double each, const DiagnosisOptions& options) {
  Folds folds(p);
  folds.obey(options.stop);
  const Folds::All settled = folds.settle(theta, {}, 1e-8, false);
  for (std::size_t k = 0; k < settled.size(); ++k)
    if (settled[k].status != bilevel::Status::converged && settled[k].status != bilevel::Status::stalled)
      return {{},
              fmt::format("the fit of fold {} ended as {}: {}", k + 1, name(settled[k].status),
                          settled[k].message)};
  const auto weights = folds.row_weights();
  const auto affordable =
      static_cast<Index>(std::min(options.affordable / each, static_cast<double>(most_rows)));
  const Index most = affordable / static_cast<Index>(folds.count()) + 1;
  std::vector<std::vector<Index>> asked(folds.count());
  std::vector<Index> place{0};
  for (std::size_t k = 0; k < folds.count(); ++k) {
    std::vector<Index> all;
    for (std::size_t i = 0; i < weights[k].size(); ++i)
      if (weights[k][i] > 0) all.push_back(static_cast<Index>(i));
    std::mt19937_64 random(options.seed + k);
    std::sample(all.begin(), all.end(), std::back_inserter(asked[k]), most, random);
    place.push_back(place.back() + static_cast<Index>(asked[k].size()));
  }
  auto all = folds.row_hypergradients(theta, settled);
  Pulls pulls{Mat::Constant(theta.size(), place.back(), bilevel::unknown), ""};
  bilevel::side_by_side(folds.count(), [&](std::size_t k) {
    Index column = place[k];
    for (const Index row : asked[k]) {
      if (bilevel::stop_wanted(options.stop)) return;
      pulls.of_rows.col(column++) = all[k]->of(row, Mat::Ones(1, 1));
    }
  });
  if (const auto why = bilevel::stop_wanted(options.stop))
    pulls.why_not = sentence(*why);
  else if (!pulls.of_rows.allFinite())
    pulls.why_not = "derivatives of validation losses are not finite";
  return pulls;
}

DataFinding penalties_told_apart(const Prepared& p, const Vec& theta, const DiagnosisOptions& options) {
  const Index thetas = p.penalties.count;
  if (thetas > most_columns)
    return not_looked_at(told_apart_name,
                         fmt::format("there are {} penalties, more than {}", thetas, most_columns));
  const Index rows = problems::row_count(p.folds[0].training),
              size = static_cast<Index>(p.penalties.of.size());
  if (const auto why = too_much(static_cast<double>(p.folds.size()) * work_of_fit(p, rows), options))
    return not_looked_at(told_apart_name, *why);
  // By the factor of a Hessian that is formed, else by some 100 products.
  const double each =
      !p.network() && size <= bilevel::problems::PenalisedModel::formed_hessian
          ? 2 * std::pow(static_cast<double>(size), 2)
          : 400 * elements(p, rows) * static_cast<double>(size) / static_cast<double>(p.names.size());
  // Fewer rows than penalties would not tell them apart, whatever they say.
  if (const auto why = too_much(each * static_cast<double>(thetas), options))
    return not_looked_at(told_apart_name, *why);
  const Pulls asked = row_pulls(p, theta, each, options);
  if (!asked.why_not.empty()) return not_looked_at(told_apart_name, asked.why_not);
  const Mat& pulls = asked.of_rows;
  const Vec sizes = pulls.topRows(thetas).rowwise().norm();
  DataFinding finding{told_apart_name, true, ""};
  std::vector<std::string> idle, sentences;
  const auto moves = [&](Index a) { return sizes[a] > 1e-10 * sizes.maxCoeff(); };
  Mat alike = Mat::Identity(thetas, thetas);
  for (Index a = 0; a < thetas; ++a) {
    if (!moves(a)) idle.push_back(p.hyperparameters[static_cast<std::size_t>(a)]);
    for (Index b = 0; b < a && moves(a); ++b)
      if (moves(b)) alike(a, b) = alike(b, a) = pulls.row(a).dot(pulls.row(b)) / (sizes[a] * sizes[b]);
  }
  if (!idle.empty())
    sentences.push_back(fmt::format("{} penalties move no validation loss: {}", idle.size(), listed(idle)));
  std::vector<std::string> same;
  Index pairs = 0;
  for (Index a = 0; a < thetas; ++a)
    for (Index b = 0; b < a; ++b)
      if (std::abs(alike(a, b)) > 1 - 1e-6) {
        const std::string &one = p.hyperparameters[static_cast<std::size_t>(b)],
                          &other = p.hyperparameters[static_cast<std::size_t>(a)];
        for (const std::string& name : {one, other})
          if (std::find(same.begin(), same.end(), name) == same.end()) same.push_back(name);
        if (++pairs <= 3)
          sentences.push_back(
              fmt::format("the penalties of '{}' and '{}' act alike on every validation row", one, other));
      }
  if (pairs > 3) sentences.push_back(fmt::format("and {} more pairs do", pairs - 3));
  // Directions in which something changes: eigenvalues of Σ u_i u_iᵀ, each penalty in units of its own
  // effect.
  const Eigen::SelfAdjointEigenSolver<Mat> eigen(alike, Eigen::EigenvaluesOnly);
  const auto seen = (eigen.eigenvalues().array() > 1e-8 * eigen.eigenvalues().maxCoeff()).count() -
                    static_cast<Index>(idle.size());
  if (seen < thetas && sentences.empty())
    sentences.push_back(fmt::format("{} penalties, and {} validation rows, tell {} directions apart", thetas,
                                    pulls.cols(), seen));
  finding.columns = idle;
  finding.columns.insert(finding.columns.end(), same.begin(), same.end());
  finding.good = sentences.empty();
  finding.numbers = {{"penalties", static_cast<double>(thetas)}, {"directions", static_cast<double>(seen)}};
  finding.sentence = sentences.empty()
                         ? fmt::format("the validation rows tell all {} penalties apart", thetas)
                         : fmt::format("{}", fmt::join(sentences, "; "));
  return finding;
}

}  // namespace

std::vector<DataFinding> diagnose(const Prepared& p, const Vec& theta, const DiagnosisOptions& options) {
  const Index thetas = p.penalties.thetas() + (p.elastic() ? 1 : 0);
  if (theta.size() != thetas)
    throw InvalidInput(
        fmt::format("diagnose: θ has {} elements; these penalties have {}", theta.size(), thetas));
  if (!(options.affordable > 0))
    throw InvalidInput(
        fmt::format("DiagnosisOptions.affordable = {}; it must be positive", options.affordable));
  const Columns columns = columns_of(p, options);
  std::vector<DataFinding> findings{rows_per_coefficient(p), constant_columns(p, columns)};
  const auto look = [&](std::string_view name, const auto& at) {
    if (const auto why = bilevel::stop_wanted(options.stop))
      findings.push_back(not_looked_at(std::string(name), sentence(*why)));
    else
      findings.push_back(at());
  };
  const auto at_correlations = [&](std::string_view name, const auto& at) {
    look(name,
         [&] { return columns.why_not.empty() ? at() : not_looked_at(std::string(name), columns.why_not); });
  };
  at_correlations("condition-number", [&] { return condition_number(columns); });
  at_correlations("collinear-columns", [&] { return collinear_columns(p, columns); });
  if (p.model.classifies())
    look("separable-classes", [&] {
      return p.network()
                 ? not_looked_at("separable-classes",
                                 "that is a question to linear models: ask it of a logistic or softmax one")
                 : separable_classes(p, options);
    });
  if (p.penalties.count > 1) look(told_apart_name, [&] { return penalties_told_apart(p, theta, options); });
  return findings;
}

}  // namespace bilevel::models
