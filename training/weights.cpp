#include "weights.hpp"

#include <cmath>
#include <limits>

#include <bilevel/networks/weight_steps.hpp>

namespace training {

Weights::Weights(const Settings& s, Eigen::VectorXf theta)
    : adam_(s.optimizer == "adam"),
      momentum_(s.momentum),
      least_(s.architecture.resistive() ? 0 : -std::numeric_limits<float>::infinity()),
      theta_(std::move(theta)) {
  for (Index k = 1; k <= s.architecture.depth(); ++k) {
    const auto p = s.architecture.layer(k);
    const double rate = s.learning_rates[static_cast<std::size_t>(k - 1)];
    pieces_.push_back({p.weights, p.bias - p.weights, rate, s.weight_decay});
    pieces_.push_back({p.bias, p.end - p.bias, rate, 0});
  }
  if (adam_ || momentum_ > 0) first_moment = Eigen::VectorXf::Zero(theta_.size());
  if (adam_) second_moment = Eigen::VectorXf::Zero(theta_.size());
}

void Weights::step(const Eigen::VectorXf& gradient, double factor) {
  ++steps;
  constexpr double beta1 = 0.9, beta2 = 0.999;
  const double first_correction = 1 - std::pow(beta1, static_cast<double>(steps)),
               second_correction = 1 - std::pow(beta2, static_cast<double>(steps));
  for (const Piece& piece : pieces_) {
    const double rate = factor * piece.rate, keep = 1 - rate * piece.decay;
    const float* const g = gradient.data() + piece.first;
    float* const w = theta_.data() + piece.first;
    if (adam_)
      bilevel::networks::adam_step(piece.count, keep, rate / first_correction, 1 / second_correction, beta1,
                                   beta2, 1e-8, g, first_moment.data() + piece.first,
                                   second_moment.data() + piece.first, least_, w);
    else if (momentum_ > 0)
      bilevel::networks::momentum_step(piece.count, keep, rate, momentum_, g,
                                       first_moment.data() + piece.first, least_, w);
    else
      bilevel::networks::descent_step(piece.count, keep, rate, g, least_, w);
  }
}

}  // namespace training
