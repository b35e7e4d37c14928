#pragma once

#include <vector>

#include <bilevel/gradient/better_start.hpp>
#include <bilevel/gradient/estimator.hpp>
#include <bilevel/gradient/response.hpp>
#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Options of the estimators that settle once and then solve for the adjoint.
struct ImplicitOptions {
  CertificateOptions certificate;
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// A rigorous bound above this is sharpened at the cost of a spectrum. NaN, the default: above what the
  /// verdict "trusted" takes. The outer loop, which judges by the projected gradient, sets its own.
  double good_enough = unknown;

  Violations validate() const {
    Violations v("estimator");
    return v.not_negative("outer_tolerance", outer_tolerance).add(certificate.validate());
  }
};

/// What phase 2 found, as far as the certificate wants to know.
struct AdjointFindings {
  double residual_norm;  ///< ‖ĝ − π̂Ĥ‖
  double smallest_ritz = unknown;
  double largest_ritz = unknown;
};

/// What every estimator that settles once does before and after it solves for the adjoint: start from the
/// better of the warm and the initial state, settle, measure the result afresh; then judge the gradient.
template <Vector V>
class SettleAndCertify {
 public:
  SettleAndCertify(Equilibrium<V>& problem, InnerSolver<V>& solver);

  /// Fills phi, outer value, statuses and cost of `estimate`; false where nothing can follow.
  bool settle(const V& theta, const Warm<V>& warm, Estimate<V>& estimate);
  /// With gradient, pi and the adjoint's status in place: the overall status, the corrected value and the
  /// certificate. `curvature` is that at φ̂, null for a first-order problem.
  void certify(const V& theta, Curvature<V>* curvature, const AdjointFindings& adjoint,
               const ImplicitOptions& options, Estimate<V>& estimate);

  const V& residual() const { return residual_; }        ///< ∂φ L_in(φ̂)
  const V& outer_phi() const { return outer_phi_; }      ///< ĝ
  const V& outer_theta() const { return outer_theta_; }  ///< ∂θ L_out(φ̂)

 private:
  Equilibrium<V>& problem_;
  InnerSolver<V>& solver_;
  V residual_, outer_phi_, outer_theta_;
};

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
       .good_enough = std::isnan(options.good_enough) ? std::max(0.1 * gradient_norm, options.outer_tolerance)
                                                      : options.good_enough},
      options.certificate);
  e.certificate.judge(gradient_norm, options.outer_tolerance, succeeded(e.status));
  e.cost.seconds_certificate = watch.seconds();
}

extern template class SettleAndCertify<Eigen::VectorXd>;
extern template class SettleAndCertify<Eigen::VectorXf>;

}  // namespace bilevel
