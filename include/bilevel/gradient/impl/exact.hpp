#pragma once

#include <bilevel/gradient/exact.hpp>
#include <bilevel/gradient/impl/settle_and_certify.hpp>
#include <bilevel/space/decompositions.hpp>

namespace bilevel {

template <Vector V>
Exact<V>::Exact(Equilibrium<V>& problem, InnerSolver<V>& inner, ImplicitOptions options)
    : problem_(problem), inner_(inner), options_(options), settled_(problem_, inner), sensitivity_(problem_) {
  options_.validate().throw_if_any();
  require_unconstrained<V>(problem, name());
  require_shapes<V>(problem, nullptr, nullptr, "exact");
  if (!problem.capabilities().curvature)
    throw InvalidInput(
        "exact needs Hessian and cross products, and this problem offers first derivatives only");
  if (const Index n = Space<V>::size(problem.initial_phi()); n > limit)
    throw InvalidInput(fmt::format(
        "exact forms a dense matrix and is for at most {} inner variables; this problem has {}", limit, n));
}

template <Vector V>
Estimate<V> Exact<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  if (settled_.settle(theta, warm, e)) {
    Stopwatch watch;
    sensitivity_.move_to(e.phi, theta);
    Curvature<V>& curvature = sensitivity_.curvature();
    const Eigen::MatrixXd j = dense_matrix(curvature, e.phi);
    const FullPivoting factor(j.transpose());
    double left = unknown;
    if (const Index rank = factor.rank(); rank == j.rows()) {
      // A formed matrix may hold sums that cancelled where products do not. So products judge the adjoint,
      // which is solved for twice: what the certificate knows of rounding errors is of products.
      V residual = duplicate(settled_.outer_phi()), step = Space<V>::zeros_like(e.phi);
      Eigen::VectorXd host(j.rows());
      for (int solve = 0; solve < 2; ++solve) {
        Space<V>::to_host(residual, host.data());
        host = factor.solve(host);
        Space<V>::from_host(host.data(), step);
        Space<V>::axpy(1, step, e.pi);
        curvature.transpose_times(e.pi, residual);
        Space<V>::scale(-1, residual);
        Space<V>::axpy(1, settled_.outer_phi(), residual);
      }
      left = norm(residual);
      curvature.cross_times(e.pi, e.gradient);
      Space<V>::scale(-1, e.gradient);
      Space<V>::axpy(1, settled_.outer_theta(), e.gradient);
      e.adjoint_status = Status::converged;
      e.message += "; phase 2 (exact): LU with full pivoting";
    } else {
      e.adjoint_status = Status::singular;
      e.message += fmt::format("; phase 2 (exact): the {0}x{0} Jacobian has rank {1}", j.rows(), rank);
    }
    e.cost.factorizations = 1;
    e.cost.bytes = std::max(e.cost.bytes, sizeof(double) * static_cast<std::size_t>(2 * j.size()));
    e.cost.seconds_adjoint = watch.seconds();
    settled_.certify(theta, &curvature, {.residual_norm = left}, options_, e);
  }
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
