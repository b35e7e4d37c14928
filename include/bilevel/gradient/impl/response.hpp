#pragma once

#include <memory>

#include <bilevel/adjoint/impl/conjugate_gradient.hpp>
#include <bilevel/gradient/certificate.hpp>
#include <bilevel/gradient/sensitivity.hpp>

namespace bilevel::detail {

/// ‖∇′ − ∇̂‖ where ∇′ is the gradient after a Newton step and with its adjoint solved for anew: the error that
/// the residuals of the two phases leave, to first order, for a symmetric positive definite J. To each
/// residual a rounding error of its proven size is added, in a random direction. Infinite where a solve or
/// the step did not do what it should.
template <Vector V>
double response(Equilibrium<V>& problem, Curvature<V>& curvature, const Phases<V>& phases,
                const Rounding& rounding, std::uint64_t seed) {
  const auto fresh = [&] { return Space<V>::zeros_like(phases.phi); };
  const auto random = [&](std::uint64_t which, double length, V& out) {
    Space<V>::random(seed + which, out);
    Space<V>::scale(length / norm(out), out);
  };
  ConjugateGradientOptions wanted;
  // Rounding errors have a part in every direction: what is soft must be solved for as well.
  wanted.relative_tolerance = 1e-4;
  wanted.max_iterations = 500;  // it must not cost many times what the gradient did
  wanted.ritz_steps = 0;
  V right = fresh();
  if (curvature.diagonal(right)) wanted.preconditioner = Preconditioner::jacobi;
  ConjugateGradient<V> solver(wanted);

  V error = fresh();
  random(11, rounding.residual, error);
  Space<V>::copy(phases.inner_residual, right);
  Space<V>::axpy(1, error, right);
  CurvatureOperator<V> here(curvature, true, false, nullptr, problem.stop_token());
  const LinearSolution<V> step = solver.solve(here, right, nullptr);
  if (!succeeded(step.status)) return everywhere;
  const double before = norm(right);
  V moved = duplicate(phases.phi);
  Space<V>::axpy(-1, step.x, moved);
  problem.residual(moved, phases.theta, right);
  Space<V>::axpy(1, error, right);
  if (!(norm(right) <= 0.5 * before + rounding.residual)) return everywhere;

  V outer_theta = Space<V>::zeros_like(phases.theta), cross = Space<V>::zeros_like(phases.theta);
  std::unique_ptr<Curvature<V>> there;
  problem.outer(moved, phases.theta, {.phi = &right, .theta = &outer_theta});
  problem.linearise(moved, phases.theta, 0, there);
  V product = fresh();
  there->times(phases.pi, product);
  Space<V>::axpy(-1, product, right);
  random(12, rounding.adjoint, error);
  Space<V>::axpy(1, error, right);
  CurvatureOperator<V> moved_operator(*there, true, false, nullptr, problem.stop_token());
  LinearSolution<V> change = solver.solve(moved_operator, right, nullptr);
  if (!succeeded(change.status)) return everywhere;
  Space<V>::axpy(1, phases.pi, change.x);
  there->cross_times(change.x, cross);
  Space<V>::axpy(-1, cross, outer_theta);
  Space<V>::axpy(-1, phases.gradient, outer_theta);
  return norm(outer_theta);
}

}  // namespace bilevel::detail
