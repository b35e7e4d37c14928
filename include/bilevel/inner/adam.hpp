#pragma once

#include <vector>

#include <bilevel/inner/step.hpp>

namespace bilevel {

struct AdamOptions {
  /// α, about the distance that each element moves in an early iteration; > 0. It has a scale, so no
  /// default is right: this one suits elements of order 1.
  double step = 0.01;
  double first_decay = 0.9;     ///< of the mean of gradients; in [0, 1)
  double second_decay = 0.999;  ///< of the mean of their squares; in [0, 1)
  double floor = 1e-8;  ///< least √v̂, so that an element without gradient is not divided by 0; > 0

  Violations validate() const {
    Violations v("adam");
    v.positive("step", step);
    v.require(first_decay >= 0 && first_decay < 1, "first_decay", first_decay, "must lie in [0, 1)");
    v.require(second_decay >= 0 && second_decay < 1, "second_decay", second_decay, "must lie in [0, 1)");
    v.positive("floor", floor);
    return v;
  }
};

/// Adam with the maximum of AMSGrad (Reddi et al. 2018), without which the divisor shrinks along
/// with the gradient and a constant step never comes to rest:
///   m ← b₁m + (1 − b₁)g,   v ← b₂v + (1 − b₂)g²,   v̂ ← max(v̂, v/(1 − b₂ᵏ))
///   φ ← φ − α/(1 − b₁ᵏ) · m/√v̂
/// state.memory is m, v, v̂ and two of scratch.
template <Vector V>
class Adam final : public Step<V> {
 public:
  explicit Adam(AdamOptions options = {});
  std::string_view name() const override { return "adam"; }
  void check(Nudged<V>&, const State<V>&) override {}
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;

 private:
  AdamOptions options_;
};

template <Vector V>
Adam<V>::Adam(AdamOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
std::optional<Stop> Adam<V>::begin(Nudged<V>&, State<V>& state) {
  state.reset_memory(5);
  // v̂ starts at floor², which keeps √v̂ ≥ floor. In float the square must not underflow.
  const double least = std::max(options_.floor * options_.floor, 1e-30);
  const std::vector<double> host(static_cast<std::size_t>(Space<V>::size(state.phi)), least);
  Space<V>::from_host(host.data(), state.memory[2]);
  return {};
}

template <Vector V>
std::optional<Stop> Adam<V>::advance(Nudged<V>&, State<V>& state) {
  V &m = state.memory[0], &v = state.memory[1], &largest = state.memory[2];
  V &x = state.memory[3], &y = state.memory[4];
  const double k = static_cast<double>(state.iteration + 1);
  const double b1 = options_.first_decay, b2 = options_.second_decay;

  Space<V>::scale(b1, m);
  Space<V>::axpy(1 - b1, state.gradient, m);
  Space<V>::copy(state.gradient, x);
  Space<V>::multiply(state.gradient, x);
  Space<V>::scale(b2, v);
  Space<V>::axpy(1 - b2, x, v);

  // max(v̂, w) by clamp: both are ≥ 0, so their sum is an upper bound that never cuts.
  Space<V>::copy(v, x);
  Space<V>::scale(1 / (1 - std::pow(b2, k)), x);
  Space<V>::copy(largest, y);
  Space<V>::axpy(1, x, y);
  Space<V>::clamp(x, y, largest);

  Space<V>::copy(largest, y);
  Space<V>::sqrt(y);
  Space<V>::copy(m, x);
  Space<V>::divide(y, x);
  Space<V>::axpy(-options_.step / (1 - std::pow(b1, k)), x, state.phi);
  state.evaluated = false;
  return {};
}

extern template class Adam<Eigen::VectorXd>;
extern template class Adam<Eigen::VectorXf>;

}  // namespace bilevel
