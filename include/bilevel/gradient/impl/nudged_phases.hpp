#pragma once

#include <bilevel/gradient/impl/second_look.hpp>
#include <bilevel/gradient/nudged_phases.hpp>
#include <bilevel/problem/gamma.hpp>

namespace bilevel {

template <Vector V>
NudgedPhases<V>::NudgedPhases(CountedProblem<V>& problem, InnerSolver<V>& solver)
    : problem_(problem), solver_(solver) {
  const V phi = problem.initial_phi(), theta = problem.initial_theta();
  for (V* x : {&phi_, &residual_, &free_outer_phi_, &nothing_, &difference_, &inner_phi_, &outer_phi_,
               &first_secant_, &moved_, &worst_residual_})
    *x = Space<V>::zeros_like(phi);
  for (V* x : {&theta_, &inner_theta_, &theta_difference_, &outer_theta_, &free_outer_theta_})
    *x = Space<V>::zeros_like(theta);
}

template <Vector V>
void NudgedPhases<V>::begin(const V& theta, const V& phi, const V& residual, const V& outer_phi,
                            const V& outer_theta) {
  Space<V>::copy(theta, theta_);
  Space<V>::copy(phi, phi_);
  Space<V>::copy(residual, residual_);
  Space<V>::copy(outer_phi, free_outer_phi_);
  Space<V>::copy(outer_theta, free_outer_theta_);
  outer_phi_norm_ = norm(outer_phi);
  probed_ = false;
  inner_value_ = problem_.inner(phi_, theta_, {.theta = &inner_theta_});
  free_ = {};
  free_.residual = norm(residual_);
  measure(phi_, 0, free_.residual, 0, norm(inner_theta_), 0, free_);
}

/// Rounding errors and, from them and the residual, how far the stationary point can be.
template <Vector V>
void NudgedPhases<V>::measure(const V& phi, double t, double inner_norm, double outer_norm, double theta_norm,
                              double outer_theta_norm, NudgedPhase& record) {
  const double size = std::abs(t), u = unit_roundoff<V>();
  record.t = t;
  // With π = 0 the errors of the adjoint and of the gradient are those of ∂φ L_out and ∂θ L_out alone.
  const Rounding r = problem_.rounding(phi, theta_, nothing_);
  record.rounding_known = !std::isnan(r.residual + r.inner_theta + (t == 0 ? 0 : r.adjoint + r.gradient));
  if (record.rounding_known) {
    record.residual_error = r.residual + (t == 0 ? 0 : size * r.adjoint);
    record.theta_error = r.inner_theta + (t == 0 ? 0 : size * r.gradient);
  } else {
    // A few roundings of the terms' own size is the least.
    const double stiffness = problem_.constants(theta_, phi, 0).smoothness;
    record.residual_error = 8 * u *
                            (inner_norm + size * outer_norm +
                             (std::isnan(stiffness) ? probe().stiffness : stiffness) * norm(phi));
    record.theta_error = 8 * u * (theta_norm + size * outer_theta_norm);
  }
  record.residual_error += gamma(4, u) * (inner_norm + size * outer_norm);
  find_stationary_point(phi, record);
}

/// δ = ‖r‖/μ_t with μ_t = μ − |t|·L_out (L_out need not be convex), wherever that is known on a ball around
/// φ̂_t of a radius of at least δ: on its rim L_in + t·L_out rises outwards, so it has a minimum within.
template <Vector V>
void NudgedPhases<V>::find_stationary_point(const V& phi, NudgedPhase& record) {
  const double r =
      (record.residual + record.residual_error) * (1 + gamma(static_cast<double>(Space<V>::size(phi)) + 8));
  const auto mu_within = [&](double radius) {
    const Constants c = problem_.constants(theta_, phi, radius);
    return record.t == 0 ? c.mu : (c.mu - std::abs(record.t) * c.outer_smoothness) * (1 - 0x1p-50);
  };
  double mu = mu_within(everywhere);
  if (!(mu > 0)) {
    const double radius = 2 * r / mu_within(0);
    mu = radius >= 0 ? mu_within(radius) : unknown;
    if (!(mu > 0 && (mu * radius > r || r == 0))) return;
  }
  record.mu = mu;
  record.delta = r / mu * (1 + 0x1p-50);
}

template <Vector V>
Sweep<V> NudgedPhases<V>::sweep(const Stencil& stencil, double beta) {
  Stopwatch watch;
  Sweep<V> s;
  s.beta = beta;
  s.gradient = Space<V>::zeros_like(theta_);
  s.lower = Space<V>::zeros_like(theta_);
  s.pi = Space<V>::zeros_like(phi_);
  s.phases.push_back(free_);
  const std::size_t count = stencil.points().size();
  const bool one_sided = stencil.points()[0] == 0, embedded = one_sided && count > 2;
  const Stencil lower = embedded ? Stencil::forward(static_cast<int>(count) - 1) : stencil;
  V start = duplicate(phi_);
  worst_ = 0;
  Space<V>::scale(0, worst_residual_);
  for (std::size_t i = 0; i < count; ++i) {
    const int point = stencil.points()[i];
    NudgedPhase record;
    record.weight = stencil.coefficient(i);
    record.t = point * beta;
    if (point == 0) {
      s.phases[0].weight = record.weight;
      continue;
    }
    const V settled = settle(record.t, start, s);
    if (!s.usable() || !compare_with_free(settled, record, s)) break;
    assemble(count, record, s);
    if (embedded && i + 1 < count) Space<V>::axpy(lower.coefficient(i) / beta, theta_difference_, s.lower);
    follow_secant(i + 1 == count, record.t, s);
    s.phases.push_back(record);
    if (one_sided) Space<V>::copy(settled, start);
  }
  s.cost.seconds_adjoint = watch.seconds();
  return s;
}

/// The first phase that failed names the status of the whole.
template <Vector V>
void NudgedPhases<V>::blame(double t, Status status, const std::string& why, Sweep<V>& s) const {
  if (succeeded(s.status)) s.status = status;
  s.message += fmt::format("; at β = {:.4g} ({}): {}", t, solver_.name(), why);
}

/// φ̂_t, whatever the solver made of it; the sweep knows what went wrong.
template <Vector V>
V NudgedPhases<V>::settle(double t, const V& start, Sweep<V>& s) {
  Solution<V> settled = solver_.solve(theta_, t, start);
  settled.cost.seconds_inner = 0;  // all of this is the second phase
  s.cost += settled.cost;
  s.iterations += settled.iterations;
  if (Space<V>::size(settled.phi) != Space<V>::size(phi_))
    throw InvalidInput(fmt::format("inner solver {} returned a state of {} elements, the problem wants {}",
                                   solver_.name(), Space<V>::size(settled.phi), Space<V>::size(phi_)));
  // A solver that reports nothing is judged by what is measured later.
  if (!succeeded(settled.status) && settled.status != Status::not_run)
    blame(t, settled.status, settled.message, s);
  if (!all_finite(settled.phi)) blame(t, Status::not_finite, "the settled state is not finite", s);
  return std::move(settled.phi);
}

/// Measures the phase at record.t, and how far it is from the free one: difference_ becomes Δ,
/// theta_difference_ ∂θL(φ̂_t, t) − ∂θL(φ̂_0, 0). False where a loss or a derivative is not finite.
template <Vector V>
bool NudgedPhases<V>::compare_with_free(const V& phi, NudgedPhase& record, Sweep<V>& s) {
  const double t = record.t, u = unit_roundoff<V>(), n = static_cast<double>(Space<V>::size(phi_));
  const double value = problem_.inner(phi, theta_, {.phi = &inner_phi_, .theta = &theta_difference_});
  problem_.outer(phi, theta_, {.phi = &outer_phi_, .theta = &outer_theta_});
  Space<V>::copy(phi, difference_);
  Space<V>::axpy(-1, phi_, difference_);
  record.distance = norm(difference_) * (1 + gamma(n + 8, u));
  const double inner_norm = norm(inner_phi_), outer_norm = norm(outer_phi_),
               theta_norm = norm(theta_difference_), outer_theta_norm = norm(outer_theta_);

  // Energy along the way, from ∂φ L_in at both ends.
  const double end = Space<V>::dot(inner_phi_, difference_), begin = Space<V>::dot(residual_, difference_);
  record.energy = value - inner_value_;
  record.energy_error = 1e4 * u * (std::abs(value) + std::abs(inner_value_));
  record.work = 0.5 * (begin + end);
  record.curvature_along = end - begin;
  Space<V>::copy(inner_phi_, moved_);
  Space<V>::axpy(-1, residual_, moved_);
  if (record.distance > 0) record.stiffness = norm(moved_) / record.distance;

  Space<V>::axpy(t, outer_phi_, inner_phi_);
  record.residual = norm(inner_phi_);
  Space<V>::copy(inner_phi_, moved_);
  Space<V>::axpy(-1, residual_, moved_);
  Space<V>::axpy(-t, free_outer_phi_, moved_);
  if (record.distance > 0) record.nudged_stiffness = norm(moved_) / record.distance;
  if (const double weighed = std::abs(record.weight) * record.residual; weighed > worst_) {
    worst_ = weighed;
    Space<V>::copy(inner_phi_, worst_residual_);
  }
  if (!std::isfinite(value + record.residual + theta_norm + outer_theta_norm)) {
    blame(t, Status::not_finite, "a loss or one of its derivatives is not finite at the settled state", s);
    return false;
  }
  measure(phi, t, inner_norm, outer_norm, theta_norm, outer_theta_norm, record);
  return true;
}

/// Adds the phase to the sums. What is common to all phases never enters them.
template <Vector V>
void NudgedPhases<V>::assemble(std::size_t count, NudgedPhase& record, Sweep<V>& s) {
  const double t = record.t, scale = record.weight / s.beta, outer_theta_norm = norm(outer_theta_);
  Space<V>::axpy(-1, inner_theta_, theta_difference_);
  const double change = norm(theta_difference_);
  if (record.distance > 0) record.cross = change / record.distance;
  Space<V>::axpy(t, outer_theta_, theta_difference_);
  Space<V>::axpy(-1, free_outer_theta_, outer_theta_);
  record.outer_theta_change = norm(outer_theta_);
  Space<V>::axpy(scale, theta_difference_, s.gradient);
  Space<V>::axpy(-scale, difference_, s.pi);
  // A difference, two products, a sum of `count` terms, the coefficients, and t itself.
  s.assembly_error += gamma(static_cast<double>(count) + 8, unit_roundoff<V>()) * std::abs(scale) *
                      (change + std::abs(t) * outer_theta_norm);
}

/// How much Δ/t changes from the first nudged phase to the last; uses up difference_.
template <Vector V>
void NudgedPhases<V>::follow_secant(bool last, double t, Sweep<V>& s) {
  Space<V>::scale(1 / t, difference_);
  if (s.phases.size() == 1) {
    Space<V>::copy(difference_, first_secant_);
  } else if (last) {
    const double length = norm(first_secant_);
    Space<V>::axpy(-1, first_secant_, difference_);
    s.nonlinearity = length > 0 ? norm(difference_) / length : 0;
  }
}

/// Turns `direction` into a displaced state in moved_ and returns how far it was moved.
template <Vector V>
double NudgedPhases<V>::probe_step(V& direction) {
  const double size = norm(phi_), step = std::cbrt(unit_roundoff<V>()) * (size > 0 ? size : 1.0);
  const double length = norm(direction);
  Space<V>::copy(phi_, moved_);
  Space<V>::axpy(step / length, direction, moved_);
  return step;
}

template <Vector V>
const typename NudgedPhases<V>::Probe& NudgedPhases<V>::probe() {
  if (probed_) return probe_;
  probed_ = true;
  V direction = Space<V>::zeros_like(phi_), inner_phi = Space<V>::zeros_like(phi_),
    outer_phi = Space<V>::zeros_like(phi_), inner_theta = Space<V>::zeros_like(theta_);
  Space<V>::random(1, direction);
  const double step = probe_step(direction), root = std::sqrt(static_cast<double>(Space<V>::size(phi_)));
  problem_.inner(moved_, theta_, {.phi = &inner_phi, .theta = &inner_theta});
  problem_.outer(moved_, theta_, {.phi = &outer_phi});
  Space<V>::axpy(-1, residual_, inner_phi);
  Space<V>::axpy(-1, inner_theta_, inner_theta);
  Space<V>::axpy(-1, free_outer_phi_, outer_phi);
  const double along = norm(inner_phi) / step;
  probe_ = {root * along, along, root * norm(outer_phi) / step, root * norm(inner_theta) / step};
  return probe_;
}

template <Vector V>
double NudgedPhases<V>::stiffness_along_residuals() {
  V inner_phi = Space<V>::zeros_like(phi_);
  double least = everywhere;
  for (V* residual : {&residual_, &worst_residual_}) {
    if (!(norm(*residual) > 0)) continue;
    const double step = probe_step(*residual);
    problem_.inner(moved_, theta_, {.phi = &inner_phi});
    Space<V>::axpy(-1, residual_, inner_phi);
    least = std::min(least, norm(inner_phi) / step);
  }
  return least;
}

template <Vector V>
double NudgedPhases<V>::cross_towards_rest(double mu) {
  V inner_theta = Space<V>::zeros_like(theta_);
  double cross = 0;
  for (const V* residual : {&residual_, &worst_residual_}) {
    const double size = norm(*residual), distance = size / mu;
    if (!(distance > std::sqrt(unit_roundoff<V>()) * norm(phi_)) || !std::isfinite(distance)) continue;
    Space<V>::copy(phi_, moved_);
    Space<V>::axpy(-distance / size, *residual, moved_);
    problem_.inner(moved_, theta_, {.theta = &inner_theta});
    Space<V>::axpy(-1, inner_theta_, inner_theta);
    // A secant is the mean of χ along the way, half of what a χ that grows from zero reaches.
    cross = std::fmax(cross, 2 * norm(inner_theta) / distance);
  }
  return cross;
}

template <Vector V>
LeastCurvature<V> NudgedPhases<V>::least_curvature(Index most) {
  return bilevel::least_curvature<V>(problem_, theta_, phi_, residual_, most, 2);
}

template <Vector V>
AdjointLook NudgedPhases<V>::look_at_adjoint(const Sweep<V>& s) {
  double nudged = everywhere;
  for (const NudgedPhase& phase : s.phases)
    if (phase.t != 0) nudged = std::min(nudged, phase.distance);
  return bilevel::look_at_adjoint<V>(problem_,
                                     {.theta = theta_,
                                      .phi = phi_,
                                      .residual = residual_,
                                      .inner_theta = inner_theta_,
                                      .outer_phi = free_outer_phi_,
                                      .outer_theta = free_outer_theta_,
                                      .pi = s.pi,
                                      .gradient = s.gradient,
                                      .residual_error = free_.residual_error},
                                     nudged);
}

}  // namespace bilevel
