#pragma once

#include <bilevel/gradient/agnostic.hpp>

namespace bilevel {

template <Vector V>
Agnostic<V>::Agnostic(ControlledSystem<V>& system, AgnosticOptions options)
    : system_(system), options_(options) {
  options_.validate().throw_if_any();
  if (!(system.compliance() > 0) || !std::isfinite(system.compliance()))
    throw InvalidInput(
        fmt::format("ep-agnostic: the system's compliance is {}, it must be positive", system.compliance()));
  if (Space<V>::size(system.initial_phi()) == 0 || Space<V>::size(system.initial_control()) == 0)
    throw InvalidInput("ep-agnostic: the system has no state to observe or no knob to turn");
}

template <Vector V>
Agnostic<V>::Agnostic(std::unique_ptr<ControlledSystem<V>> system, AgnosticOptions options)
    : Agnostic(*system, options) {
  owned_ = std::move(system);
}

/// False, with status and message set, where the observation is of no use.
template <Vector V>
bool Agnostic<V>::settle(const V& control, double beta, const V& start, Rest<V>& rest, Estimate<V>& e) {
  rest = system_.settle(control, beta, start);
  e.cost += rest.cost;
  if (Space<V>::size(rest.phi) != Space<V>::size(start) ||
      Space<V>::size(rest.extension) != Space<V>::size(control))
    throw InvalidInput(
        fmt::format("ep-agnostic: the system returned {} states and {} extensions for {} and {}",
                    Space<V>::size(rest.phi), Space<V>::size(rest.extension), Space<V>::size(start),
                    Space<V>::size(control)));
  Status& status = beta == 0 && e.inner_status == Status::not_run ? e.inner_status : e.adjoint_status;
  if (status == Status::not_run || succeeded(status)) status = rest.status;
  if (!succeeded(rest.status))
    e.message += fmt::format("{}at beta = {:.4g}: {}", e.message.empty() ? "" : "; ", beta, rest.message);
  const bool left = rest.status == Status::diverged;
  if (!left && all_finite(rest.phi) && all_finite(rest.extension)) return true;
  status = e.status = left ? Status::diverged : Status::not_finite;
  e.message += fmt::format("{}at beta = {:.4g} the system {}", e.message.empty() ? "" : "; ", beta,
                           left ? "does not come to rest" : "rests in a state that is not finite");
  e.certificate.reason = e.message;
  return false;
}

/// Writes the estimate at this β. Returns how far the displacements are from opposite ones, relative to their
/// size: 0 for a linear answer, 1 and more after a jump; NaN where a state was not finite.
template <Vector V>
double Agnostic<V>::nudge(const V& control, double beta, const Rest<V>& free, V& gradient, Estimate<V>& e) {
  if (!settle(control, beta, free.phi, plus_, e)) return unknown;
  Space<V>::copy(plus_.extension, gradient);
  if (!options_.central) {
    Space<V>::axpy(-1, free.extension, gradient);
    Space<V>::scale(-1 / (beta * system_.compliance()), gradient);
    return 0;
  }
  if (!settle(control, -beta, free.phi, minus_, e)) return unknown;
  Space<V>::axpy(-1, minus_.extension, gradient);
  Space<V>::scale(-1 / (2 * beta * system_.compliance()), gradient);
  V asymmetry = duplicate(plus_.phi);
  Space<V>::axpy(-1, minus_.phi, asymmetry);
  const double apart = norm(asymmetry);
  Space<V>::axpy(2, minus_.phi, asymmetry);
  Space<V>::axpy(-2, free.phi, asymmetry);
  return apart > 0 ? norm(asymmetry) / apart : 0.0;
}

template <Vector V>
void Agnostic<V>::certify_it(const V& control, const Rest<V>& free, double asymmetry, Estimate<V>& e) {
  if (!options_.certificate.enabled) {
    e.certificate.reason = "certificates are switched off";
    return;
  }
  const double beta = options_.beta, compliance = system_.compliance();
  V moved = duplicate(plus_.phi), finer = Space<V>::zeros_like(control);
  Space<V>::axpy(-1, free.phi, moved);
  const double displacement = norm(moved);
  // Back from the last nudge, before anything else touches the system: from −β or from +β.
  Rest<V> back;
  const V last = duplicate(options_.central ? minus_.phi : plus_.phi);
  if (!settle(control, 0, last, back, e)) return;
  if (std::isnan(nudge(control, beta / 2, free, finer, e))) return;

  Space<V>::axpy(-1, free.phi, back.phi);
  Space<V>::axpy(-1, free.extension, back.extension);
  const double missed = norm(back.phi), repeat = norm(back.extension);
  const double size_of_phi = norm(free.phi);
  const double rounding = 4 * unit_roundoff<V>() * (norm(plus_.extension) + norm(free.extension));
  const bool visible = displacement > 100 * unit_roundoff<V>() * size_of_phi;
  if (displacement == 0) {
    e.certificate.reason = fmt::format(
        "the system did not answer to the nudge of beta = {:.3g} at all: take a larger one, or settle more "
        "accurately",
        beta);
    return;
  }
  if (visible && (missed > 0.5 * displacement || asymmetry > 0.5)) {
    e.adjoint_status = Status::singular;
    e.certificate.reason = fmt::format(
        "the nudge crossed into another basin, or settling is too loose for it: it moved the state by "
        "{:.3g}, letting "
        "go brought it back to within {:.3g}, and the two displacements differ from opposite ones by {:.3g} "
        "of their "
        "distance; take a smaller beta or settle longer",
        displacement, missed, asymmetry);
    return;
  }
  Space<V>::axpy(-1, e.gradient, finer);
  // Bias C·β^p: the difference to half the nudge is (1 − 2^−p) of it. Twice that, since p holds only in the
  // limit.
  const double bias = 2 * norm(finer) * (options_.central ? 4.0 / 3.0 : 2.0);
  const double noise = (options_.central ? 1 : 2) * (2 * repeat + rounding) / (beta * compliance);
  e.certificate.bound = bias + noise;
  e.certificate.kind = Kind::estimated;
  e.certificate.delta = missed;
  e.certificate.reason = fmt::format(
      "estimated for the system with its springs: bias {:.3g} from beta/2, noise {:.3g} from returning to "
      "rest",
      bias, noise);
}

template <Vector V>
Estimate<V> Agnostic<V>::estimate(const V& control, const Warm<V>& warm) {
  Estimate<V> e;
  e.certificate.trust = options_.certificate.trust;
  const V initial = system_.initial_phi();
  if (Space<V>::size(control) != Space<V>::size(system_.initial_control()))
    throw InvalidInput(fmt::format("ep-agnostic: the control has {} elements, the system wants {}",
                                   Space<V>::size(control), Space<V>::size(system_.initial_control())));
  if (!all_finite(control)) throw InvalidInput("ep-agnostic: the control holds NaN or infinity");
  e.gradient = Space<V>::zeros_like(control);
  Space<V>::fill(unknown, e.gradient);
  e.phi = duplicate(initial);
  e.pi = Space<V>::zeros_like(initial);

  Stopwatch watch;
  Rest<V> free;
  const bool warmed =
      warm.phi && Space<V>::size(*warm.phi) == Space<V>::size(initial) && all_finite(*warm.phi);
  if (!settle(control, 0, warmed ? *warm.phi : initial, free, e)) return e;
  Space<V>::copy(free.phi, e.phi);
  V theta = duplicate(control);
  Space<V>::axpy(1, free.extension, theta);
  e.outer_value = e.corrected_value = system_.outer(free.phi, theta);
  ++e.cost.outer_values;
  e.cost.seconds_inner = watch.seconds();
  watch = Stopwatch();
  V gradient = Space<V>::zeros_like(control);
  const double asymmetry = nudge(control, options_.beta, free, gradient, e);
  e.cost.bytes = std::max(e.cost.bytes, 6 * (bytes_of(control) + bytes_of(e.phi)));
  if (std::isnan(asymmetry) || !std::isfinite(e.outer_value)) {
    e.status = Status::not_finite;
    if (!std::isfinite(e.outer_value)) e.message += "; the outer loss is not finite";
    e.certificate.reason = e.message;
    return e;
  }
  Space<V>::copy(gradient, e.gradient);
  // dφ_β/dβ = −π.
  Space<V>::copy(options_.central ? minus_.phi : free.phi, e.pi);
  Space<V>::axpy(-1, plus_.phi, e.pi);
  Space<V>::scale(1 / (options_.central ? 2 * options_.beta : options_.beta), e.pi);
  e.cost.seconds_adjoint = watch.seconds();
  watch = Stopwatch();
  certify_it(control, free, asymmetry, e);
  e.status = succeeded(e.inner_status) ? e.adjoint_status : e.inner_status;
  e.message = fmt::format("ep-agnostic, {} at beta = {:.4g}, compliance {:.4g}{}{}",
                          options_.central ? "central" : "forward", options_.beta, system_.compliance(),
                          e.message.empty() ? "" : ": ", e.message);
  e.certificate.judge(norm(e.gradient), options_.outer_tolerance, succeeded(e.status));
  e.cost.seconds_certificate = watch.seconds();
  return e;
}

}  // namespace bilevel
