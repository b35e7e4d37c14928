#include <bilevel/models/diagnosis.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include <Eigen/Eigenvalues>

#include "folds.hpp"

namespace bilevel::models {
namespace {

using Mat = Eigen::MatrixXd;

constexpr Index most_columns = 2000;
/// Of the rows that are asked what they say of the penalties.
constexpr Index most_rows = 2000;
/// R² from which on a column says hardly anything of its own (a variance inflation of 100).
constexpr double collinear = 0.99;
/// Beyond this (Belsley, Kuh and Welsch, 1980) coefficients lose digits that matter.
constexpr double moderate_condition = 30;

/// The correlations of the standardised features over the training rows; empty where there are too many.
Mat correlations(const Prepared& p) {
  const auto d = static_cast<Index>(p.names.size());
  if (d > most_columns) return {};
  const Standardisation& s = p.final.standardisation;
  Mat sum = Mat::Zero(d, d);
  Vec mean = Vec::Zero(d), row(d);
  double rows = 0;
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i, ++rows) {
      row.setZero();
      p.samples.matrix->for_each(i, [&](Index j, double x) { row[j] = x; });
      row = (row - s.shift).cwiseProduct(s.inverse_scale);
      mean += row;
      sum.selfadjointView<Eigen::Lower>().rankUpdate(row);
    }
  mean /= rows;
  Mat covariance = Mat(sum.selfadjointView<Eigen::Lower>()) / rows - mean * mean.transpose();
  const Vec scale = covariance.diagonal().cwiseMax(1e-300).cwiseSqrt().cwiseInverse();
  return scale.asDiagonal() * covariance * scale.asDiagonal();
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
    const double largest = weights.cwiseAbs().maxCoeff();
    for (Index a = 0; a < k; ++a)
      if (std::abs(weights[a]) >= 0.05 * largest)
        each.from.emplace_back(kept[static_cast<std::size_t>(a)], weights[a]);
    std::stable_sort(each.from.begin(), each.from.end(),
                     [](const auto& x, const auto& y) { return std::abs(x.second) > std::abs(y.second); });
    found.push_back(std::move(each));
  }
  return found;
}

/// 'a', 'b' and 3 more.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  const std::size_t shown = std::min<std::size_t>(names.size(), 5);
  for (std::size_t k = 0; k < shown; ++k)
    text += fmt::format("{}'{}'", k == 0 ? "" : k + 1 == names.size() ? " and " : ", ", names[k]);
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

DataFinding rows_per_coefficient(const Prepared& p) {
  Index rows = 0;
  for (const auto& [first, last] : p.final.training) rows += last - first;
  const Index coefficients = (static_cast<Index>(p.names.size()) + (p.intercept ? 1 : 0)) * p.outputs;
  const double ratio = static_cast<double>(rows) / static_cast<double>(coefficients);
  return {"rows-per-coefficient",
          ratio >= 1,
          fmt::format("{:.3g} training rows for each of the {} coefficients{}", ratio, coefficients,
                      ratio < 1 ? ": without penalties they would not be determined" : ""),
          {},
          {{"rows", static_cast<double>(rows)},
           {"coefficients", static_cast<double>(coefficients)},
           {"ratio", ratio}}};
}

DataFinding constant_columns(const Prepared& p) {
  return {"constant-columns", p.constant.empty(),
          p.constant.empty() ? std::string("every feature changes")
                             : fmt::format("{} feature(s) never change and are left out: {}",
                                           p.constant.size(), listed(p.constant)),
          p.constant};
}

DataFinding condition_number(const Mat& correlation) {
  const Eigen::SelfAdjointEigenSolver<Mat> eigen(correlation, Eigen::EigenvaluesOnly);
  const double largest = eigen.eigenvalues().maxCoeff(), least = eigen.eigenvalues().minCoeff();
  // Below this an eigenvalue is rounding.
  const double rounding = 1e-14 * static_cast<double>(correlation.rows()) * largest;
  const double condition = least > rounding ? std::sqrt(largest / least) : bilevel::everywhere;
  return {"condition-number",
          condition <= moderate_condition,
          std::isfinite(condition)
              ? fmt::format("the standardised design has condition number {:.3g}{}", condition,
                            condition > moderate_condition
                                ? ": coefficients trade places, penalties decide between them"
                                : "")
              : std::string("the standardised design is singular: some columns are combinations of others"),
          {},
          {{"condition_number", condition}, {"largest_eigenvalue", largest}, {"least_eigenvalue", least}}};
}

DataFinding collinear_columns(const Prepared& p, const Mat& correlation) {
  const std::vector<Dependence> found = dependences(correlation, 1 - collinear);
  DataFinding finding{
      "collinear-columns", found.empty(),
      fmt::format("no feature is predicted by the ones before it with R² above {:g}", collinear)};
  std::vector<std::string> sentences;
  for (const Dependence& each : found) {
    const std::string& name = p.names[static_cast<std::size_t>(each.column)];
    finding.columns.push_back(name);
    std::vector<std::string> from;
    for (const auto& [column, weight] : each.from) from.push_back(p.names[static_cast<std::size_t>(column)]);
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

/// A threshold of one feature with all rows of one class below it and all others above.
std::optional<std::string> separating_feature(const Prepared& p) {
  const auto d = static_cast<Index>(p.names.size());
  Mat least = Mat::Constant(d, 2, bilevel::everywhere), most = -least;
  Vec row(d);
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i) {
      row.setZero();
      p.samples.matrix->for_each(i, [&](Index j, double x) { row[j] = x; });
      const Index side = (*p.samples.classes)[static_cast<std::size_t>(i)] > 0 ? 1 : 0;
      least.col(side) = least.col(side).cwiseMin(row);
      most.col(side) = most.col(side).cwiseMax(row);
    }
  for (Index j = 0; j < d; ++j)
    if (most(j, 0) < least(j, 1) || most(j, 1) < least(j, 0)) return p.names[static_cast<std::size_t>(j)];
  return {};
}

/// The classes are told apart by a weakly penalised fit, whose margins prove it, or hardly at all.
DataFinding separable_classes(const Prepared& p) {
  const auto model = make_fold_model(p, p.final);
  const auto d = static_cast<Index>(p.names.size());
  model->use(PenaltyMap::global(d, p.outputs));
  const auto settled = model->settle(Vec::Constant(1, -16.0), nullptr, 1e-7);
  Vec margins;
  model->training().rows(model->stored_coefficients(settled.phi), nullptr, margins);
  Index row = 0, wrong = 0;
  double least = bilevel::everywhere;
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i, ++row) {
      const int label = (*p.samples.classes)[static_cast<std::size_t>(i)];
      double margin = 0;
      if (p.outputs == 1) {
        margin = label > 0 ? margins[row] : -margins[row];
      } else {
        const auto own = margins.segment(row * p.outputs, p.outputs);
        double rival = -bilevel::everywhere;
        for (Index c = 0; c < p.outputs; ++c)
          if (c != label) rival = std::max(rival, own[c]);
        margin = own[label] - rival;
      }
      least = std::min(least, margin);
      wrong += !(margin > 0);
    }
  DataFinding finding{
      "separable-classes",
      wrong > 0,
      fmt::format("no direction tells the classes apart: {} of {} training rows stay on the wrong side",
                  wrong, row),
      {},
      {{"training_rows_on_the_wrong_side", static_cast<double>(wrong)}, {"least_margin", least}}};
  if (wrong > 0) return finding;
  const Vec coefficients = model->standardised_coefficients(settled.phi);
  std::vector<Index> order(static_cast<std::size_t>(d));
  std::iota(order.begin(), order.end(), Index{0});
  const auto size = [&](Index j) { return coefficients.segment(j * p.outputs, p.outputs).norm(); };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return size(a) > size(b); });
  for (const Index j : order)
    if (finding.columns.size() < 5 && size(j) >= 0.1 * size(order[0]))
      finding.columns.push_back(p.names[static_cast<std::size_t>(j)]);
  const auto alone = p.outputs == 1 ? separating_feature(p) : std::nullopt;
  if (alone) finding.columns = {*alone};
  finding.sentence = fmt::format(
      "the classes are separable on the training rows: {}; without a penalty coefficients would grow for "
      "ever, so the "
      "best λ may be as small as its bound",
      alone ? fmt::format("'{}' alone tells them apart", *alone)
            : fmt::format("a direction along {} tells them apart", listed(finding.columns)));
  return finding;
}

/// u_i = d loss_i/dθ of validation rows of all folds, a column for each.
Mat row_pulls(const Prepared& p, const Vec& theta) {
  Folds folds(p);
  const Folds::All settled = folds.settle(theta, {}, 1e-8, false);
  auto all = folds.row_hypergradients(theta, settled);
  Index rows = 0;
  for (const auto& each : all) rows += std::min(each->rows(), most_rows / static_cast<Index>(all.size()) + 1);
  Mat pulls(theta.size(), rows);
  Index place = 0;
  for (const auto& each : all) {
    const Index some = std::min(each->rows(), most_rows / static_cast<Index>(all.size()) + 1);
    pulls.middleCols(place, some) = each->of(0, Mat::Identity(some, some));
    place += some;
  }
  return pulls;
}

DataFinding penalties_told_apart(const Prepared& p, const Vec& theta) {
  const Mat pulls = row_pulls(p, theta);
  const Index thetas = p.penalties.count;
  const Vec sizes = pulls.topRows(thetas).rowwise().norm();
  DataFinding finding{"penalties-told-apart", true, ""};
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
        for (const std::string& each : {one, other})
          if (std::find(same.begin(), same.end(), each) == same.end()) same.push_back(each);
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

std::vector<DataFinding> diagnose(const Prepared& p, const Vec& theta) {
  std::vector<DataFinding> findings{rows_per_coefficient(p), constant_columns(p)};
  if (const Mat correlation = correlations(p); correlation.size() > 0) {
    findings.push_back(condition_number(correlation));
    findings.push_back(collinear_columns(p, correlation));
  }
  if (p.model.classifies()) findings.push_back(separable_classes(p));
  if (p.penalties.count > 1 && p.penalties.count <= most_columns)
    findings.push_back(penalties_told_apart(p, theta));
  return findings;
}

}  // namespace bilevel::models
