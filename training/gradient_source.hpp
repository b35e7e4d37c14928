#pragma once

#include <memory>

#include "task.hpp"

namespace training {

/// A way from a batch to the gradient of its mean cost.
class GradientSource {
 public:
  virtual ~GradientSource() = default;
  /// As networks::Propagation::gradient.
  virtual bilevel::networks::BatchOutcome gradient(const Eigen::VectorXf& theta, const float* inputs,
                                                   const float* targets, Index batch, float* states,
                                                   Eigen::VectorXf& out) = 0;
  /// Why the last gradient is not finite, where more is known than that.
  virtual std::string complaint() const { return {}; }
  /// What a person should know about the gradients so far.
  virtual std::string warning() const { return {}; }
  /// Whatever is random in the next batch follows from this number and the seed alone.
  virtual void seek(std::uint64_t /*batches*/) {}
};

std::unique_ptr<GradientSource> make_gradient_source(const Settings& settings);

}  // namespace training
