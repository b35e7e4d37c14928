#pragma once

#include <bilevel/inner/momentum_step.hpp>

namespace bilevel {

struct GradientDescentOptions {
  static constexpr std::string_view name = "gradient-descent";
  static constexpr bool remembers = false;
  /// α in φ ← φ − α∇(φ); ≥ 0. 0, the default, is 1/L, the longest step that never increases a loss
  /// whose gradient is L-Lipschitz: L from the problem's constants where they hold everywhere, else
  /// measured at the start.
  double step = 0;

  Violations validate() const {
    Violations v(name);
    v.not_negative("step", step);
    return v;
  }
  StepCoefficients coefficients(double /*mu*/, double smoothness, bool /*quadratic*/) const {
    return {.step = step > 0 ? step : 1 / smoothness};
  }
};

/// φ ← φ − α∇(φ). On a μ-strongly convex loss ‖φ_k − φ*‖ ≤ (1 − μ/L)ᵏ ‖φ_0 − φ*‖ with α = 1/L.
template <Vector V>
using GradientDescent = MomentumStep<V, GradientDescentOptions>;

extern template class MomentumStep<Eigen::VectorXd, GradientDescentOptions>;
extern template class MomentumStep<Eigen::VectorXf, GradientDescentOptions>;

}  // namespace bilevel
