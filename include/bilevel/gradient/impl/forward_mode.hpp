#pragma once

#include <bilevel/gradient/forward_mode.hpp>
#include <bilevel/adjoint/impl/conjugate_gradient.hpp>
#include <bilevel/gradient/impl/certify_by_adjoint.hpp>
#include <bilevel/inner/impl/make_inner_solver.hpp>
#include <bilevel/inner/impl/tangent_run.hpp>

namespace bilevel {

template <Vector V>
std::unique_ptr<Step<V>> ForwardMode<V>::affordable(Problem<V>& problem, std::unique_ptr<Step<V>> step,
                                                    const ForwardModeOptions& options) {
  options.validate().throw_if_any();
  if (!step || !step->differentiable()) return step;  // refused by the run, with its own words
  const V phi = problem.initial_phi(), theta = problem.initial_theta();
  const std::size_t needed = bytes_needed(phi, theta, *step);
  if (needed > options.memory_limit)
    throw InvalidInput(fmt::format(
        "forward-mode.memory_limit = {} bytes is too small: {} parameters times {} inner variables times {} "
        "(the state and what {} remembers) need {} bytes with the working vectors; use unrolled or "
        "implicit-cg",
        options.memory_limit, Space<V>::size(theta), Space<V>::size(phi), 1 + step->footprint().memory,
        step->name(), needed));
  return step;
}

template <Vector V>
ForwardMode<V>::ForwardMode(Problem<V>& problem, std::unique_ptr<Step<V>> step, ForwardModeOptions options)
    : problem_(problem),
      options_(options),
      run_(problem, affordable(problem, std::move(step), options), options.run, "forward-mode"),
      settled_(problem_, run_),
      sensitivity_(problem_),
      adjoint_([&] {
        ConjugateGradientOptions cg;
        cg.relative_tolerance = options.adjoint_tolerance;
        cg.ritz_steps = 0;
        return cg;
      }()) {}

template <Vector V>
Estimate<V> ForwardMode<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  std::size_t adjoint_bytes = 0;
  // A run that ends by tolerance would take no step from its own solution, and nothing depends on θ then.
  if (settled_.settle(theta, options_.run.steps > 0 ? warm : Warm<V>{}, e) && run_.complete()) {
    Stopwatch watch;
    std::vector<double> host(static_cast<std::size_t>(Space<V>::size(theta)));
    Space<V>::to_host(settled_.outer_theta(), host.data());
    for (std::size_t j = 0; j < host.size(); ++j)
      host[j] += Space<V>::dot(settled_.outer_phi(), run_.tangent(j));
    Space<V>::from_host(host.data(), e.gradient);
    e.adjoint_status = Status::converged;
    e.message += fmt::format("; the sensitivity of {} by {} numbers was carried along", Space<V>::size(e.phi),
                             host.size());
    if (problem_.capabilities().differenced) e.message += "; products by finite differences, as asked";
    e.cost.seconds_adjoint = watch.seconds();

    Stopwatch certifying;
    sensitivity_.move_to(e.phi, theta);
    if (options_.certificate.enabled) {
      V unused = Space<V>::zeros_like(theta);
      LinearSolution<V> solution = sensitivity_.pullback(settled_.outer_phi(), adjoint_, unused);
      e.pi = std::move(solution.x);
      e.adjoint_iterations = solution.iterations;
      adjoint_bytes = solution.bytes;
      e.message += fmt::format("; adjoint of the certificate (cg): {}", solution.message);
    }
    certify_by_adjoint<V>(settled_, sensitivity_.curvature(), theta,
                          {.certificate = options_.certificate, .outer_tolerance = options_.outer_tolerance},
                          e);
    e.cost.seconds_certificate = certifying.seconds();
  } else {
    e.certificate.reason = e.message;
  }
  e.cost.bytes = run_.bytes() + 6 * bytes_of(e.phi) + 3 * bytes_of(theta) + adjoint_bytes;
  e.cost += problem_.cost();
  return e;
}

}  // namespace bilevel
