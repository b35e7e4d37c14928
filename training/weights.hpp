#pragma once

#include <vector>

#include "task.hpp"

namespace training {

/// θ, and how it moves. Sizes and rates are fixed for an epoch; nothing is allocated in a step.
class Weights {
 public:
  explicit Weights(const Settings& settings, Eigen::VectorXf theta);

  const Eigen::VectorXf& theta() const { return theta_; }
  void set_theta(const Eigen::VectorXf& theta) { theta_ = theta; }
  /// One step along −gradient, with the learning rates times `factor`. Conductances stay at or above zero.
  void step(const Eigen::VectorXf& gradient, double factor);

  // What a kept run holds.
  long steps = 0;
  Eigen::VectorXf first_moment, second_moment;  ///< empty where the optimiser has none

 private:
  struct Piece {
    Index first, count;
    double rate, decay;
  };

  bool adam_;
  double momentum_;
  float least_;
  std::vector<Piece> pieces_;  // weights and biases of each layer
  Eigen::VectorXf theta_;
};

}  // namespace training
