#pragma once

#include <optional>
#include <string>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What one whole solve says about θ.
template <Vector V>
struct Settled {
  V phi;
  double value = unknown;          ///< L_out(φ̂, θ); NaN where the status is not_finite
  double residual_norm = unknown;  ///< measured afresh at φ̂
  double tolerance = unknown;      ///< what the solver was asked to reach
  long iterations = 0;
  Status status = Status::not_run;
  std::string message;
  Cost cost;
};

/// θ ↦ L_out(φ*(θ), θ), by whatever settles. It asks for no derivative but the residual, so it serves an
/// Equilibrium that minimises nothing. The problem and the solver must outlive it.
template <Vector V>
class SettledValue {
 public:
  /// Without `warm_start` every solve starts from the problem's own start, and values do not depend on what
  /// was asked before.
  SettledValue(Equilibrium<V>& problem, InnerSolver<V>& solver, bool warm_start = true);

  /// From the last settled state, or from the problem's own start where that is nearer.
  Settled<V> at(const V& theta);
  /// From `start`, and without a trace in what follows.
  Settled<V> from(const V& start, const V& theta);

  V initial_phi() const { return problem_.initial_phi(); }
  V initial_theta() const { return problem_.initial_theta(); }

 private:
  Settled<V> settle(const V& start, const V& theta);

  CountedEquilibrium<V> problem_;
  InnerSolver<V>& solver_;
  bool warm_start_;
  std::optional<V> last_;
  V residual_;
};

extern template class SettledValue<Eigen::VectorXd>;
extern template class SettledValue<Eigen::VectorXf>;

}  // namespace bilevel
