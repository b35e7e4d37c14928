#pragma once

#include <bilevel/networks/batch_estimator.hpp>
#include <bilevel/networks/train.hpp>

namespace bilevel::networks {

/// A few rows on which the gradient that training uses is held against the exact one: test rows, on which it
/// does not vanish as the training rows are learned.
class GradientProbe {
 public:
  /// The first `settings.probe` test rows.
  GradientProbe(const TrainSettings& settings, const TrainingData& data);

  /// `certified`: with a bound of the exact gradient's own error, which takes longer.
  Probe compare(BatchEstimator& estimator, const Eigen::VectorXf& theta, bool certified);
  /// How the phases settle at θ, step by step.
  std::vector<Trace> traces(const Eigen::VectorXf& theta) const;

 private:
  const TrainSettings settings_;
  Eigen::MatrixXf inputs_, targets_;
};

}  // namespace bilevel::networks
