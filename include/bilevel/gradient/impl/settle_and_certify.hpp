#pragma once

#include <bilevel/gradient/impl/better_start.hpp>
#include <bilevel/gradient/impl/certify.hpp>
#include <bilevel/gradient/impl/response.hpp>
#include <bilevel/gradient/impl/second_look.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/problem/counted.hpp>

namespace bilevel {

template <Vector V>
SettleAndCertify<V>::SettleAndCertify(Equilibrium<V>& problem, InnerSolver<V>& solver)
    : problem_(problem),
      solver_(solver),
      residual_(Space<V>::zeros_like(problem.initial_phi())),
      outer_phi_(Space<V>::zeros_like(residual_)),
      outer_theta_(Space<V>::zeros_like(problem.initial_theta())) {}

template <Vector V>
bool SettleAndCertify<V>::settle(const V& theta, const Warm<V>& warm, Estimate<V>& estimate) {
  require_shapes<V>(problem_, nullptr, &theta, "estimate");
  // Until there is a gradient, NaN: nobody takes it for one.
  estimate.gradient = Space<V>::zeros_like(theta);
  Space<V>::fill(unknown, estimate.gradient);
  estimate.pi = Space<V>::zeros_like(residual_);

  Stopwatch watch;
  Solution<V> settled = solver_.solve(theta, 0, better_start<V>(problem_, theta, warm.phi, residual_));
  estimate.phi = std::move(settled.phi);
  tolerance_ = settled.tolerance;
  estimate.inner_status = estimate.status = settled.status;
  estimate.inner_iterations = settled.iterations;
  estimate.cost += settled.cost;
  estimate.message = fmt::format("phase 1 ({}): {}", solver_.name(), settled.message);
  if (Space<V>::size(estimate.phi) != Space<V>::size(residual_))
    throw InvalidInput(fmt::format("inner solver {} returned a state of {} elements, the problem wants {}",
                                   solver_.name(), Space<V>::size(estimate.phi), Space<V>::size(residual_)));
  bool usable = all_finite(estimate.phi);
  if (usable) {
    problem_.residual(estimate.phi, theta, residual_);
    estimate.outer_value = problem_.outer(estimate.phi, theta, {.phi = &outer_phi_, .theta = &outer_theta_});
    const bool outer_finite =
        std::isfinite(estimate.outer_value) && all_finite(outer_phi_) && all_finite(outer_theta_);
    if (!outer_finite)
      estimate.message += "; the outer loss or its derivatives are not finite at the settled state";
    usable = outer_finite && all_finite(residual_);
  }
  if (!usable) estimate.status = Status::not_finite;
  if (const auto why = stop_wanted(problem_.stop_token()); why && !succeeded(settled.status)) {
    estimate.status = *why;
    usable = false;
  }
  if (!usable) estimate.certificate.reason = estimate.message;
  estimate.cost.seconds_inner = watch.seconds();
  return usable;
}

template <Vector V>
void SettleAndCertify<V>::certify(const V& theta, Curvature<V>* curvature, const AdjointFindings& adjoint,
                                  const ImplicitOptions& options, Estimate<V>& e) {
  Stopwatch watch;
  if (succeeded(e.status)) e.status = e.adjoint_status;
  if (!all_finite(e.gradient) && e.adjoint_status != Status::singular) e.status = Status::not_finite;
  e.corrected_value = e.outer_value - Space<V>::dot(e.pi, residual_);
  const double gradient_norm = norm(e.gradient);
  e.certificate = bilevel::certify<V>(
      problem_, curvature,
      {.theta = theta,
       .phi = e.phi,
       .pi = e.pi,
       .inner_residual = residual_,
       .adjoint_residual = adjoint.residual_norm,
       .outer_phi = outer_phi_,
       .outer_theta = outer_theta_,
       .gradient = e.gradient,
       .smallest_ritz = adjoint.smallest_ritz,
       .largest_ritz = adjoint.largest_ritz,
       .factor = adjoint.factor,
       .good_enough = std::isnan(options.good_enough)
                          ? std::max(options.certificate.trust * gradient_norm, options.outer_tolerance)
                          : options.good_enough},
      options.certificate);
  e.certificate.judge(gradient_norm, options.outer_tolerance, succeeded(e.status));
  if (std::isnan(tolerance_) && e.certificate.kind == Kind::estimated &&
      e.certificate.verdict == Verdict::trusted) {
    Solution<V> here;
    here.phi = duplicate(e.phi);
    look_beside<V>(problem_, solver_, theta, here, e);
    e.certificate.judge(gradient_norm, options.outer_tolerance, succeeded(e.status));
  }
  e.cost.seconds_certificate = watch.seconds();
}

}  // namespace bilevel
