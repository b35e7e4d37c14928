#pragma once

#include <functional>
#include <limits>
#include <string>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/outer/checkpoint.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// How accurate the two phases must be while θ moves.
struct ToleranceSchedule {
  /// Residual norm of phase 1 and relative residual of phase 2 at the start: loose, since early gradients
  /// need one or two digits only.
  double inner = 1e-3;
  double adjoint = 1e-3;
  /// Never below this: about what double precision reaches on a problem of moderate scale.
  double floor = 1e-12;
  /// Tolerance = factor·(projected gradient norm), never loosened again; the certificate tightens it further
  /// where the verdict is not "trusted". 0 keeps `inner` and `adjoint` throughout: the fixed schedule.
  double factor = 0.01;

  static ToleranceSchedule fixed(double inner, double adjoint) {
    return {.inner = inner, .adjoint = adjoint, .factor = 0};
  }
  Violations validate() const;
};

struct SolveOptions {
  /// Stop when the norm of the projected gradient is at most this and the gradient is trusted.
  double gradient_tolerance = 1e-6;
  /// Where |L_out| and the norm of the projected gradient are both smaller than this at the first point, the
  /// loss is in a unit in which everything is tiny, and gradient_tolerance shrinks in proportion to the
  /// larger of them: else its optimum would be wherever it starts. At ordinary scales, and with 0, it is what
  /// it says.
  double ordinary_scale = 0.01;
  /// The share of the gradient's norm that its error bound may be of for the verdict "trusted", in (0, 1].
  /// NaN, the default: as the estimator's options say, where it has any, else 0.1.
  double trust = unknown;
  /// Accepted steps of the optimiser.
  long max_iterations = 200;
  /// Stop when an accepted step lowers the outer loss by less than this, relative to its size; 0 is off.
  double relative_decrease = 0;
  double max_seconds = std::numeric_limits<double>::infinity();
  /// Looked at before every evaluation; where the problem obeys the same one, within it too. Null: never.
  const StopToken* stop = nullptr;
  ToleranceSchedule tolerances = {};
  Box box = {};
  bool warm_start = true;
  /// The state that the first solve begins with, where there is more than one minimum; empty: the problem's.
  Eigen::VectorXd phi = {};
  /// Where to keep the run; empty for nowhere. It is replaced before every evaluation; a file of another kind
  /// is refused and left alone.
  std::string checkpoint = {};
  /// Go on from `checkpoint`.
  bool resume = false;
  /// Names the problem and its settings; a checkpoint with another identity is refused.
  std::string identity = {};
  /// Called after every evaluation; false stops the run with status `interrupted`.
  std::function<bool(const HistoryEntry&)> callback = {};

  Violations validate() const;
};

/// What was asked, what was used, why it stopped.
struct Summary {
  Status status = Status::not_run;
  std::string message;
  Eigen::VectorXd theta, phi, gradient;
  double outer_value = unknown;
  /// Of the projected gradient at theta; at a kink, of the least combination of the gradients around it.
  double gradient_norm = unknown;
  bool at_kink = false;
  long iterations = 0;
  long evaluations = 0;
  Certificate certificate;
  Cost cost;
  double seconds = 0;
  std::vector<HistoryEntry> history;
  std::string estimator, optimizer;
  std::string choice;  ///< of the last estimate, see Estimate
  double asked_gradient_tolerance = unknown;
  double used_gradient_tolerance = unknown;  ///< less where the scale is not ordinary
  double used_inner_tolerance = unknown, used_adjoint_tolerance = unknown;
  bool resumed = false;
};

/// Minimises θ ↦ L_out(φ*(θ), θ) from `start`.
template <Vector V>
Summary solve(Estimator<V>& estimator, Optimizer& optimizer, const V& start, const SolveOptions& options);

}  // namespace bilevel
