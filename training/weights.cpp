#include "weights.hpp"

#include <cmath>
#include <limits>

#include <bilevel/networks/weight_steps.hpp>

namespace training {

Weights::Weights(const Settings& s, Eigen::VectorXf theta)
    : adam_(s.optimizer == "adam"),
      momentum_(static_cast<float>(s.momentum)),
      least_(s.architecture.resistive() ? 0 : -std::numeric_limits<float>::infinity()),
      theta_(std::move(theta)) {
  // Pieces that a core takes at a time.
  constexpr Index most = 1 << 15;
  for (Index k = 1; k <= s.architecture.depth(); ++k) {
    const auto p = s.architecture.layer(k);
    for (Index first = p.weights; first < p.end; first += most)
      pieces_.push_back(
          {first, std::min(most, p.end - first), s.learning_rates[static_cast<std::size_t>(k - 1)]});
  }
  if (adam_ || momentum_ > 0) first_moment = Eigen::VectorXf::Zero(theta_.size());
  if (adam_) second_moment = Eigen::VectorXf::Zero(theta_.size());
}

void Weights::step(const Eigen::VectorXf& gradient, double factor) {
  ++steps;
  constexpr double beta1 = 0.9, beta2 = 0.999;
  const double first_correction = 1 - std::pow(beta1, static_cast<double>(steps)),
               second_correction = 1 - std::pow(beta2, static_cast<double>(steps));
  const auto count = static_cast<Index>(pieces_.size());
#pragma omp parallel for schedule(static)
  for (Index i = 0; i < count; ++i) {
    const Piece& p = pieces_[static_cast<std::size_t>(i)];
    const double rate = factor * p.rate;
    const float* const g = gradient.data() + p.first;
    float* const w = theta_.data() + p.first;
    if (adam_) {
      bilevel::networks::adam_step(p.count, rate / first_correction, 1 / second_correction, beta1, beta2,
                                   1e-8, g, first_moment.data() + p.first, second_moment.data() + p.first,
                                   least_, w);
    } else if (momentum_ > 0) {
      auto velocity = first_moment.segment(p.first, p.count);
      velocity = momentum_ * velocity + gradient.segment(p.first, p.count);
      bilevel::networks::descent_step(p.count, rate, velocity.data(), least_, w);
    } else {
      bilevel::networks::descent_step(p.count, rate, g, least_, w);
    }
  }
}

}  // namespace training
