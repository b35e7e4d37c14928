#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Second looks: an estimated bound may not say "trusted" before something of another family than what gave
/// the gradient agrees with it. First derivatives are all that they ask for.

/// The least curvature of a loss at a state, from a random start: a saddle shows itself as a negative one.
template <Vector V>
struct LeastCurvature {
  V direction;             ///< v, of length one
  double step = unknown;   ///< over which it was seen
  double value = unknown;  ///< v·Hv, the least of those looked at
  double error = unknown;  ///< rounding in it
  bool negative() const { return value < -error; }
};

/// What this look may cost after `spent` gradients: one in twenty, and a few where that is nothing.
inline Index affordable_looks(double spent) {
  return static_cast<Index>(std::clamp(spent / 20, 6.0, 100.0));
}

/// By Lanczos on differences of ∂φ L_in, `residual` at φ, with about `most` evaluations: exact where |φ| is
/// no more than that, an upper bound otherwise. The residual's Jacobian is symmetric.
template <Vector V>
LeastCurvature<V> least_curvature(Equilibrium<V>& problem, const V& theta, const V& phi, const V& residual,
                                  Index most, std::uint64_t seed);

/// A state that has settled, the first derivatives there, and the adjoint and the gradient that some method
/// claims for it.
template <Vector V>
struct Claimed {
  const V& theta;
  const V& phi;
  const V& residual;     ///< ∂φ L_in
  const V& inner_theta;  ///< ∂θ L_in
  const V& outer_phi;
  const V& outer_theta;
  const V& pi;
  const V& gradient;
  double residual_error;  ///< rounding error of `residual`
};

/// What the adjoint that comes with a gradient says of it by implicit differentiation.
struct AdjointLook {
  double residual = 0;   ///< ‖∂φ L_out − π̂H‖, the larger of the two sides
  double one_sided = 0;  ///< how far the two sides are apart: Ĥ itself jumps where this is of the same size
  double distance = 0;   ///< ‖∇̂ − (∂θ L_out − π̂χ)‖, the larger of the two sides
  double noise = 0;      ///< rounding in `residual`
  double stiffness = unknown;  ///< ‖Hs‖/‖s‖ along that residual
};

/// H and χ along π̂ by one difference to each side over a step much shorter than the nudges: what bends or
/// jumps between here and where the nudged phases went shows as an adjoint that does not solve its equation.
/// `nudged` is how far those went. Three evaluations of the inner gradient.
template <Vector V>
AdjointLook look_at_adjoint(Problem<V>& problem, const Claimed<V>& claimed, double nudged);

/// A function on a line, by values at 0, ±h and ±2h.
struct FiveValues {
  double slope, bend;  ///< at ±h: D = (f₊ − f₋)/2h, and B = (f₊ − 2f + f₋)/h between one-sided slopes
  double wide_slope, wide_bend;  ///< the same at ±2h

  /// |B(2h) − 2B(h)| + |D(2h) − D(h)|: where a slope jumps once within 2h at least the error of D(h),
  /// wherever that is; of second order where nothing does.
  double kink() const { return std::abs(wide_bend - 2 * bend) + std::abs(wide_slope - slope); }
  /// Whether they are not those of a smooth function that h is short for. `noise` is that of a slope.
  bool rough(double noise) const {
    return kink() > 0.05 * (std::abs(bend) + std::abs(wide_bend)) + 12 * noise;
  }
};

/// Solves to each side of θ along one random direction v, from the state `here` of the same solver: the outer
/// loss must change by ∇̂·v as far as the bound, what the solves leave and the steps can tell. A solver that
/// projects, or that settles on another branch, answers otherwise. Adds what it cost to the estimate and what
/// is missing to the bound, and says so in `doubt`. Nothing is said where the state does not answer to θ at
/// all.
template <Vector V>
void look_beside(Equilibrium<V>& problem, InnerSolver<V>& solver, const V& theta, const Solution<V>& here,
                 Estimate<V>& e);

}  // namespace bilevel
