#pragma once

#include <bilevel/gradient/checked_by_solver.hpp>
#include <bilevel/gradient/impl/better_start.hpp>
#include <bilevel/gradient/impl/second_look.hpp>

namespace bilevel {

template <Vector V>
CheckedBySolver<V>::CheckedBySolver(Problem<V>& problem, InnerSolver<V>& solver,
                                    std::unique_ptr<Estimator<V>> estimator)
    : problem_(problem),
      estimator_(std::move(estimator)),
      solver_(solver),
      scratch_(Space<V>::zeros_like(problem.initial_phi())) {}

template <Vector V>
Estimate<V> CheckedBySolver<V>::estimate(const V& theta, const Warm<V>& warm) {
  const StopToken* const stop = problem_.stop_token();
  if (const auto why = stop_wanted(stop)) {
    Estimate<V> e;
    e.gradient = Space<V>::zeros_like(theta);
    Space<V>::fill(unknown, e.gradient);
    e.phi = problem_.initial_phi();
    e.pi = Space<V>::zeros_like(e.phi);
    e.status = e.inner_status = *why;
    e.certificate.reason = e.message = "the run was to end before it began";
    return e;
  }
  Estimate<V> e = estimator_->estimate(theta, warm);
  // A rigorous bound speaks of the one minimiser that the problem's constants prove.
  Certificate& c = e.certificate;
  if (c.verdict != Verdict::trusted || c.kind == Kind::rigorous) return e;
  Stopwatch watch;
  problem_.cost() = {};
  if (!stop_wanted(stop)) {
    if (std::isnan(c.mu)) look_for_saddle(theta, e);
    if (c.verdict == Verdict::trusted) compare(theta, warm, e);
  }
  if (const auto why = stop_wanted(stop)) {
    e.status = *why;
    c.doubt = "the run was to end before a second look";
    c.reason += "; doubtful: " + c.doubt;
    c.judge(norm(e.gradient), outer_tolerance_, false);
  }
  e.cost += problem_.cost();
  e.cost.seconds_certificate += watch.seconds();
  return e;
}

template <Vector V>
void CheckedBySolver<V>::look_for_saddle(const V& theta, Estimate<V>& e) {
  problem_.residual(e.phi, theta, scratch_);
  const LeastCurvature<V> least = least_curvature<V>(problem_, theta, e.phi, scratch_,
                                                     affordable_looks(e.cost.gradient_equivalents()), 2);
  if (!least.negative()) return;
  e.certificate.kind = Kind::none;
  e.certificate.bound = everywhere;
  e.certificate.verdict = Verdict::untrusted;
  e.certificate.reason =
      fmt::format("the settled state is no minimum: the inner loss bends downwards there (curvature {:.3g})",
                  least.value);
  e.status = Status::negative_curvature;
}

template <Vector V>
void CheckedBySolver<V>::compare(const V& theta, const Warm<V>& warm, Estimate<V>& e) {
  Certificate& c = e.certificate;
  Solution<V> here = solver_.solve(theta, 0, better_start<V>(problem_, theta, warm.phi, scratch_));
  here.cost.seconds_inner = 0;  // all of this is the certificate's
  e.cost += here.cost;
  require_shapes<V>(problem_, &here.phi, nullptr, solver_.name());
  problem_.residual(here.phi, theta, scratch_);
  const double residual = norm(scratch_), size = norm(here.phi);
  Space<V>::copy(here.phi, scratch_);
  Space<V>::axpy(-1, e.phi, scratch_);
  // Each is within its residual over μ of the minimiser, where that is known; springs pull both φ and θ.
  const double distance = norm(scratch_),
               allowed = std::isnan(c.mu) ? 0.1 * size : 4 * (c.delta + residual / c.mu);
  if (distance > allowed + 1e3 * unit_roundoff<V>() * size) {
    c.doubt =
        fmt::format("the inner solver that was given ({}) settles {:.3g} away from what was differentiated",
                    solver_.name(), distance);
    c.reason += "; doubtful: " + c.doubt;
  } else {
    look_beside<V>(problem_, solver_, theta, here, e);
  }
  if (!c.doubt.empty()) c.judge(norm(e.gradient), outer_tolerance_, succeeded(e.status));
}

}  // namespace bilevel
