#pragma once

#include "gradient_source.hpp"
#include "trainer.hpp"

namespace training {

/// A few rows on which the gradient that training uses is held against the exact one: test rows, on which it
/// does not vanish as the training rows are learned.
class GradientProbe {
 public:
  /// The first `settings.probe` test rows. Both must outlive it.
  GradientProbe(const Settings& settings, const TrainData& data);

  /// `certified`: with a bound of the exact gradient's own error, which takes longer.
  Probe compare(GradientSource& source, const Eigen::VectorXf& theta, bool certified);
  /// How the phases settle at θ, step by step.
  std::vector<Trace> traces(const Eigen::VectorXf& theta) const;

 private:
  const Settings& settings_;
  Matrix inputs_, targets_;
};

}  // namespace training
