#pragma once

#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/impl/certify_nudged.hpp>
#include <bilevel/gradient/impl/nudged_phases.hpp>
#include <bilevel/gradient/impl/settle_and_certify.hpp>

namespace bilevel {

template <Vector V>
EquilibriumPropagation<V>::EquilibriumPropagation(Problem<V>& problem, InnerSolver<V>& inner,
                                                  EquilibriumPropagationOptions options)
    : options_((options.validate().throw_if_any(), options)),
      stencil_(stencil_of(options.nudge, options.points)),
      name_(bilevel::name(options)),
      problem_(problem),
      inner_(inner),
      settled_(problem_, inner),
      phases_(problem_, inner),
      signs_(options.seed) {
  require_shapes<V>(problem, nullptr, nullptr, name_);
}

template <Vector V>
void EquilibriumPropagation<V>::set_tolerances(double inner, double) {
  inner_.set_tolerance(inner);
  // The phases' errors follow the tolerance, down to rounding: so does the choice of β, without pilots.
  if (tolerance_ > 0) noise_ = std::max(noise_ * inner / tolerance_, rounding_noise_);
  tolerance_ = inner;
}

template <Vector V>
Sweep<V> EquilibriumPropagation<V>::sweep(double beta, double Cost::*clock, Estimate<V>& e) {
  Sweep<V> s = phases_.sweep(stencil_, beta);
  e.cost.*clock += s.cost.seconds_adjoint;
  s.cost.seconds_adjoint = 0;
  e.cost += s.cost;
  e.adjoint_iterations += s.iterations;
  return s;
}

template <Vector V>
Estimate<V> EquilibriumPropagation<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  e.certificate.trust = options_.trust;
  problem_.cost() = {};
  const double sign = options_.nudge == Nudge::random_sign && signs_() % 2 == 1 ? -1 : 1;
  if (settled_.settle(theta, warm, e)) {
    if (e.status == Status::not_run) e.status = e.inner_status = Status::converged;  // judged by measurement
    phases_.begin(theta, e.phi, settled_.residual(), settled_.outer_phi(), settled_.outer_theta());
    const double beta = options_.beta != 0 ? options_.beta : choose(e);
    used_beta_ = sign * beta;
    if (!refuses(beta, e)) {
      const Sweep<V> s = sweep(used_beta_, &Cost::seconds_adjoint, e);
      e.adjoint_status = s.status;
      if (succeeded(e.status)) e.status = s.status;
      e.message += fmt::format("; {}: β = {:.4g} ({}){}", name_, used_beta_,
                               options_.beta != 0 ? "given"
                                                  : fmt::format("chosen: bias {:.2g}·β^{}, noise {:.2g}/β",
                                                                bias_, stencil_.order(), noise_),
                               s.message);
      if (s.usable()) {
        Space<V>::copy(s.gradient, e.gradient);
        Space<V>::copy(s.pi, e.pi);
        e.corrected_value = e.outer_value - Space<V>::dot(e.pi, settled_.residual());
        if (all_finite(e.gradient)) {
          certify(s, e);
        } else {
          e.status = Status::not_finite;
          e.certificate.reason = fmt::format("the differences over β = {:.4g} are not finite", used_beta_);
          since_trusted_ = options_.patience;
        }
      } else {
        e.status = s.status;
        e.certificate.reason = fmt::format("a nudged phase has no state to settle in{}", s.message);
        since_trusted_ = options_.patience;
      }
    }
    e.cost.bytes = std::max(e.cost.bytes, phases_.bytes());
  }
  e.cost += problem_.cost();
  return e;
}

/// L_in + t·L_out may have no minimiser once |t|·L_out reaches μ, and beyond the pole a solver still
/// returns something.
template <Vector V>
bool EquilibriumPropagation<V>::refuses(double beta, Estimate<V>& e) {
  if (options_.nudge == Nudge::forward && beta > 0) return false;
  const Constants c = problem_.constants(phases_.theta(), phases_.phi(), everywhere);
  const double strength = std::abs(stencil_.points().back() * beta);
  if (!(strength * c.outer_smoothness >= c.mu)) return false;
  e.status = e.adjoint_status = Status::negative_curvature;
  e.certificate.mu = c.mu;
  e.certificate.reason = fmt::format(
      "L_in − {:.4g}·L_out need not have a minimum: |β|·L_out = {:.4g} reaches μ = {:.4g}; use |β| below "
      "{:.4g} or a forward estimator with β > 0",
      strength, strength * c.outer_smoothness, c.mu, c.mu / c.outer_smoothness);
  e.message += "; " + e.certificate.reason;
  return true;
}

/// The bound of |β| on the negative side, where it is known: half of the way to the pole.
template <Vector V>
double EquilibriumPropagation<V>::limit(Constants c) const {
  const double pole = c.mu / c.outer_smoothness;
  return options_.nudge == Nudge::forward || std::isnan(pole) ? everywhere : 0.5 * pole;
}

/// Minimises c·β^q + ε/β.
template <Vector V>
double EquilibriumPropagation<V>::balanced() const {
  const double q = stencil_.order();
  const double beta = std::pow(noise_ / (q * bias_), 1 / (q + 1));
  return std::isfinite(beta) && beta > 0 ? std::min(beta, strongest_) : strongest_;
}

template <Vector V>
double EquilibriumPropagation<V>::choose(Estimate<V>& e) {
  const bool remembered = !std::isnan(noise_) && since_trusted_ < options_.patience;
  const double beta = remembered ? balanced() : run_pilots(e);
  return std::min(beta, limit(problem_.constants(phases_.theta(), phases_.phi(), everywhere)));
}

/// Two sweeps, at β and β/2, show the bias (Richardson) and the noise; β is moved until the first stands out
/// of the second while the displacement is still nearly proportional to β.
template <Vector V>
double EquilibriumPropagation<V>::run_pilots(Estimate<V>& e) {
  ++pilots_;
  since_trusted_ = 0;
  const Constants c = problem_.constants(phases_.theta(), phases_.phi(), everywhere);
  const double reach = stencil_.points().back(), q = stencil_.order();
  const double size = norm(e.phi), pole = c.mu / c.outer_smoothness;
  // Beyond the ratio of the curvatures the state follows the outer loss, whatever noise hides of it.
  const auto& scales = phases_.probe();
  const double ratio = scales.stiffness / scales.outer_stiffness / reach;
  double most = limit(c);
  if (ratio > 0) most = std::min(most, ratio);
  double beta = pole > 0 ? 0.1 * pole / reach : 0.01 * ratio;
  // A linear outer loss has no scale of its own: then by how far the state is pushed.
  if (!(std::isfinite(beta) && beta > 0))
    beta = 0.1 * scales.stiffness * (size > 0 ? size : 1) / phases_.outer_phi_norm();
  if (!(std::isfinite(beta) && beta > 0)) beta = 1;
  beta = std::min(beta, most);
  double lowest_failed = everywhere;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const Sweep<V> full = sweep(beta, &Cost::seconds_adjoint, e),
                   half = sweep(beta / 2, &Cost::seconds_adjoint, e);
    if (!full.usable() || !half.usable()) {
      lowest_failed = beta;
      beta /= 8;
      continue;
    }
    const double nonlinearity = nudged_nonlinearity(full, embedded() ? nullptr : &half).shown;
    const double difference = distance_between(full.gradient, half.gradient);
    remember_noise(full, estimated_gain<V>(problem_, phases_, full, gain_safety));
    const double noise = noise_ / std::abs(beta);
    bias_ = richardson() * difference / std::pow(std::abs(beta), q);
    strongest_ = std::min(most, nonlinearity > 0 ? beta * pilot_nonlinearity / nonlinearity : 4 * beta);
    if (nonlinearity > pilot_nonlinearity) {
      lowest_failed = beta;
      beta *= std::max(0.1, 0.7 * pilot_nonlinearity / nonlinearity);
      continue;
    }
    const double stronger = std::min(4 * beta, strongest_);
    if (difference > 4 * noise || stronger < 1.2 * beta || stronger >= lowest_failed) break;
    beta = stronger;
  }
  return std::isnan(noise_) ? beta : balanced();  // no pilot settled: the sweep will say why
}

template <Vector V>
void EquilibriumPropagation<V>::certify(const Sweep<V>& s, Estimate<V>& e) {
  Certificate& c = e.certificate;
  const NudgedPhase& free = s.phases[0];
  c.inner_residual = free.residual + free.residual_error;
  c.delta = free.delta;
  c.mu = free.mu;
  if (!std::isnan(free.mu)) c.mu_source = "the problem's constants";
  for (const NudgedPhase& phase : s.phases)
    if (phase.t != 0) c.delta_prime = std::fmax(c.delta_prime, phase.delta);
  if (!options_.certificate) {
    c.reason = "certificates are switched off";
    return;
  }
  const double gradient_norm = norm(e.gradient);
  c.theorem_bound = rigorous_nudged_bound<V>(problem_, phases_.theta(), e.phi, s);
  const double good_enough = std::max(options_.trust * gradient_norm, options_.outer_tolerance);
  if (c.theorem_bound <= good_enough) {
    c.kind = Kind::rigorous;
    c.bound = c.theorem_bound;
    c.reason = fmt::format("bound from {}, of bias, phases and rounding together", c.mu_source);
    remember_noise(s, proven_gain<V>(problem_, phases_, s));
  } else {
    estimate_bound(s, good_enough, e);
  }
  c.judge(gradient_norm, options_.outer_tolerance, succeeded(e.status));
  since_trusted_ = c.verdict == Verdict::trusted ? 0 : since_trusted_ + 1;
}

/// Where the rigorous bound does not earn trust: the bias from the stencil of one point less or from half the
/// strength, the noise from the measured residuals; none where the phases do not belong together.
template <Vector V>
void EquilibriumPropagation<V>::estimate_bound(const Sweep<V>& s, double good_enough, Estimate<V>& e) {
  Certificate& c = e.certificate;
  const auto renew = [&](std::string reason) {
    c.reason = std::move(reason);
    since_trusted_ = options_.patience;
  };
  const double gain = estimated_gain<V>(problem_, phases_, s, gain_safety);
  remember_noise(s, gain);
  const double noise = nudged_noise(s, gain, 1), rounding = noise - nudged_noise(s, gain, 0);
  // Nudged on both sides, the free state has no weight in the difference; it is still the state that the
  // gradient is reported for, and must have settled.
  const double free_noise =
      options_.nudge == Nudge::central ? gain * s.phases[0].residual / std::abs(s.beta) : 0;
  if (auto fault = basin_fault<V>(problem_, phases_, s, !(noise + free_noise <= options_.outer_tolerance))) {
    if (succeeded(e.status)) e.status = fault->status;
    return renew(std::move(fault->message));
  }
  std::optional<Sweep<V>> half;
  if (!embedded()) {
    half = sweep(s.beta / 2, &Cost::seconds_certificate, e);
    if (!half->usable()) return renew(fmt::format("the phases at half the strength failed{}", half->message));
  }
  const auto [seen, nonlinearity] = nudged_nonlinearity(s, half ? &*half : nullptr);
  if (nonlinearity > most_nonlinearity)
    return renew(fmt::format(
        "β = {:.4g} is too large to extrapolate from: the displacement per β changes by {:.0f} % over the "
        "phases",
        s.beta, 100 * nonlinearity));
  // A difference of gradients may vanish by chance, above all where θ has one element; the states bend all
  // the same. Where their errors hide whether they do, all of π·χ may be bias.
  double outer_change = 0;  // of ∂θ L_out, all of it bias
  for (const NudgedPhase& phase : s.phases)
    if (phase.t != 0) outer_change = std::max(outer_change, phase.outer_theta_change);
  const double floor =
      nonlinearity > 0 ? 0.5 * norm(e.gradient) * std::pow(nonlinearity, embedded() ? options_.points - 2 : 1)
                       : std::min(seen, 1.0) * gain * phases_.outer_phi_norm() + outer_change;
  // The stencil of one point less errs by about the difference of the two, this one by that times the ratio
  // of successive terms in β. Two points err by so much more than three that this must be counted: the ratio
  // is about twice the nonlinearity.
  const double ratio = options_.points == 3 ? std::min(1.5, 15 * seen) : 1;
  const double difference = half ? richardson() * distance_between(s.gradient, half->gradient)
                                 : ratio * distance_between(s.gradient, s.lower);
  const double bias = std::max(floor, bias_safety * difference), estimated = bias + noise;
  if (std::isfinite(estimated) && !(c.theorem_bound <= estimated)) {
    c.kind = Kind::estimated;
    c.bound = estimated;
    c.reason =
        fmt::format("estimated: bias {:.3g} from {}, phases {:.3g}, rounding {:.3g}", bias,
                    half ? "half the strength" : "the stencil of one point less", noise - rounding, rounding);
  } else if (std::isfinite(c.theorem_bound)) {
    c.kind = Kind::rigorous;
    c.bound = c.theorem_bound;
    c.reason = fmt::format("bound from {}", c.mu_source);
  } else {
    c.reason = "neither constants nor scales of this problem could be had";
  }
  // Constants that are all known leave no room for kinks or saddles.
  if (c.kind == Kind::estimated && estimated <= good_enough && !std::isfinite(c.theorem_bound))
    look_again(s, gain, seen, good_enough, e);
  if (!(estimated > good_enough)) return;
  if (rounding > 0.5 * estimated)
    c.reason +=
        fmt::format("; rounding dominates at β = {:.4g}: a larger |β| would be more accurate", s.beta);
  else if (noise > 0.9 * estimated)
    c.reason += fmt::format(
        "; errors of the phases dominate at β = {:.4g}: settle more accurately or use a larger |β|", s.beta);
}

/// Before an estimated bound is believed. A saddle answers to nudges as a minimum does; phases that went
/// beyond a kink agree with each other, but their π̂ does not solve the adjoint's equation at the free state.
/// `bend` is how much the displacement per β was seen to change.
template <Vector V>
void EquilibriumPropagation<V>::look_again(const Sweep<V>& s, double gain, double bend, double good_enough,
                                           Estimate<V>& e) {
  Certificate& c = e.certificate;
  if (!(s.phases[0].mu > 0)) {
    const LeastCurvature<V> least = phases_.least_curvature(affordable_looks(e.cost.gradient_equivalents()));
    if (least.negative()) {
      if (succeeded(e.status)) e.status = Status::negative_curvature;
      c.kind = Kind::none;
      c.bound = everywhere;
      c.reason =
          fmt::format("the free state is no minimum: the inner loss bends downwards there (curvature {:.3g})",
                      least.value);
      since_trusted_ = options_.patience;
      return;
    }
    // The softest direction seen: what the phases left may lie there.
    const double cross = std::max(phases_.probe().cross, phases_.cross_towards_rest(least.value));
    if (const double softest = cross / least.value; softest > gain) {
      c.bound += nudged_noise(s, softest, 0) - nudged_noise(s, gain, 0);
      gain = softest;
    }
  }
  const AdjointLook look = phases_.look_at_adjoint(s);
  const double force = phases_.outer_phi_norm();
  double missed = s.phases[0].residual;  // of the sum of weighed residuals, all of it unlucky
  for (const NudgedPhase& phase : s.phases) missed += std::abs(phase.weight) * phase.residual;
  const double explained = 4 * bend * force + 2 * missed / std::abs(s.beta) + look.noise;
  const double steepest = std::fmax(gain, gain_safety * phases_.probe().cross / look.stiffness);
  // By the gain along the displacement, H⁻¹χ of that residual is the error of ∇̂, to first order.
  const double typical = typical_gain(s) * (look.residual - look.noise);
  const double disagreement = (look.residual > explained ? steepest * look.residual : 0) +
                              (typical > c.bound ? 2 * typical : 0) +
                              (look.distance > c.bound ? look.distance : 0);
  if (!(disagreement > 0)) return;
  c.bound += disagreement;
  if (!(c.bound > good_enough)) return;
  c.reason += fmt::format(
      "; doubtful: the adjoint that the phases give misses its equation by {:.3g} of {:.3g} where they set "
      "out "
      "({:.3g} is explained): a kink nearer than the nudge, or β is too large",
      look.residual, force, explained);
}

/// What the phases' errors do to the gradient as a rule, rather than at worst: the choice of β wants that. At
/// an outer optimum ‖χᵀΔ‖ vanishes, and the worst case takes over.
template <Vector V>
void EquilibriumPropagation<V>::remember_noise(const Sweep<V>& s, double gain) {
  const double typical = std::max(typical_gain(s), 0.05 * gain);
  noise_ = nudged_noise(s, typical, 0.125) * std::abs(s.beta);
  rounding_noise_ = noise_ - nudged_noise(s, typical, 0) * std::abs(s.beta);
}

}  // namespace bilevel
