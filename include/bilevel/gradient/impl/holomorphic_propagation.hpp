#pragma once

#include <bilevel/gradient/holomorphic_propagation.hpp>
#include <bilevel/gradient/impl/certify_by_adjoint.hpp>
#include <bilevel/gradient/impl/settle_and_certify.hpp>
#include <bilevel/gradient/impl/spectrum.hpp>
#include <bilevel/problem/gamma.hpp>

namespace bilevel {

template <Vector V>
Holomorphic& HolomorphicPropagation<V>::continuation_of(Problem<V>& problem) {
  if (Holomorphic* const offered = problem.holomorphic()) return *offered;
  throw InvalidInput(
      "ep-holomorphic needs the losses at complex phi and beta, and this problem's holomorphic() is null: "
      "implement Holomorphic (problem/holomorphic.hpp) or use equilibrium propagation with real nudges");
}

template <Vector V>
HolomorphicPropagation<V>::HolomorphicPropagation(Problem<V>& problem, InnerSolver<V>& inner,
                                                  HolomorphicOptions options)
    : options_(checked(options)),
      problem_(problem),
      continuation_(continuation_of(problem), problem_.cost()),
      inner_(inner),
      settled_(problem_, inner),
      circle_(continuation_, options_, Space<V>::size(problem.initial_phi()),
              Space<V>::size(problem.initial_theta())),
      phi_host_(Space<V>::size(problem.initial_phi())),
      theta_host_(Space<V>::size(problem.initial_theta())) {
  require_shapes<V>(problem, nullptr, nullptr, "ep-holomorphic");
}

/// The problem's constants, or eigenvalues of the whole Hessians, or Lanczos.
template <Vector V>
Disc HolomorphicPropagation<V>::find_disc(const V& theta, const V& phi) {
  const Constants known = problem_.constants(theta, phi, everywhere);
  Disc disc;
  if (known.mu > 0 && known.outer_smoothness >= 0) {
    disc.mu = known.mu;
    disc.smoothness = known.smoothness;
    disc.outer_smoothness = known.outer_smoothness;
    disc.radius = known.mu / known.outer_smoothness;
    disc.source = "the problem's constants";
    return disc;
  }
  if (circle_.newton()) return circle_.measure(phi_host_, theta_host_);
  if (!problem_.capabilities().curvature) return disc;
  problem_.linearise(phi, theta, 0, curvature_);
  problem_.linearise(phi, theta, 1, nudged_curvature_);
  const Spectrum inner = lanczos_spectrum(*curvature_, phi, options_.certificate.seed);
  V product = Space<V>::zeros_like(phi);
  const Spectrum outer = lanczos_spectrum<V>(
      [&](const V& x, V& out) {
        curvature_->times(x, product);
        nudged_curvature_->times(x, out);
        Space<V>::axpy(-1, product, out);
      },
      phi, options_.certificate.seed);
  disc.mu = inner.smallest;
  disc.smoothness = inner.largest;
  disc.outer_smoothness = std::max(std::abs(outer.smallest), std::abs(outer.largest));
  // Lanczos sees the ends of a spectrum from inside.
  disc.radius = std::max(0.0, 0.5 * disc.mu / disc.outer_smoothness);
  if (std::isnan(disc.mu)) disc.radius = unknown;
  disc.source = "Lanczos at the settled state";
  return disc;
}

template <Vector V>
CircleFindings HolomorphicPropagation<V>::go_round(const Disc& disc, double outer_norm, double& beta) {
  const auto refuse = [](Status status, std::string why) {
    CircleFindings f;
    f.status = status;
    f.refused = true;
    f.message = std::move(why);
    return f;
  };
  if (disc.radius <= 0)
    return refuse(
        Status::negative_curvature,
        fmt::format("the Hessian at the free state has the eigenvalue {:.4g} ({}): it is not a minimum, "
                    "and nudging it says nothing",
                    disc.mu, disc.source));
  const bool choose = options_.beta == 0;
  if (!choose) {
    beta = options_.beta;
    if (beta >= disc.radius)
      return refuse(
          Status::negative_curvature,
          fmt::format(
              "beta = {:.4g} reaches the pole: H + bG ≻ 0 is sure only for |b| < {:.4g} ({}: μ = {:.4g}, "
              "L_out = {:.4g}); beyond it complex phases still settle, to a wrong gradient",
              beta, disc.radius, disc.source, disc.mu, disc.outer_smoothness));
    return circle_.run(phi_host_, theta_host_, beta, outer_norm, disc);
  }
  if (std::isnan(disc.radius))
    return refuse(Status::breakdown,
                  "beta could not be chosen: the problem knows no constants, and its curvature could not be "
                  "measured; set options.beta");
  const double n = options_.points;
  const double share =
      std::min(0.5, std::max(std::pow(options_.tolerance, 1 / n), std::pow(unit_roundoff<V>(), 1 / (n + 1))));
  // A flat outer loss has its pole at infinity; any circle does.
  beta = share * (std::isfinite(disc.radius) ? disc.radius : 1.0);
  CircleFindings findings = circle_.run(phi_host_, theta_host_, beta, outer_norm, disc);
  for (int attempt = 0; findings.refused && findings.status != Status::breakdown && attempt < 5; ++attempt) {
    beta /= 4;
    const std::string before = std::move(findings.message);
    findings = circle_.run(phi_host_, theta_host_, beta, outer_norm, disc);
    findings.message += fmt::format("; before, at |b| = {:.4g}: {}", 4 * beta, before);
  }
  return findings;
}

/// π̂ = −dφ_b/db makes ∇̃ = ∂θL_out − π̂χ̂ an implicit gradient with the residual ĝ − π̂Ĥ, for which the
/// certificate of implicit differentiation holds; ∇̂ lies ‖∇̂ − ∇̃‖ from it.
template <Vector V>
void HolomorphicPropagation<V>::certify_it(const V& theta, const CircleFindings& findings, double beta,
                                           const Disc& disc, Estimate<V>& e) {
  ImplicitOptions options{options_.certificate, options_.outer_tolerance};
  if (options_.adjoint_check && problem_.capabilities().curvature && options_.certificate.enabled) {
    problem_.linearise(e.phi, theta, 0, curvature_);
    certify_by_adjoint(settled_, *curvature_, theta, options, e);
  } else {
    options.certificate.enabled = false;
    settled_.certify(theta, nullptr, {.residual_norm = unknown}, options, e);
    if (options_.certificate.enabled) {
      e.certificate = certify_circle(findings, beta, disc, unit_roundoff<V>());
      e.certificate.trust = options_.certificate.trust;
    }
  }
  e.certificate.judge(norm(e.gradient), options_.outer_tolerance, succeeded(e.status));
}

template <Vector V>
Estimate<V> HolomorphicPropagation<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  if (settled_.settle(theta, warm, e)) {
    Stopwatch watch;
    Space<V>::to_host(e.phi, phi_host_.data());
    Space<V>::to_host(theta, theta_host_.data());
    const Disc disc = find_disc(theta, e.phi);
    double beta = unknown;
    const CircleFindings findings = go_round(disc, norm(settled_.outer_phi()), beta);
    e.adjoint_status = findings.status;
    e.adjoint_iterations = findings.iterations;
    e.message += fmt::format("; phase 2 (ep-holomorphic): {}", findings.message);
    e.cost.factorizations += findings.factorizations;
    e.cost.bytes = std::max(e.cost.bytes, circle_.bytes() + 3 * (bytes_of(e.phi) + bytes_of(theta)));
    e.cost.seconds_adjoint = watch.seconds();
    if (findings.refused) {
      e.status = findings.status;
      e.certificate.reason = findings.message;
    } else {
      Space<V>::from_host(findings.gradient.data(), e.gradient);
      phi_host_ = -findings.tangent;
      Space<V>::from_host(phi_host_.data(), e.pi);
      certify_it(theta, findings, beta, disc, e);
    }
  }
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
