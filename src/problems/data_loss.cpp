#include <bilevel/problems/data_loss.hpp>

#include <cmath>
#include <utility>

#include <bilevel/outcome/violations.hpp>

namespace bilevel::problems {

RowLosses::RowLosses(Samples samples, std::vector<RowRange> ranges)
    : samples_(std::move(samples)), ranges_(std::move(ranges)) {
  if (!samples_.matrix) throw InvalidInput("data loss: there is no matrix");
  const Index rows = samples_.matrix->rows();
  const auto require = [&](const Eigen::VectorXd* each, std::string_view what) {
    if (!each) return;
    if (each->size() != rows)
      throw InvalidInput(fmt::format("data loss: {} {} for {} rows", each->size(), what, rows));
    for (Index i = 0; i < rows; ++i)
      if (!std::isfinite((*each)[i]))
        throw InvalidInput(
            fmt::format("data loss: the {} hold {} in row {} (counted from 0)", what, (*each)[i], i));
  };
  require(samples_.labels.get(), "labels");
  require(samples_.weights.get(), "weights");
  require(samples_.offsets.get(), "offsets");
  for (const auto& [first, last] : ranges_) {
    if (first < 0 || last > rows || first >= last)
      throw InvalidInput(fmt::format("data loss: rows {} to {} of {}", first, last, rows));
    for (Index i = first; i < last; ++i) total_weight_ += samples_.weights ? (*samples_.weights)[i] : 1;
  }
  if (samples_.weights && (samples_.weights->array() < 0).any())
    throw InvalidInput("data loss: a weight is negative");
  if (!(total_weight_ > 0)) throw InvalidInput("data loss: the rows of a part weigh nothing");
}

Extent measure(const RowLosses& loss, const Standardisation& standardisation) {
  const Samples& samples = loss.samples();
  return measure(*samples.matrix, loss.ranges(), samples.weights ? samples.weights->data() : nullptr,
                 standardisation);
}

Index row_count(const std::vector<RowRange>& ranges) {
  Index count = 0;
  for (const auto& [first, last] : ranges) count += last - first;
  return count;
}

Index RowLosses::row_count() const {
  return problems::row_count(ranges_);
}

double DataLoss::mean_curvature(const Eigen::VectorXd& u) {
  RowCurvature curvature;
  curvature_at(u, curvature);
  return curvature.weights.size() > 0 ? curvature.weights.sum() / total_weight_ : 1;
}

}  // namespace bilevel::problems
