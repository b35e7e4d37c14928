#pragma once

#include <bilevel/adjoint/identity.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>

namespace bilevel {

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

}  // namespace bilevel
