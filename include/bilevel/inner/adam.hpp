#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/inner/step.hpp>
#include <bilevel/space/adam_moments.hpp>
#include <bilevel/space/eigen.hpp>

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
/// state.memory is m, v, v̂ and two of scratch. The derivative is exact; where the two under the maximum are
/// equal, it is that of the old v̂.
template <Vector V>
class Adam final : public Step<V> {
 public:
  explicit Adam(AdamOptions options = {});
  std::string_view name() const override { return "adam"; }
  void check(Nudged<V>&, const State<V>&) override {}
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::size_t bytes() const override { return work_.empty() ? 0 : work_.size() * bytes_of(work_[0]); }
  bool differentiable() const override { return true; }
  Footprint footprint() const override { return {.memory = 3, .scratch = 2 + works}; }
  bool linear() const override { return false; }
  void differentiate(State<V>& state) override;
  void pullback(Motion<V>& cotangent, V& gradient) override;
  void pushforward(const V& gradient, Motion<V>& tangent) override;

 private:
  AdamMoments moments() const { return {options_.first_decay, options_.second_decay}; }
  void update_moments(const V& gradient, double k, V& m, V& v, V& largest, V& x, V& y) const;
  // v̂ starts at floor², which keeps √v̂ ≥ floor. In float the square must not underflow.
  double least() const { return std::max(options_.floor * options_.floor, 1e-30); }

  AdamOptions options_;
  // Of the derivative: φ′ = φ + p·m′ + q·v̂′ and v̂′ = v̂ + s·(c·v′ − v̂), v′ = b₂v + h·g to first order.
  static constexpr std::size_t works = 6;
  std::vector<V> work_;          // q, h, scratch, s, p, ones
  double correction_ = unknown;  // c
};

extern template class Adam<Eigen::VectorXd>;
extern template class Adam<Eigen::VectorXf>;

}  // namespace bilevel
