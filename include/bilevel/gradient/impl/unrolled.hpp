#pragma once

#include <bilevel/gradient/unrolled.hpp>
#include <bilevel/gradient/impl/certify_by_adjoint.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/inner/impl/make_inner_solver.hpp>
#include <bilevel/inner/impl/recorded_run.hpp>

namespace bilevel {

template <Vector V>
UnrolledOptions Unrolled<V>::with_budget(Problem<V>& problem, UnrolledOptions options) {
  if (options.checkpointed && options.memory_budget == 0)
    options.memory_budget = 96 * bytes_of(problem.initial_phi()) + 16 * bytes_of(problem.initial_theta());
  return options;
}

template <Vector V>
long Unrolled<V>::affordable_snapshots(Problem<V>& problem, const Step<V>* step,
                                       const UnrolledOptions& options) {
  options.validate().throw_if_any();
  if (options.memory_budget == 0 || !step) return 0;
  const V phi = problem.initial_phi(), theta = problem.initial_theta();
  const std::size_t work = bytes_for(phi, theta, *step, 0), least = bytes_for(phi, theta, *step, 1);
  if (options.memory_budget < least)
    throw InvalidInput(
        fmt::format("unrolled.memory_budget = {} bytes is too small: {} needs {} for its working vectors and "
                    "{} for each snapshot, at least {} bytes",
                    options.memory_budget, step->name(), work, least - work, least));
  return static_cast<long>((options.memory_budget - work) / std::max<std::size_t>(least - work, 1));
}

template <Vector V>
Unrolled<V>::Unrolled(Problem<V>& problem, std::unique_ptr<Step<V>> step, UnrolledOptions options)
    : problem_(problem),
      options_(with_budget(problem, std::move(options))),
      snapshots_(affordable_snapshots(problem, step.get(), options_)),
      run_(problem, std::move(step), options_.run, options_.truncate, snapshots_, bilevel::name(options_)),
      settled_(problem_, run_) {}

template <Vector V>
Estimate<V> Unrolled<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  // A run that ends by tolerance would take no step from its own solution, and nothing depends on θ then.
  const bool usable = settled_.settle(theta, options_.run.steps > 0 ? warm : Warm<V>{}, e);
  if (usable && run_.complete()) {
    Stopwatch watch;
    run_.cost() = {};
    Space<V>::copy(settled_.outer_theta(), e.gradient);
    const auto stop = run_.reverse(settled_.outer_phi(), e.gradient, e.pi);
    e.cost += run_.cost();
    e.adjoint_iterations = run_.followed_steps();
    e.adjoint_status = stop                                         ? stop->status
                       : run_.reversed_steps() < e.inner_iterations ? Status::approximate
                                                                    : Status::converged;
    e.message += fmt::format("; phase 2 ({}): {} of {} steps followed back", name(), e.adjoint_iterations,
                             e.inner_iterations);
    if (!stop && run_.followed_steps() < run_.reversed_steps())
      e.message += ", where the cotangents vanished";
    if (snapshots_ > 0)
      e.message += fmt::format(", {} snapshots held, {} steps taken again", run_.snapshots_held(),
                               run_.forward_steps() - e.inner_iterations);
    if (stop) e.message += "; " + stop->message;
    if (problem_.capabilities().differenced) e.message += "; products by finite differences, as asked";
    e.cost.seconds_adjoint = watch.seconds();
    if (stop) {
      Space<V>::fill(unknown, e.gradient);
      e.status = stop->status;
      e.certificate.reason = e.message;
    } else {
      problem_.linearise(e.phi, theta, 0, curvature_);
      certify_by_adjoint<V>(
          settled_, *curvature_, theta,
          {.certificate = options_.certificate, .outer_tolerance = options_.outer_tolerance}, e);
    }
  } else {
    e.certificate.reason = e.message;
  }
  e.cost.bytes = run_.bytes() + estimate_bytes(e.phi, theta);
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
