// The certificate of a gradient: the residuals, μ, the bound that they make, and what sharpens it.
#pragma once

#include <bilevel/gradient/impl/certifier.hpp>
#include <bilevel/gradient/impl/certifier_constants.hpp>
#include <bilevel/gradient/impl/certifier_spectrum.hpp>

namespace bilevel {
namespace detail {

template <Vector V>
void Certifier<V>::bound() {
  result_.trust = options_.trust;
  if (!options_.enabled) {
    result_.reason = "certificates are switched off";
    return;
  }
  pi_norm_ = norm(phases_.pi);
  outer_norm_ = norm(phases_.outer_phi);
  result_.inner_residual = norm(phases_.inner_residual);
  result_.adjoint_residual = phases_.adjoint_residual;
  if (!std::isfinite(result_.inner_residual + result_.adjoint_residual + pi_norm_ + outer_norm_ +
                     norm(phases_.gradient))) {
    result_.reason = "a residual or the gradient is not finite";
    return;
  }
  if (const std::string kink = problem_.kink(phases_.phi, phases_.theta); !kink.empty()) {
    result_.reason = fmt::format("at the settled state {}: derivatives there are one-sided", kink);
    return;
  }
  const auto asked_to_stop = [&] { return stop_wanted(problem_.stop_token()).has_value(); };
  if (asked_to_stop()) {
    result_.reason = "the run was to end before its errors were looked at";
    return;
  }
  constants_ = problem_.constants(phases_.theta, phases_.phi, everywhere);
  measure_residuals();
  const bool global = constants_.mu > 0;
  if (global ? bound_globally() : bound_locally()) assemble();
  if (global && result_.bound > phases_.good_enough && !asked_to_stop()) sharpen();
  if (result_.bound > phases_.good_enough && !asked_to_stop()) compare_outer();
  if ((global || from_problem_) && result_.bound > phases_.good_enough && !asked_to_stop())
    measure_response();
  if (from_problem_ && !asked_to_stop() && result_.bound > phases_.good_enough &&
      Space<V>::size(phases_.phi) <= second_opinion_limit) {
    // The problem's own lower bound of λ_min is safe and may be useless: an estimate says more then.
    const Certificate before = result_;
    trust_problem_ = false;
    if (bound_locally()) assemble();
    if (!(result_.bound <= phases_.good_enough)) result_ = before;
  }
}

/// A global μ is often the penalty alone. φ* lies within δ, where H ⪰ λ_min(Ĥ) − ρ_H δ: with small |φ| and a
/// bound that would not do, the eigenvalues at φ̂ are worth their price.
template <Vector V>
void Certifier<V>::sharpen() {
  if (!curvature_ || Space<V>::size(phases_.phi) > std::max(options_.dense_limit, options_.factor_limit) ||
      !problem_.capabilities().symmetric)
    return;
  const Certificate before = result_;
  const Spectrum spectrum = spectrum_here();
  // With h ≤ ½ Newton–Kantorovich places a stationary point within 2η, and there is only one.
  const double eta = result_.inner_residual / spectrum.smallest;
  if (spectrum.smallest > 0 && constants_.hessian_lipschitz * eta / spectrum.smallest <= 0.5)
    result_.delta = std::min(result_.delta, 2 * eta);
  const double mu = spectrum.smallest - constants_.hessian_lipschitz * result_.delta;
  if (!(mu > before.mu)) {
    result_ = before;
    return;
  }
  result_.smoothness = before.smoothness;
  result_.smoothness_source = before.smoothness_source;
  result_.delta = std::min(result_.delta, result_.inner_residual / mu);
  // Within the smaller ball the curvature has lost less.
  result_.mu = std::max(mu, spectrum.smallest - constants_.hessian_lipschitz * result_.delta);
  result_.delta = std::min(result_.delta, result_.inner_residual / result_.mu);
  result_.delta_prime = result_.adjoint_residual / result_.mu;
  assemble();
}

template <Vector V>
void Certifier<V>::measure_residuals() {
  rounding_ = problem_.rounding(phases_.phi, phases_.theta, phases_.pi);
  if (std::isnan(rounding_.residual + rounding_.adjoint + rounding_.gradient)) {
    // Nothing is known about the oracles' summation; a few roundings of the quantities' own size is the
    // least.
    doubt("rounding errors");
    rounding_known_ = false;
    const double scale = 8 * unit_roundoff<V>();
    const double smoothness = std::isfinite(constants_.smoothness) ? constants_.smoothness : 1;
    rounding_.residual = scale * (result_.inner_residual + smoothness * norm(phases_.phi));
    rounding_.adjoint = scale * (outer_norm_ + smoothness * pi_norm_);
    rounding_.gradient = scale * (norm(phases_.gradient) + norm(phases_.outer_theta));
  }
  if (curvature_) {
    // What finite differences leave in the two products that phase 2 and its gradient are made of.
    const double of_adjoint = curvature_->times_error(phases_.pi);
    const double of_gradient = curvature_->cross_times_error(phases_.pi);
    if (of_adjoint != 0 || of_gradient != 0) doubt("the errors of differenced products");
    rounding_.adjoint += of_adjoint;
    rounding_.gradient += of_gradient;
  }
  result_.inner_residual += rounding_.residual;
  result_.adjoint_residual += rounding_.adjoint;
}

inline void prefer(double& value, double other) {
  if (!std::isnan(other)) value = other;
}

/// Strong convexity everywhere: φ* lies within ‖r‖/μ, and constants need only hold on that ball.
template <Vector V>
bool Certifier<V>::bound_globally() {
  result_.mu = constants_.mu;
  result_.mu_source = "the problem's constants";
  const Constants ball =
      problem_.constants(phases_.theta, phases_.phi, result_.inner_residual / constants_.mu);
  if (ball.mu > result_.mu) result_.mu = ball.mu;
  result_.delta = result_.inner_residual / result_.mu;
  prefer(constants_.smoothness, ball.smoothness);
  prefer(constants_.hessian_lipschitz, ball.hessian_lipschitz);
  prefer(constants_.cross_lipschitz, ball.cross_lipschitz);
  prefer(constants_.cross_norm, ball.cross_norm);
  prefer(constants_.outer_lipschitz, ball.outer_lipschitz);
  prefer(constants_.outer_smoothness, ball.outer_smoothness);
  prefer(constants_.outer_cross_lipschitz, ball.outer_cross_lipschitz);
  prefer(constants_.cross_energy, ball.cross_energy);
  result_.delta_prime = result_.adjoint_residual / result_.mu;
  result_.smoothness = constants_.smoothness;
  if (!std::isnan(constants_.smoothness)) result_.smoothness_source = "the problem's constants";
  estimate_missing_constants(result_.delta);
  return true;
}

/// No global μ: with μ̂ = λ_min(Ĥ) (σ_min for a Jacobian) and h = ρ_H‖r‖/μ̂² ≤ ½ a stationary point lies
/// within δ = (1 − √(1−2h))·μ̂/ρ_H of φ̂ (Newton–Kantorovich), and μ = μ̂ − ρ_H δ serves on that ball.
template <Vector V>
bool Certifier<V>::bound_locally() {
  if (!curvature_) return refuse("μ is not known and a first-order problem cannot show its curvature");
  const bool symmetric = problem_.capabilities().symmetric;
  // A Ritz value lies above λ_min: one that is negative beyond rounding says enough.
  if (symmetric && phases_.smallest_ritz < -1e-8 * std::abs(phases_.largest_ritz))
    return refuse(fmt::format(
        "the Hessian at the settled state is not positive definite: phase 2 met the Ritz value {:.4g}",
        phases_.smallest_ritz));
  const Spectrum spectrum = spectrum_here();
  if (std::isnan(spectrum.smallest))
    return refuse(
        "the smallest eigenvalue could not be estimated: Lanczos did not converge, so the problem is large "
        "and "
        "ill-conditioned; constants() with a μ would help");
  result_.mu = spectrum.smallest;
  result_.smoothness = spectrum.largest;
  if (spectrum.smallest <= 0)
    return refuse(
        symmetric
            ? fmt::format(
                  "the Hessian at the settled state is not positive definite: smallest eigenvalue {:.4g}",
                  spectrum.smallest)
            : "the Jacobian at the settled state is singular to working precision");

  const double eta = result_.inner_residual / spectrum.smallest;
  constants_ = problem_.constants(phases_.theta, phases_.phi, 2 * eta);  // δ ≤ 2η whenever h ≤ ½
  estimate_missing_constants(2 * eta);
  // Where the curvature decays at a known rate, δ solves ‖r‖ = μ̂(1 − exp(−Rδ))/R: on the sphere of that
  // radius no slope points outwards any more, and within it H ⪰ exp(−Rδ)Ĥ. Half of 1/R keeps δ below 2η.
  const double decayed = constants_.curvature_decay * eta;
  if (decayed <= 0.5) {
    result_.delta = decayed > 0 ? -std::log1p(-decayed) / constants_.curvature_decay * (1 + 1e-12) : eta;
    result_.mu = spectrum.smallest * std::exp(-constants_.curvature_decay * result_.delta) * (1 - 1e-12);
    result_.delta_prime = result_.adjoint_residual / spectrum.smallest;
    return true;
  }
  const double h = constants_.hessian_lipschitz * eta / spectrum.smallest;
  if (!(h <= 0.5))
    return refuse(
        fmt::format("the state is too far from a stationary point to say which one it approaches: "
                    "h = ρ‖r‖/μ² = {:.3g} exceeds 1/2 (‖r‖ = {:.3g}, μ = {:.3g})",
                    h, result_.inner_residual, spectrum.smallest));
  result_.delta = 2 * eta / (1 + std::sqrt(1 - 2 * h));
  result_.mu = spectrum.smallest - constants_.hessian_lipschitz * result_.delta;
  if (!(result_.mu > 0)) return refuse("curvature may vanish before a stationary point is reached");
  result_.delta_prime = result_.adjoint_residual / spectrum.smallest;
  return true;
}

/// Where the Hessian cannot be factored the norms of a proven bound meet the worst of all directions at
/// every step, which together no residual has. H is known to be positive definite by now: so the gradient is
/// asked how it answers to the residuals themselves, each with a rounding error of the size that is proven in
/// a random direction.
template <Vector V>
void Certifier<V>::measure_response() {
  if (!curvature_ || options_.factor_limit == 0 || formed_ || !problem_.capabilities().symmetric ||
      !problem_.capabilities().curvature)
    return;
  const double measured = response(problem_, *curvature_, phases_, rounding_, options_.seed);
  if (!(measured < everywhere)) return;
  const double bound = options_.secant_safety * measured + rounding_.gradient;
  if (!(bound <= phases_.good_enough)) return;  // one that is proven says more, then
  doubt("the answer of the gradient to what the phases left");
  result_.bound = bound;
  result_.kind = Kind::estimated;
  result_.reason = fmt::format("estimated: {}", fmt::join(doubts_, ", "));
}

/// Everything so far has believed the products. Problems that know their rounding errors are believed; of the
/// others, products that are about to be trusted are held against first derivatives.
template <Vector V>
void Certifier<V>::look_at_products() {
  if (!curvature_ || result_.kind != Kind::estimated || rounding_known_ ||
      problem_.capabilities().differenced ||
      !(result_.bound <= std::max(phases_.good_enough, options_.trust * norm(phases_.gradient))) ||
      stop_wanted(problem_.stop_token()))
    return;
  const ProductLook seen = ProductLooker<V>(problem_, *curvature_, phases_, options_.seed).run();
  if (!seen.disagrees) return;
  result_.bound +=
      (cross_norm_ + constants_.cross_lipschitz * result_.delta) / result_.mu * seen.adjoint + seen.cross;
  result_.doubt = fmt::format(
      "second derivatives are not the differences of the first: the Hessian by {:.3g}, the cross derivative "
      "by {:.3g} along the adjoint. A product is wrong, a loss has changed, or the state stands at a kink",
      seen.adjoint, seen.cross);
  result_.reason += "; doubtful: " + result_.doubt;
}

template <Vector V>
void Certifier<V>::assemble() {
  const Constants& c = constants_;
  const double delta = result_.delta, mu = result_.mu;
  if (std::isnan(cross_norm_)) cross_norm_ = cross_norm_here();  // once, though sharpening assembles again
  const double chi = cross_norm_;
  double error = (chi + c.cross_lipschitz * delta) / mu *
                 (result_.adjoint_residual + (c.outer_smoothness + pi_norm_ * c.hessian_lipschitz) * delta);
  const double by_energy = energy_error();
  if (by_energy < error) error = by_energy;
  const double bound =
      c.outer_cross_lipschitz * delta + pi_norm_ * c.cross_lipschitz * delta + error + rounding_.gradient;
  if (!std::isfinite(bound)) {
    result_.reason = "a constant that the bound needs is neither known nor could be estimated";
    return;
  }
  // The norms and the sum above were themselves rounded.
  const double sizes = static_cast<double>(Space<V>::size(phases_.phi) + Space<V>::size(phases_.theta));
  result_.bound = bound * (1 + gamma(sizes + 64));
  result_.kind = doubts_.empty() ? Kind::rigorous : Kind::estimated;
  result_.reason = doubts_.empty() ? fmt::format("bound from {}", result_.mu_source)
                                   : fmt::format("estimated: {}", fmt::join(doubts_, ", "));

  // The theorem's own bound, with its M the larger of the two (the proof needs both) and B on the ball.
  const double rho = std::max(c.hessian_lipschitz, c.cross_lipschitz);
  if (doubts_.empty() && delta < mu / (2 * rho)) {
    const double b =
        std::isnan(c.outer_lipschitz) ? outer_norm_ + c.outer_smoothness * delta : c.outer_lipschitz;
    const double m = std::max(c.outer_cross_lipschitz,
                              std::isnan(c.cross_norm) ? chi + c.cross_lipschitz * delta : c.cross_norm);
    const double constant = m + (b * rho + 2 * m * c.outer_smoothness) / mu + 2 * m * b * rho / (mu * mu);
    result_.theorem_bound = constant * (delta + result_.delta_prime) + rounding_.gradient;
  }
}

}  // namespace detail

template <Vector V>
Certificate certify(Equilibrium<V>& problem, Curvature<V>* curvature, const Phases<V>& phases,
                    const CertificateOptions& options) {
  return detail::Certifier<V>(problem, curvature, phases, options).run();
}

}  // namespace bilevel
