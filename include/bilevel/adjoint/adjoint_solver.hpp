#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include <bilevel/adjoint/linear_operator.hpp>
#include <bilevel/outcome/status.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel {

/// Options shared by every solver of phase 2.
struct AdjointOptions {
  /// Stop when ‖b − A·x‖ ≤ max(relative·‖b‖, absolute). The gradient's error grows with the residual
  /// divided by μ, so the default leaves eight digits at a condition number of 100.
  double relative_tolerance = 1e-10;
  double absolute_tolerance = 0;
  /// 0: as many as the method needs in exact arithmetic with slack for rounding (10·|x| + 100),
  /// which bounds the cost without cutting a run that still makes progress.
  long max_iterations = 0;

  /// `owner` is what a violation is named after, so that a solver's own options report under its name.
  Violations validate(std::string_view owner = "adjoint") const {
    Violations v(owner);
    v.not_negative("relative_tolerance", relative_tolerance);
    v.not_negative("absolute_tolerance", absolute_tolerance);
    v.require(relative_tolerance > 0 || absolute_tolerance > 0, "relative_tolerance", relative_tolerance,
              "and absolute_tolerance cannot both be zero");
    v.at_least("max_iterations", max_iterations, 0);
    return v;
  }
};

class DenseFactor;

/// Where phase 2 ended. `residual_norm` is that of the returned x, evaluated afresh, not the
/// recurrence's idea of it.
template <Vector V>
struct LinearSolution {
  V x;
  double residual_norm = std::numeric_limits<double>::quiet_NaN();
  double rhs_norm = std::numeric_limits<double>::quiet_NaN();
  double target = std::numeric_limits<double>::quiet_NaN();  ///< the residual norm asked for
  long iterations = 0;
  long products = 0;  ///< with A, all of them: warm start, step size, residuals evaluated afresh
  Status status = Status::not_run;
  std::string message;
  /// Estimates of A's extreme eigenvalues that came for free (CG, MINRES: Ritz values; direct: exact
  /// values where they were computed). The smallest lies above λ_min, the largest below λ_max.
  double smallest_ritz = std::numeric_limits<double>::quiet_NaN();
  double largest_ritz = std::numeric_limits<double>::quiet_NaN();
  long factorizations = 0;
  std::size_t bytes = 0;  ///< held by the solver beyond x and b
  /// Of A, where the whole of it was factored and it is not singular: a certificate asks it for the smallest
  /// singular value.
  std::shared_ptr<const DenseFactor> factor = {};
};

/// A solver of A·x = b. `warm` may be null; a start that is worse than zero is not used.
template <Vector V>
class AdjointSolver {
 public:
  virtual ~AdjointSolver() = default;
  virtual std::string_view name() const = 0;
  virtual LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) = 0;
  /// Residual norm relative to ‖b‖ to reach from now on, as if the options had said so.
  virtual void set_tolerance(double /*relative*/) {}
  /// Whether it needs LinearOperator::inherited().
  virtual bool inherits() const { return false; }
};

/// One that is told something, which is looked at before it is used.
template <Vector V, class Options>
class AdjointWithOptions : public AdjointSolver<V> {
 public:
  void set_tolerance(double relative) override {
    options_.relative_tolerance = relative;
    options_.validate().throw_if_any();
  }

 protected:
  explicit AdjointWithOptions(const Options& options) : options_(options) {
    options_.validate().throw_if_any();
  }

  Options options_;
};

}  // namespace bilevel
