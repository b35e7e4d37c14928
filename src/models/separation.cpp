// Whether classes can be told apart without a mistake: by a threshold of one feature, which is looked for in
// full, or by the direction that a weakly penalised fit finds, whose margins prove it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "findings.hpp"
#include "fold_model.hpp"

namespace bilevel::models {
namespace {

constexpr const char* separable_name = "separable-classes";

Index class_of(const Prepared& p, Index row) {
  const int label = (*p.samples.classes)[static_cast<std::size_t>(row)];
  return p.outputs == 1 ? (label > 0 ? 1 : 0) : label;
}

/// A value of one feature with a class on one side of it and all other rows on the other, or at it.
struct Threshold {
  Index feature, of;  ///< of: the class
  double value;       ///< where rows of both sides may be, unless there is a gap
  bool gap;
  Index told = 0;  ///< rows that are not at `value`
};

/// `least` and `most` of the class and of the rest.
std::optional<Threshold> threshold(Index j, Index c, double least, double most, double rest_least,
                                   double rest_most) {
  if (rest_most < least || most < rest_least) return Threshold{j, c, 0, true};
  if (!(least < most || rest_least < rest_most)) return {};  // a constant
  if (rest_most == least) return Threshold{j, c, least, false};
  if (most == rest_least) return Threshold{j, c, most, false};
  return {};
}

std::vector<Threshold> thresholds(const Prepared& p, const Ranges& ranges) {
  const auto classes = static_cast<Index>(ranges.rows.size());
  std::vector<Threshold> found;
  for (Index j = 0; j < ranges.least.rows(); ++j)
    for (Index c = p.outputs == 1 ? 1 : 0; c < classes; ++c) {
      double rest_least = bilevel::everywhere, rest_most = -bilevel::everywhere;
      for (Index other = 0; other < classes; ++other) {
        if (other == c) continue;
        rest_least = std::min(rest_least, ranges.least(j, other));
        rest_most = std::max(rest_most, ranges.most(j, other));
      }
      if (ranges.rows[static_cast<std::size_t>(c)] == 0 || !(rest_least <= rest_most)) continue;
      if (const auto one = threshold(j, c, ranges.least(j, c), ranges.most(j, c), rest_least, rest_most))
        found.push_back(*one);
    }
  return found;
}

/// How many rows each of them tells: all but those at the value itself, where both sides may be.
void count_told(const Prepared& p, std::vector<Threshold>& found) {
  const bilevel::problems::ModelMatrix& matrix = *p.samples.matrix;
  std::vector<std::vector<std::size_t>> of(static_cast<std::size_t>(matrix.features()));
  for (std::size_t k = 0; k < found.size(); ++k) of[static_cast<std::size_t>(found[k].feature)].push_back(k);
  std::vector<Index> at(found.size(), 0), stored(found.size(), 0);
  Index rows = 0;
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i) {
      if (!counts(p, i)) continue;
      ++rows;
      matrix.for_each(i, [&](Index j, double x) {
        for (const std::size_t k : of[static_cast<std::size_t>(j)]) {
          ++stored[k];
          if (x == found[k].value) ++at[k];
        }
      });
    }
  for (std::size_t k = 0; k < found.size(); ++k) {
    const Index implied = found[k].value == 0 ? rows - stored[k] : 0;
    found[k].told = found[k].gap ? rows : rows - at[k] - implied;
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Threshold& a, const Threshold& b) { return a.told > b.told; });
}

/// One feature tells the classes, or one of them from the rest, without a mistake.
std::string sentence_of(const Prepared& p, const Threshold& t, std::size_t others) {
  const std::string& feature = p.names[static_cast<std::size_t>(t.feature)];
  const auto class_name = [&](Index c) {
    const auto k = static_cast<std::size_t>(c);
    return k < p.classes.size() ? p.classes[k] : fmt::format("{}", c);
  };
  std::string text;
  if (t.gap) {
    text = p.outputs <= 2
               ? fmt::format("'{}' alone tells the classes apart", feature)
               : fmt::format("'{}' alone tells class '{}' from the others", feature, class_name(t.of));
  } else {
    text = fmt::format(
        "'{}' alone tells class '{}' from the {} in {} training rows, all but those where it is {:.6g} "
        "(quasi-complete separation)",
        feature, class_name(t.of), p.outputs <= 2 ? "other" : "others", t.told,
        t.value * p.stored_scale[t.feature] + p.stored_shift[t.feature]);
  }
  if (others > 0) text += fmt::format("; so {} {} more", others == 1 ? "does" : "do", others);
  return text;
}

struct Direction {
  FoldModel::Settled settled;
  Vec coefficients;  ///< of the standardised features
  Index rows = 0, wrong = 0;
  double least_margin = bilevel::everywhere;
};

/// A fit with hardly any penalty, and how many training rows it leaves on the wrong side.
Direction weakly_penalised(const Prepared& p, const DiagnosisOptions& options) {
  const auto model = make_fold_model(p, p.final);
  model->obey(options.stop);
  model->use(bilevel::problems::PenaltyMap::global(static_cast<Index>(p.penalties.of.size()), 1));
  Direction d;
  d.settled = model->settle(Vec::Constant(1, -16.0), nullptr, 1e-7);
  if (!d.settled.phi.allFinite()) return d;
  d.coefficients = model->standardised_coefficients(d.settled.phi);
  Vec margins;
  model->training().rows(model->stored_coefficients(d.settled.phi), nullptr, margins);
  Index row = 0;
  for (const auto& [first, last] : p.final.training)
    for (Index i = first; i < last; ++i, ++row) {
      if (!counts(p, i)) continue;
      const Index label = class_of(p, i);
      double margin = 0;
      if (p.outputs == 1) {
        margin = label == 1 ? margins[row] : -margins[row];
      } else {
        const auto own = margins.segment(row * p.outputs, p.outputs);
        double rival = -bilevel::everywhere;
        for (Index c = 0; c < p.outputs; ++c)
          if (c != label) rival = std::max(rival, own[c]);
        margin = own[label] - rival;
      }
      d.least_margin = std::min(d.least_margin, margin);
      ++d.rows;
      d.wrong += !(margin > 0);
    }
  return d;
}

/// The features that the direction goes along, the strongest first.
std::vector<std::string> along(const Prepared& p, const Vec& coefficients) {
  std::vector<Index> order(p.names.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto size = [&](Index j) { return coefficients.segment(j * p.outputs, p.outputs).norm(); };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return size(a) > size(b); });
  std::vector<std::string> names;
  for (const Index j : order)
    if (names.size() < 5 && size(j) >= 0.1 * size(order[0]))
      names.push_back(p.names[static_cast<std::size_t>(j)]);
  return names;
}

/// What the fit says, in a finding of its own.
DataFinding by_direction(const Prepared& p, const DiagnosisOptions& options) {
  const Index rows = problems::row_count(p.final.training);
  if (const auto why = too_much(work_of_fit(p, rows), options)) return not_looked_at(separable_name, *why);
  const Direction d = weakly_penalised(p, options);
  if (cut_short(d.settled.status)) return not_looked_at(separable_name, d.settled.message);
  if (d.rows == 0)
    return not_looked_at(separable_name, fmt::format("the fit with hardly any penalty ended as {}: {}",
                                                     name(d.settled.status), d.settled.message));
  DataFinding finding{separable_name, true, "", {}, {}};
  finding.numbers = {{"training_rows_on_the_wrong_side", static_cast<double>(d.wrong)},
                     {"least_margin", d.least_margin}};
  if (d.wrong == 0) {
    finding.good = false;
    finding.columns = along(p, d.coefficients);
    finding.sentence = fmt::format("a direction along {} tells them apart", listed(finding.columns));
    return finding;
  }
  finding.sentence = fmt::format(
      "no direction was found that tells the classes apart: {} of {} training rows stay "
      "on the wrong side",
      d.wrong, d.rows);
  const bool settled =
      d.settled.status == bilevel::Status::converged || d.settled.status == bilevel::Status::stalled;
  if (!settled) {
    finding.good = false;
    finding.sentence +=
        fmt::format("; the fit that looked for one did not converge ({})", name(d.settled.status));
  }
  return finding;
}

}  // namespace

DataFinding separable_classes(const Prepared& p, const DiagnosisOptions& options) {
  const Index classes = std::max<Index>(p.outputs, 2);
  const auto d = static_cast<double>(p.names.size());
  std::vector<Threshold> found;
  const bool fits_into_memory = d * static_cast<double>(classes) <= 5e7;
  if (fits_into_memory) {
    const Ranges ranges = ranges_of(p, classes, [&](Index row) { return class_of(p, row); });
    if (std::count_if(ranges.rows.begin(), ranges.rows.end(), [](Index rows) { return rows > 0; }) < 2)
      return not_looked_at(separable_name, "the training rows are of one class only");
    found = thresholds(p, ranges);
    count_told(p, found);
  }
  const std::string consequence =
      p.intercept && p.model.probable()
          ? "; without a penalty coefficients would grow for ever, so the best λ may be as small as its bound"
          : "";
  const auto whole = static_cast<std::size_t>(
      std::count_if(found.begin(), found.end(), [](const Threshold& t) { return t.gap; }));
  if (whole > 0) {
    // They tell all rows, so they are the first.
    DataFinding finding{separable_name,
                        false,
                        "",
                        {p.names[static_cast<std::size_t>(found[0].feature)]},
                        {{"training_rows_on_the_wrong_side", 0}, {"least_margin", bilevel::unknown}}};
    finding.sentence = fmt::format("the classes are separable on the training rows: {}{}",
                                   sentence_of(p, found[0], whole - 1), consequence);
    return finding;
  }
  DataFinding finding = by_direction(p, options);
  const bool proven = !finding.columns.empty();
  if (proven)
    finding.sentence =
        fmt::format("the classes are separable on the training rows: {}{}", finding.sentence, consequence);
  if (found.empty()) return finding;
  const std::string partly = sentence_of(p, found[0], found.size() - 1);
  finding.sentence = proven ? fmt::format("{}; {}", finding.sentence, partly)
                            : fmt::format("{}{}; {}", partly, consequence, finding.sentence);
  finding.good = false;
  for (const Threshold& each : found) {
    const std::string& feature = p.names[static_cast<std::size_t>(each.feature)];
    const bool known =
        std::find(finding.columns.begin(), finding.columns.end(), feature) != finding.columns.end();
    if (!proven && !known) finding.columns.push_back(feature);
  }
  finding.numbers.emplace_back("features_of_quasi_complete_separation", static_cast<double>(found.size()));
  return finding;
}

}  // namespace bilevel::models
