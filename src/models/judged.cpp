#include "judged.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bilevel::models {

void Judged::add(bilevel::problems::RowLosses& loss, const Vec& u) {
  Vec losses, margins;
  loss.rows(u, &losses, margins);
  const auto& samples = loss.samples();
  const Index outputs = prepared_.outputs;
  Index row = 0;
  for (const auto& [first, last] : loss.ranges())
    for (Index i = first; i < last; ++i, ++row) {
      const double weight = samples.weights ? (*samples.weights)[i] : 1;
      // What weighs nothing does not count, not even where its loss is infinite.
      if (weight == 0) continue;
      losses_.push_back(losses[row]);
      weights_.push_back(weight);
      labels_.push_back((*samples.labels)[i]);
      if (samples.classes) classes_.push_back((*samples.classes)[static_cast<std::size_t>(i)]);
      margins_.insert(margins_.end(), margins.data() + row * outputs, margins.data() + (row + 1) * outputs);
    }
}

Quality Judged::quality() const {
  Quality q;
  const std::size_t n = losses_.size();
  q.rows = static_cast<Index>(n);
  if (n == 0) return q;
  const double scale2 = prepared_.target_scale * prepared_.target_scale;
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  const auto [mean, error] = weighted_mean(losses_, weights_);
  q.loss = mean * scale2;
  q.standard_error = error * scale2;

  if (prepared_.model.classifies()) {
    const auto outputs = static_cast<std::size_t>(prepared_.outputs);
    double right = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double* m = margins_.data() + i * outputs;
      const bool hit =
          outputs == 1 ? (m[0] > 0) == (labels_[i] > 0) : std::max_element(m, m + outputs) - m == classes_[i];
      right += hit ? weights_[i] : 0;
    }
    q.accuracy = right / total;
    if (outputs == 1) q.auc = area_under_curve(margins_, labels_, weights_);
    return q;
  }
  // Residuals of the prediction in units of the target.
  double residual = 0, spread = 0, centre = 0;
  for (std::size_t i = 0; i < n; ++i) centre += weights_[i] * labels_[i] / total;
  for (std::size_t i = 0; i < n; ++i) {
    const double predicted = prepared_.model.loss_kind().predicted(margins_[i]);
    residual += weights_[i] * (predicted - labels_[i]) * (predicted - labels_[i]) / total;
    spread += weights_[i] * (labels_[i] - centre) * (labels_[i] - centre) / total;
  }
  q.rmse = std::sqrt(residual) * prepared_.target_scale;
  if (spread > 0) q.r2 = 1 - residual / spread;
  return q;
}

std::vector<double> Judged::losses() const {
  std::vector<double> scaled = losses_;
  for (double& each : scaled) each *= prepared_.target_scale * prepared_.target_scale;
  return scaled;
}

std::pair<double, double> weighted_mean(const std::vector<double>& values,
                                        const std::vector<double>& weights) {
  double total = 0, squares = 0, mean = 0, spread = 0;
  for (const double w : weights) total += w, squares += w * w;
  for (std::size_t i = 0; i < values.size(); ++i) mean += weights[i] * values[i] / total;
  for (std::size_t i = 0; i < values.size(); ++i)
    spread += weights[i] * (values[i] - mean) * (values[i] - mean) / total;
  // As many rows as there would be if all weighed the same; one row says nothing of its error.
  const double share = squares / (total * total);
  return {mean, share < 1 ? std::sqrt(spread * share / (1 - share)) : bilevel::everywhere};
}

std::pair<double, double> mean_difference(std::vector<double> above, const std::vector<double>& below,
                                          const std::vector<double>& weights) {
  for (std::size_t i = 0; i < above.size(); ++i) above[i] -= below[i];
  return weighted_mean(above, weights);
}

double rows_that_count(const std::vector<double>& losses, const std::vector<double>& weights) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const double each = weights[i] * std::abs(losses[i]);
    sum += each;
    squares += each * each;
  }
  return squares > 0 ? sum * sum / squares : 0;
}

std::optional<double> area_under_curve(const std::vector<double>& scores, const std::vector<double>& labels,
                                       const std::vector<double>& weights) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double below = 0, positive = 0, area = 0;
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    double tied_negative = 0, tied_positive = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[i]]; ++end)
      (labels[order[end]] > 0 ? tied_positive : tied_negative) += weights[order[end]];
    area += tied_positive * (below + 0.5 * tied_negative);
    below += tied_negative;
    positive += tied_positive;
    i = end;
  }
  if (!(below > 0 && positive > 0)) return {};
  return area / (below * positive);
}

}  // namespace bilevel::models
