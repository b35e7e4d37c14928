#pragma once

#include <string>
#include <string_view>

#include <bilevel/outcome/cost.hpp>
#include <bilevel/outcome/status.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/inverse_approximation.hpp>

namespace bilevel {

/// Where phase 1 ended: φ̂ and what is known about it.
template <Vector V>
struct Solution {
  V phi;
  double value = unknown;          ///< L_in + β·L_out at phi; NaN for a residual problem
  double residual_norm = unknown;  ///< ‖∂φ(L_in + β·L_out)‖ at phi
  double tolerance = unknown;      ///< what residual_norm was asked to reach
  long iterations = 0;
  Status status = Status::not_run;
  std::string message;
  Cost cost;
};

/// Anything that settles: the library's minimisers, a user's solver, a simulator, a circuit.
/// Nothing is assumed about how φ̂ was found; certificates measure it anew.
template <Vector V>
class InnerSolver {
 public:
  virtual ~InnerSolver() = default;
  virtual std::string_view name() const = 0;
  /// Settle L_in + β·L_out at θ, from `start`.
  virtual Solution<V> solve(const V& theta, double beta, const V& start) = 0;
  /// The residual norm to reach from now on; ignored by what cannot choose its accuracy.
  virtual void set_tolerance(double /*tolerance*/) {}
  /// What it knows about the inverse of ∂φ²(L_in + β·L_out) near the last state, now and after each later
  /// solve; null, always, where it does not build such a thing.
  virtual InverseApproximation<V>* inverse_hessian() { return nullptr; }
};

}  // namespace bilevel
