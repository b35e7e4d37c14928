#pragma once

#include <bilevel/gradient/impl/settle_and_certify.hpp>
#include <bilevel/gradient/implicit.hpp>

namespace bilevel {

template <Vector V>
Implicit<V>::Implicit(Equilibrium<V>& problem, InnerSolver<V>& inner,
                      std::unique_ptr<AdjointSolver<V>> adjoint, ImplicitOptions options)
    : name_(estimator_name(adjoint->name())),
      problem_(problem),
      inner_(inner),
      adjoint_(std::move(adjoint)),
      options_(options),
      settled_(problem_, inner),
      sensitivity_(problem_) {
  options_.validate().throw_if_any();
  require_unconstrained(problem, name_);
  require_shapes<V>(problem, nullptr, nullptr, name_);
  if (!problem.capabilities().curvature && adjoint_->name() != "zero")
    throw InvalidInput(fmt::format(
        "{} needs Hessian and cross products, and this problem offers first derivatives only: use "
        "first-order, a method without second derivatives, or with_difference_products()",
        name_));
  if (adjoint_->inherits()) {
    InverseApproximation<V>* inverse = inner.inverse_hessian();
    if (!inverse)
      throw InvalidInput(
          fmt::format("{} needs an inner solver that leaves an inverse Hessian behind (lbfgs, newton), and "
                      "{} leaves none",
                      name_, inner.name()));
    sensitivity_.inherit(inverse);
  }
}

template <Vector V>
Estimate<V> Implicit<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  if (settled_.settle(theta, warm, e)) {
    Stopwatch watch;
    const bool curved = problem_.capabilities().curvature;
    LinearSolution<V> solution;
    if (curved) {
      sensitivity_.move_to(e.phi, theta);
      const V* start = warm.pi && Space<V>::size(*warm.pi) == Space<V>::size(e.phi) ? &*warm.pi : nullptr;
      solution = sensitivity_.pullback(settled_.outer_phi(), *adjoint_, e.gradient, start);
      Space<V>::axpy(1, settled_.outer_theta(), e.gradient);
      e.pi = std::move(solution.x);
      e.adjoint_status = solution.status;
      e.adjoint_iterations = solution.iterations;
      e.message += fmt::format("; phase 2 ({}): {}", adjoint_->name(), solution.message);
    } else {
      Space<V>::copy(settled_.outer_theta(), e.gradient);
      solution.residual_norm = norm(settled_.outer_phi());
      e.adjoint_status = Status::approximate;
      e.message += "; phase 2 left out: the gradient is ∂θ L_out alone";
    }
    if (problem_.capabilities().differenced) e.message += "; products by finite differences, as asked";
    e.cost.factorizations += solution.factorizations;
    e.cost.bytes = std::max(e.cost.bytes, 5 * bytes_of(e.phi) + 3 * bytes_of(theta) + solution.bytes);
    e.cost.seconds_adjoint = watch.seconds();
    settled_.certify(
        theta, curved ? &sensitivity_.curvature() : nullptr,
        {solution.residual_norm, solution.smallest_ritz, solution.largest_ritz, solution.factor.get()},
        options_, e);
  }
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
