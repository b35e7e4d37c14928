#include "weights.hpp"

#include <cmath>
#include <limits>

#include <bilevel/networks/weight_steps.hpp>
#include <bilevel/space/adam_moments.hpp>

namespace bilevel::networks {
namespace {

using Couplings = Eigen::Map<Eigen::MatrixXf>;
using ConstCouplings = Eigen::Map<const Eigen::MatrixXf>;

}  // namespace

Weights::Weights(const TrainSettings& s, Eigen::VectorXf theta)
    : adam_(s.optimizer == WeightOptimizer::adam),
      momentum_(s.momentum),
      least_(s.architecture.resistive() ? 0 : -std::numeric_limits<float>::infinity()),
      theta_(std::move(theta)) {
  for (Index k = 1; k <= s.architecture.depth(); ++k) {
    const auto p = s.architecture.layer(k);
    const double rate = s.learning_rates[static_cast<std::size_t>(k - 1)];
    pieces_.push_back({p.weights, p.bias - p.weights, rate, s.weight_decay});
    pieces_.push_back({p.bias, p.end - p.bias, rate, 0});
  }
  if (s.centred) {
    const auto& a = s.architecture;
    const auto middle = static_cast<float>(middle_of(a.activation));
    Index sums = 0;
    for (Index k = 2; k <= a.depth(); ++k) {
      centred_.push_back({a.layer(k), a.layer(k - 1), k < a.depth() ? middle : 0, middle,
                          s.learning_rates[static_cast<std::size_t>(k - 1)], s.weight_decay, sums});
      sums += a.width(k) + a.width(k - 1);
    }
    gradient_.resize(theta_.size());
    sums_.resize(sums);
  }
  if (adam_ || momentum_ > 0) first_moment = Eigen::VectorXf::Zero(theta_.size());
  if (adam_) second_moment = Eigen::VectorXf::Zero(theta_.size());
}

/// With s = m + t a coupling sᵀWs is tᵀWt and what adds to biases. Their gradient is that of W less m times
/// those of the biases; without it all weights of a unit pull at its bias at once, hundreds of times as far.
void Weights::centre(const Eigen::VectorXf& gradient, double factor) {
  gradient_ = gradient;
  for (const Centred& c : centred_) {
    const Index units = c.layer.units, inputs = c.layer.inputs;
    Couplings g(gradient_.data() + c.layer.weights, units, inputs);
    g.colwise() -= c.middle_below * gradient.segment(c.layer.bias, units);
    g.rowwise() -= c.middle * gradient.segment(c.below.bias, inputs).transpose();
    const ConstCouplings w(theta_.data() + c.layer.weights, units, inputs);
    // Weight decay leaves biases alone: what it takes off is not made up for.
    const auto keep = static_cast<float>(1 - factor * c.rate * c.decay);
    sums_.segment(c.sums, units) = keep * w.rowwise().sum();
    sums_.segment(c.sums + units, inputs) = keep * w.colwise().sum().transpose();
  }
}

/// What a change of W adds at the middle is taken off the biases again.
void Weights::move_biases_along() {
  for (const Centred& c : centred_) {
    const Index units = c.layer.units, inputs = c.layer.inputs;
    const ConstCouplings w(theta_.data() + c.layer.weights, units, inputs);
    theta_.segment(c.layer.bias, units) -=
        c.middle_below * (w.rowwise().sum() - sums_.segment(c.sums, units));
    theta_.segment(c.below.bias, inputs) -=
        c.middle * (w.colwise().sum().transpose() - sums_.segment(c.sums + units, inputs));
  }
}

void Weights::step(const Eigen::VectorXf& given, double factor) {
  ++steps;
  if (!centred_.empty()) centre(given, factor);
  const Eigen::VectorXf& gradient = centred_.empty() ? given : gradient_;
  constexpr AdamMoments moments;
  const auto count = static_cast<double>(steps);
  for (const Piece& piece : pieces_) {
    const double rate = factor * piece.rate, keep = 1 - rate * piece.decay;
    const float* const g = gradient.data() + piece.first;
    float* const w = theta_.data() + piece.first;
    if (adam_)
      adam_step(piece.count, keep, rate / moments.first_weight(count), 1 / moments.second_weight(count),
                moments.first_decay, moments.second_decay, 1e-8, g, first_moment.data() + piece.first,
                second_moment.data() + piece.first, least_, w);
    else if (momentum_ > 0)
      momentum_step(piece.count, keep, rate, momentum_, g, first_moment.data() + piece.first, least_, w);
    else
      descent_step(piece.count, keep, rate, g, least_, w);
  }
  move_biases_along();
}

}  // namespace bilevel::networks
