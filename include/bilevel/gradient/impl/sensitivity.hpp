#pragma once

#include <cmath>

#include <bilevel/gradient/impl/spectrum.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/space/decompositions.hpp>

namespace bilevel {

template <Vector V>
Sensitivity<V>::Sensitivity(Equilibrium<V>& problem)
    : problem_(problem), symmetric_(problem.capabilities().symmetric) {}

template <Vector V>
void Sensitivity<V>::move_to(const V& phi, const V& theta) {
  require_shapes(problem_, &phi, &theta, "sensitivity");
  problem_.linearise(phi, theta, 0, curvature_);
  phi_ = duplicate(phi);
  theta_ = duplicate(theta);
}

template <Vector V>
LinearSolution<V> Sensitivity<V>::pullback(const V& w, AdjointSolver<V>& solver, V& out, const V* warm) {
  LinearSolution<V> solution = solve(w, true, solver, warm);
  curvature_->cross_times(solution.x, out);
  Space<V>::scale(-1, out);
  return solution;
}

template <Vector V>
LinearSolution<V> Sensitivity<V>::pushforward(const V& u, AdjointSolver<V>& solver) {
  V rhs = Space<V>::zeros_like(phi_);
  curvature().cross_apply(u, rhs);
  Space<V>::scale(-1, rhs);
  return solve(rhs, false, solver, nullptr);
}

template <Vector V>
std::optional<Eigen::MatrixXd> Sensitivity<V>::jacobian() {
  const Eigen::MatrixXd j = dense_matrix(curvature(), phi_);
  const FullPivoting factor(j);
  if (factor.rank() < j.rows()) return {};
  return Eigen::MatrixXd(-factor.solve(dense_cross(curvature(), phi_, theta_)));
}

template <Vector V>
Curvature<V>& Sensitivity<V>::curvature() {
  if (!curvature_) throw InvalidInput("sensitivity: call move_to(phi, theta) first");
  return *curvature_;
}

/// J·x = b or Jᵀ·x = b. A right side so small or large that squares of it leave the range of double is
/// solved for in units of its own norm.
template <Vector V>
LinearSolution<V> Sensitivity<V>::solve(const V& b, bool transposed, AdjointSolver<V>& solver,
                                        const V* warm) {
  CurvatureOperator<V> a(curvature(), symmetric_, transposed, inverse_, problem_.stop_token());
  const double size = norm(b);
  if (size == 0 || !std::isfinite(size) || (size > 1e-100 && size < 1e100)) return solver.solve(a, b, warm);
  V unit = duplicate(b);
  Space<V>::scale(1 / std::sqrt(size), unit);
  Space<V>::scale(1 / std::sqrt(size), unit);
  LinearSolution<V> solution = solver.solve(a, unit, nullptr);
  Space<V>::scale(size, solution.x);
  solution.residual_norm *= size;
  solution.rhs_norm *= size;
  solution.target *= size;
  solution.message += fmt::format("; in units of ‖b‖ = {:.3g}", size);
  return solution;
}

}  // namespace bilevel
