// Constants of the certifier's bounds: Lipschitz constants that a problem does not know, the norm of χ, and how
// the outer curvature compares with the inner.
#pragma once

#include <bilevel/gradient/impl/certifier.hpp>

namespace bilevel::detail {

/// Secants over the distance that matters stand in for Lipschitz constants the problem does not know:
/// along the inner residual and along a random direction, near and far.
template <Vector V>
void Certifier<V>::estimate_missing_constants(double distance) {
  Constants& c = constants_;
  const bool outer_missing = std::isnan(c.outer_smoothness + c.outer_cross_lipschitz);
  const bool inner_missing = std::isnan(c.hessian_lipschitz + c.cross_lipschitz);
  if (!outer_missing && !inner_missing) return;
  doubt("Lipschitz constants");
  // Over the distance itself, and over a short one: curvature that lives on a smaller scale than the distance
  // is averaged away by the first. The short one is relative to φ, so that its units do not matter.
  const double cube_root = std::cbrt(unit_roundoff<V>()), length_of_phi = norm(phases_.phi);
  const double short_step = cube_root * (length_of_phi > 0 ? length_of_phi : distance > 0 ? distance : 1.0);
  double rho_hessian = 0, rho_cross = 0, outer_smoothness = 0, outer_cross = 0;
  const auto fresh = [](const V& like) { return Space<V>::zeros_like(like); };
  V direction = fresh(phases_.phi), moved = fresh(phases_.phi), here = fresh(phases_.phi),
    there = fresh(phases_.phi);
  V theta_here = fresh(phases_.theta), theta_there = fresh(phases_.theta);
  std::unique_ptr<Curvature<V>> curvature_there;
  const auto secant = [](V& a, const V& b, double length) {
    Space<V>::axpy(-1, b, a);
    return length > 0 ? norm(a) / length : 0.0;
  };
  for (int which = 0; which < 4; ++which) {
    const double step = which < 2 ? short_step : distance;
    if (!(step > 0)) continue;
    if (which % 2 == 0)
      Space<V>::copy(phases_.inner_residual, direction);
    else
      Space<V>::random(options_.seed, direction);
    const double length = norm(direction);
    if (length == 0) continue;
    Space<V>::scale(-1 / length, direction);  // against the residual: that is where φ* lies
    Space<V>::copy(phases_.phi, moved);
    Space<V>::axpy(step, direction, moved);

    problem_.outer(moved, phases_.theta, {.phi = &there, .theta = &theta_there});
    outer_smoothness = std::max(outer_smoothness, secant(there, phases_.outer_phi, step));
    outer_cross = std::max(outer_cross, secant(theta_there, phases_.outer_theta, step));
    if (!inner_missing || !curvature_) continue;
    problem_.linearise(moved, phases_.theta, 0, curvature_there);
    for (const V* probe : {&phases_.pi, static_cast<const V*>(&direction)}) {
      const double probe_length = step * norm(*probe);
      curvature_->transpose_times(*probe, here);
      curvature_there->transpose_times(*probe, there);
      rho_hessian = std::max(rho_hessian, secant(there, here, probe_length));
      curvature_->cross_times(*probe, theta_here);
      curvature_there->cross_times(*probe, theta_there);
      rho_cross = std::max(rho_cross, secant(theta_there, theta_here, probe_length));
    }
  }
  const auto fill = [&](double& value, double estimate) {
    if (std::isnan(value)) value = options_.secant_safety * estimate;
  };
  fill(c.outer_smoothness, outer_smoothness);
  fill(c.outer_cross_lipschitz, outer_cross);
  if (curvature_) {
    fill(c.hessian_lipschitz, rho_hessian);
    fill(c.cross_lipschitz, rho_cross);
  }
}

/// ‖χ̂‖: the problem's own bound, or the Frobenius norm where χ is small, or a few power iterations.
template <Vector V>
double Certifier<V>::cross_norm_here() {
  if (curvature_) {
    const double known = curvature_->cross_norm();
    if (!std::isnan(known)) return known;
  }
  if (!std::isnan(constants_.cross_norm)) return constants_.cross_norm;
  if (!curvature_) return unknown;
  const Index n = Space<V>::size(phases_.phi), m = Space<V>::size(phases_.theta);
  if (std::min(n, m) <= 32) {
    const double slack = 1 + gamma(static_cast<double>(n + m) + 10);
    return slack * frobenius_cross(*curvature_, phases_.phi, phases_.theta);
  }
  doubt("the norm of the cross derivative");
  V u = Space<V>::zeros_like(phases_.theta), chi_u = Space<V>::zeros_like(phases_.phi);
  Space<V>::random(options_.seed, u);
  double estimate = 0;
  for (int k = 0; k < 10; ++k) {
    const double length = norm(u);
    if (!(length > 0)) break;
    Space<V>::scale(1 / length, u);
    curvature_->cross_apply(u, chi_u);
    estimate = std::max(estimate, norm(chi_u));
    curvature_->cross_times(chi_u, u);
  }
  return 1.5 * estimate;  // ten iterations reach the norm within a third for any gap seen in practice
}

/// ‖(π* − π̂)χ*‖ in the norm of the Hessian, where the problem knows how fast its curvature decays (R) and
/// ‖H^(−1/2)χ‖: with e = g* − π̂H* = (g* − ĝ) + s + π̂(Ĥ − H*) and |H* − Ĥ| ⪯ (exp(Rδ) − 1)Ĥ,
///   ‖e·H*⁻¹χ*‖ ≤ ‖H*^(−1/2)χ*‖ · ( (‖s‖ + L_out δ)/√μ + exp(Rδ/2)(exp(Rδ) − 1)·√(π̂Ĥπ̂) ).
/// With ω, ∂φ²L_out ⪯ ω·Ĥ at φ̂, L_out δ/√μ can give way to ω‖r‖/√μ̂ times factors near one: what is soft for
/// the inner loss is soft for the outer one too, as a rule. NaN where something is not known.
template <Vector V>
double Certifier<V>::energy_error() const {
  const Constants& c = constants_;
  const double rate = c.curvature_decay * result_.delta, root = std::sqrt(result_.mu);
  const double pi_energy = std::sqrt(std::abs(Space<V>::dot(phases_.pi, phases_.outer_phi)) +
                                     pi_norm_ * (result_.adjoint_residual + 1e-13 * outer_norm_));
  double moved = c.outer_smoothness * result_.delta / root;
  const double compared = std::exp(1.5 * rate + c.outer_decay * result_.delta) * relative_outer_ *
                          result_.inner_residual / std::sqrt(result_.mu * std::exp(rate));
  if (compared < moved) moved = compared;
  return c.cross_energy *
         (result_.adjoint_residual / root + moved + std::exp(0.5 * rate) * std::expm1(rate) * pi_energy);
}

/// ω by Cholesky factors: worth their price where the bound would not do otherwise.
template <Vector V>
void Certifier<V>::compare_outer() {
  const Index n = Space<V>::size(phases_.phi);
  if (!curvature_ || n > options_.factor_limit || !problem_.capabilities().symmetric ||
      !(result_.bound < everywhere) || std::isnan(constants_.curvature_decay + constants_.outer_decay))
    return;
  Eigen::MatrixXd inner, both;
  std::unique_ptr<Curvature<V>> nudged;
  if (!curvature_->dense(inner)) return;
  problem_.linearise(phases_.phi, phases_.theta, 1, nudged);
  if (!nudged->dense(both)) return;
  relative_outer_ = largest_relative(inner, both - inner, 2 * rounding_.curvature, result_.mu);
  assemble();
}

}  // namespace bilevel::detail
