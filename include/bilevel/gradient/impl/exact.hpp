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
    const Eigen::MatrixXd j = dense_matrix(curvature, e.phi), chi = dense_cross(curvature, e.phi, theta);
    Eigen::MatrixXd g(j.rows(), 1), pi = Eigen::MatrixXd::Zero(j.rows(), 1);
    Eigen::VectorXd gradient(chi.cols());
    Space<V>::to_host(settled_.outer_phi(), g.data());
    Space<V>::to_host(settled_.outer_theta(), gradient.data());
    double residual = unknown;
    const Index rank = solve_with_full_pivoting(j.transpose(), g, pi);
    if (rank == j.rows()) {
      gradient -= chi.transpose() * pi;
      residual = (g - j.transpose() * pi).norm();
      Space<V>::from_host(gradient.data(), e.gradient);
      e.adjoint_status = Status::converged;
      e.message += "; phase 2 (exact): LU with full pivoting";
    } else {
      e.adjoint_status = Status::singular;
      e.message += fmt::format("; phase 2 (exact): the {0}x{0} Jacobian has rank {1}", j.rows(), rank);
    }
    Space<V>::from_host(pi.data(), e.pi);
    e.cost.factorizations = 1;
    e.cost.bytes =
        std::max(e.cost.bytes, sizeof(double) * static_cast<std::size_t>(2 * j.size() + chi.size()));
    e.cost.seconds_adjoint = watch.seconds();
    settled_.certify(theta, &curvature, {.residual_norm = residual}, options_, e);
  }
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
