#pragma once

#include <bilevel/adjoint/linear_run.hpp>

namespace bilevel {

struct IdentityOptions : AdjointOptions {
  /// α in x = α·b: the inverse of a typical eigenvalue of A.
  double step = 1;

  Violations validate() const {
    Violations v = AdjointOptions::validate("identity");
    v.require(std::isfinite(step), "step", step, "must be finite");
    return v;
  }
};

/// x = α·b, A replaced by I/α: the one-step, or Jacobian-free, gradient. Deliberately no solution, so the
/// status is approximate unless the residual happens to meet the target; one product tells the residual.
/// A warm start is ignored.
template <Vector V>
class Identity final : public AdjointSolver<V> {
 public:
  explicit Identity(IdentityOptions options = {});
  std::string_view name() const override { return "identity"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;
  void set_tolerance(double relative) override;

 private:
  IdentityOptions options_;
};

template <Vector V>
Identity<V>::Identity(IdentityOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void Identity<V>::set_tolerance(double relative) {
  options_.relative_tolerance = relative;
  options_.validate().throw_if_any();
}

template <Vector V>
LinearSolution<V> Identity<V>::solve(LinearOperator<V>& a, const V& b, const V*) {
  LinearRun<V> run("identity", a, b, nullptr, options_);
  if (!run.running()) return run.finish(0);

  V x = duplicate(b);
  V residual = Space<V>::zeros_like(b);
  Space<V>::scale(options_.step, x);
  run.residual_of(x, residual);
  const double residual_norm = norm(residual);
  run.replace(x, residual, residual_norm);
  if (!std::isfinite(residual_norm)) run.stop_not_finite("the product A·x");
  if (residual_norm <= run.target()) run.stop(Status::converged, "the requested residual was reached");
  run.stop(Status::approximate, fmt::format("x = {:.6g}·b by choice", options_.step));
  return run.finish(2 * bytes_of(b));
}

extern template class Identity<Eigen::VectorXd>;
extern template class Identity<Eigen::VectorXf>;

}  // namespace bilevel
