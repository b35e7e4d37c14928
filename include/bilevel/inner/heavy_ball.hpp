#pragma once

#include <optional>

#include <bilevel/inner/momentum_step.hpp>

namespace bilevel {

struct HeavyBallOptions {
  static constexpr std::string_view name = "heavy-ball";
  static constexpr bool remembers = true;
  /// α; ≥ 0. 0, the default: 4/(√L + √μ)² on a quadratic whose μ and L are known (Polyak's optimum),
  /// else 1/L, because Polyak's choice may cycle where the curvature varies (Lessard et al. 2016).
  double step = 0;
  /// m; in [0, 1). Default: ((√κ − 1)/(√κ + 1))² with Polyak's step, (1 − 1/√κ)² with 1/L, κ = L/μ;
  /// 0.9 where μ is not known.
  std::optional<double> momentum;

  Violations validate() const {
    Violations v(name);
    v.not_negative("step", step);
    if (momentum) v.require(*momentum >= 0 && *momentum < 1, "momentum", *momentum, "must lie in [0, 1)");
    return v;
  }
  StepCoefficients coefficients(double mu, double smoothness, bool quadratic) const {
    const double root_mu = std::sqrt(mu), root_l = std::sqrt(smoothness);
    const bool know_mu = root_mu > 0 && root_l > 0;
    StepCoefficients use;
    if (step == 0 && quadratic && know_mu) {
      use.step = 4 / ((root_l + root_mu) * (root_l + root_mu));
      use.momentum = (root_l - root_mu) / (root_l + root_mu);
      use.momentum *= use.momentum;
    } else {
      use.step = step > 0 ? step : 1 / smoothness;
      const double root = 1 - root_mu / root_l;
      use.momentum = know_mu ? root * root : 0.9;
    }
    if (momentum) use.momentum = *momentum;
    use.keep = use.momentum;
    return use;
  }
};

/// Polyak's heavy ball: d ← m·d − α∇(φ), φ ← φ + d. state.memory[0] is d.
template <Vector V>
using HeavyBall = MomentumStep<V, HeavyBallOptions>;

extern template class MomentumStep<Eigen::VectorXd, HeavyBallOptions>;
extern template class MomentumStep<Eigen::VectorXf, HeavyBallOptions>;

}  // namespace bilevel
