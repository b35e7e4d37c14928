#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include <bilevel/gradient/impl/nudged_phases.hpp>
#include <bilevel/inner/stop.hpp>

namespace bilevel {

/// A theorem (docs/equilibrium-propagation.md): with φ_0, φ_t stationary points of the phases, Δ_t = φ_t −
/// φ_0,
///   E_t = M_out‖Δ_t‖ + ρ_χ‖Δ_t‖²/2|t| + ‖χ_0‖·(ρ_H‖Δ_t‖²/2|t| + L_out‖Δ_t‖)/μ
/// bounds the error of the secant from 0 to t of exactly settled phases, for either sign of t. A stencil is Σ
/// iα_i times the secant to iβ, and a phase that missed by δ_t adds |α|(sup‖χ‖ + |t|M_out)δ_t/|β|:
///   ‖∇ − ∇̂‖ ≤ Σ |iα_i| E_{iβ} + Σ |α_i|((sup‖χ‖ + |iβ|M_out)δ_i + rounding)/|β| + rounding of the sum.
/// NaN where a constant, a rounding error or a δ is not known.
template <Vector V>
double rigorous_nudged_bound(Problem<V>& problem, const V& theta, const V& phi, const Sweep<V>& sweep) {
  const NudgedPhase& free = sweep.phases[0];
  double radius = free.delta;
  for (const NudgedPhase& phase : sweep.phases) {
    if (!phase.rounding_known || std::isnan(phase.delta)) return unknown;
    radius = std::max(radius, phase.distance + phase.delta);
  }
  radius *= 1 + 0x1p-50;
  const Constants wide = problem.constants(theta, phi, radius),
                  near = problem.constants(theta, phi, free.delta);
  const double mu = near.mu > free.mu ? near.mu : free.mu;
  double bound = sweep.assembly_error;
  for (const NudgedPhase& phase : sweep.phases) {
    const double t = std::abs(phase.t), weight = std::abs(phase.weight / sweep.beta);
    bound += weight * ((wide.cross_norm + t * wide.outer_cross_lipschitz) * phase.delta + phase.theta_error);
    if (t == 0) continue;
    const double moved = phase.distance + phase.delta + free.delta;
    const double half_square = moved * moved / (2 * t);
    bound += weight * t *
             (wide.outer_cross_lipschitz * moved + wide.cross_lipschitz * half_square +
              near.cross_norm * (wide.hessian_lipschitz * half_square + wide.outer_smoothness * moved) / mu);
  }
  const double sizes = static_cast<double>(Space<V>::size(phi) + Space<V>::size(theta));
  return bound * (1 + gamma(sizes + 64));
}

/// How a residual left by a phase shows in ∂θL at most: sup‖χ‖/μ by the problem's constants, on a ball that
/// holds where every phase would rest; NaN if unknown. At the free state itself χ may vanish.
template <Vector V>
double proven_gain(Problem<V>& problem, const NudgedPhases<V>& phases, const Sweep<V>& sweep) {
  double radius = 0;
  for (const NudgedPhase& phase : sweep.phases) {
    const double reach = phase.distance + phase.delta;
    if (std::isnan(reach)) return unknown;
    radius = std::max(radius, reach);
  }
  return problem.constants(phases.theta(), phases.phi(), radius).cross_norm / phases.free_phase().mu;
}

/// The same from the largest ‖χ‖ and the smallest stiffness seen: along the displacements, a random
/// direction, and the residuals that the phases left, times `safety` for what was not seen. Never more than
/// what is proven.
template <Vector V>
double estimated_gain(Problem<V>& problem, NudgedPhases<V>& phases, const Sweep<V>& sweep, double safety) {
  double cross = phases.probe().cross;
  double mu = std::min(phases.probe().random_stiffness, phases.stiffness_along_residuals());
  for (const NudgedPhase& phase : sweep.phases) {
    cross = std::max(cross, phase.cross);
    mu = std::fmin(mu, phase.stiffness);
  }
  cross = std::max(cross, phases.cross_towards_rest(mu));
  return std::fmin(safety * cross / mu, proven_gain<V>(problem, phases, sweep));
}

/// The same in the direction that matters most, for choosing β: ‖χᵀΔ‖/‖HΔ‖, not a bound.
template <Vector V>
double typical_gain(const Sweep<V>& sweep) {
  double gain = 0;
  for (const NudgedPhase& phase : sweep.phases)
    if (phase.t != 0 && phase.stiffness > 0) gain = std::max(gain, phase.cross / phase.stiffness);
  return gain;
}

/// What phases that missed by their residuals, and rounding, do to the gradient. Rounding errors are
/// multiplied by `rounding_share`: bounds of them are pessimistic.
template <Vector V>
double nudged_noise(const Sweep<V>& sweep, double gain, double rounding_share) {
  double noise = rounding_share * sweep.assembly_error;
  for (const NudgedPhase& phase : sweep.phases)
    noise += std::abs(phase.weight / sweep.beta) *
             (gain * (phase.residual + rounding_share * phase.residual_error) +
              rounding_share * phase.theta_error);
  return noise;
}

template <Vector V>
double distance_between(const V& a, const V& b) {
  V difference = duplicate(a);
  Space<V>::axpy(-1, b, difference);
  return norm(difference);
}

/// How far the displacement is from proportional to t, relative.
struct Nonlinearity {
  double seen;   ///< as measured
  double shown;  ///< the same, or 0 where errors of the phases explain it
};

/// Within the sweep where it has several points on one side, else against the sweep at half the strength.
template <Vector V>
Nonlinearity nudged_nonlinearity(const Sweep<V>& sweep, const Sweep<V>* half) {
  double nonlinearity = 0, distance = everywhere, missed = 0;
  if (half) {
    const double size = norm(half->pi);
    nonlinearity = size > 0 ? distance_between(sweep.pi, half->pi) / size : 0;
  } else if (!std::isnan(sweep.nonlinearity)) {
    nonlinearity = sweep.nonlinearity;
  }
  for (const Sweep<V>* s : {&sweep, half}) {
    if (!s) continue;
    for (const NudgedPhase& phase : s->phases) {
      if (phase.t != 0) distance = std::min(distance, phase.distance);
      // Of the nudged loss: with a strong nudge the residual of a soft L_in excuses nothing.
      double stiffness = phase.nudged_stiffness;
      if (std::isnan(stiffness) && s->phases.size() > 1) stiffness = s->phases[1].nudged_stiffness;
      missed = std::max(missed, (phase.residual + phase.residual_error / 8) / stiffness);
    }
  }
  return {nonlinearity, nonlinearity * distance <= 4 * missed ? 0 : nonlinearity};
}

/// Why the phases cannot belong to one branch of minima that β moves continuously; empty where they can. Its
/// status is negative_curvature for a free state that is no minimum, else converged: the phases did what they
/// were asked. `residuals_matter` is false where the noise they make is negligible anyway.
template <Vector V>
std::optional<Stop> basin_fault(Problem<V>& problem, const NudgedPhases<V>& phases, const Sweep<V>& sweep,
                                bool residuals_matter) {
  const NudgedPhase& free = sweep.phases[0];
  double reach = 0;
  for (const NudgedPhase& phase : sweep.phases) reach = std::max(reach, 1.01 * phase.distance);
  const Constants known = problem.constants(phases.theta(), phases.phi(), reach);
  for (const NudgedPhase& phase : sweep.phases) {
    if (phase.t == 0) continue;
    const double t = std::abs(phase.t), errors = free.residual_error + phase.residual_error;
    const double residuals = free.residual + phase.residual, force = t * phases.outer_phi_norm();
    if (residuals_matter && residuals > 0.5 * force && residuals > errors)
      return Stop{Status::converged,
                  fmt::format("the phases have not settled well enough for β = {:.4g}: residuals {:.3g} and "
                              "{:.3g} against a nudging force |β|·‖∂φ L_out‖ = {:.3g}",
                              phase.t, free.residual, phase.residual, force)};
    if (phase.curvature_along < -errors * phase.distance)
      return Stop{Status::negative_curvature,
                  fmt::format("the inner loss bends downwards along the displacement at β = {:.4g} "
                              "(curvature {:.3g}): the free state is no minimum",
                              phase.t, phase.curvature_along / (phase.distance * phase.distance))};
    // Strong convexity of L_in + t·L_out allows no more than this.
    const double mu = known.mu - t * known.outer_smoothness;
    if (phase.t < 0 && mu <= 0)
      return Stop{
          Status::negative_curvature,
          fmt::format("at β = {:.4g} the nudge's curvature, up to {:.3g}, reaches that of L_in, {:.3g}: "
                      "there need be no minimum to settle in",
                      phase.t, t * known.outer_smoothness, known.mu)};
    if (mu > 0 && mu * phase.distance > 1.01 * (force + residuals + 2 * errors))
      return Stop{Status::converged,
                  fmt::format("the state moved by {:.3g} at β = {:.4g}, more than the {:.3g} that the "
                              "problem's own constants allow: they are wrong, or a phase ended elsewhere",
                              phase.distance, phase.t, force / mu)};
    // Within one basin the trapezoidal rule misses by ρ_H‖Δ‖³/12 only; across a barrier by the barrier.
    const double size = std::max(std::abs(phase.energy), std::abs(phase.work));
    if (size > phase.energy_error && std::abs(phase.energy - phase.work) > 0.5 * size)
      return Stop{Status::converged,
                  fmt::format("the phase at β = {:.4g} ended in another basin, or β is far too large: L_in "
                              "changed by {:.3g}, its derivatives at both ends say {:.3g} (moved by {:.3g})",
                              phase.t, phase.energy, phase.work, phase.distance)};
  }
  return {};
}

}  // namespace bilevel
