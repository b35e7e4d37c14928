#pragma once

#include <optional>

#include <bilevel/inner/momentum_step.hpp>

namespace bilevel {

struct NesterovOptions {
  static constexpr std::string_view name = "nesterov";
  static constexpr bool remembers = true;
  /// α; ≥ 0. 0, the default, is 1/L as in GradientDescentOptions.
  double step = 0;
  /// m; in [0, 1). Default: (1 − √(αμ))/(1 + √(αμ)) where μ is known, which contracts the error by
  /// 1 − 1/√κ an iteration (Nesterov 2004, theorem 2.2.3); else 0.9.
  std::optional<double> momentum;

  Violations validate() const {
    Violations v(name);
    v.not_negative("step", step);
    if (momentum) v.require(*momentum >= 0 && *momentum < 1, "momentum", *momentum, "must lie in [0, 1)");
    return v;
  }
  /// x takes φ's place and moves on to x_{k+1}; φ, now x_k, becomes (1 + m)·x_{k+1} − m·x_k.
  StepCoefficients coefficients(double mu, double smoothness, bool /*quadratic*/) const {
    StepCoefficients use{.step = step > 0 ? step : 1 / smoothness, .swaps = true, .keep = 1};
    const double root = std::sqrt(use.step * mu);
    use.momentum = momentum ? *momentum : root > 0 && root <= 1 ? (1 - root) / (1 + root) : 0.9;
    use.stay = -use.momentum;
    use.go = 1 + use.momentum;
    return use;
  }
};

/// Nesterov's accelerated gradient, in the form where φ is the extrapolated point, at which the
/// gradient is taken:
///   x_{k+1} = φ_k − α∇(φ_k),   φ_{k+1} = x_{k+1} + m(x_{k+1} − x_k),   x_0 = φ_0.
/// state.memory[0] is x.
template <Vector V>
using Nesterov = MomentumStep<V, NesterovOptions>;

extern template class MomentumStep<Eigen::VectorXd, NesterovOptions>;
extern template class MomentumStep<Eigen::VectorXf, NesterovOptions>;

}  // namespace bilevel
