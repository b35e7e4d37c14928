#pragma once

#include <vector>

#include <bilevel/networks/training_options.hpp>

namespace bilevel::networks {

/// θ, and how it moves. Sizes and rates are fixed for an epoch; nothing is allocated in a step.
class Weights {
 public:
  explicit Weights(const TrainSettings& settings, Eigen::VectorXf theta);

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
  /// Weights between the layers `below` and `layer`, whose activities move about these middles.
  struct Centred {
    LayerParameters layer, below;
    float middle, middle_below;
    double rate, decay;
    Index sums;  // where the sums of its rows, then of its columns, are in sums_
  };

  void centre(const Eigen::VectorXf& gradient, double factor);
  void move_biases_along();

  bool adam_;
  double momentum_;
  float least_;
  std::vector<Piece> pieces_;  // weights and biases of each layer
  std::vector<Centred> centred_;
  Eigen::VectorXf gradient_, sums_;  // of centred couplings
  Eigen::VectorXf theta_;
};

}  // namespace bilevel::networks
