#pragma once

#include <bilevel/gradient/settled_value.hpp>
#include <bilevel/gradient/impl/better_start.hpp>

namespace bilevel {

template <Vector V>
SettledValue<V>::SettledValue(Equilibrium<V>& problem, InnerSolver<V>& solver, bool warm_start)
    : problem_(problem),
      solver_(solver),
      warm_start_(warm_start),
      residual_(Space<V>::zeros_like(problem.initial_phi())) {
  require_shapes<V>(problem, nullptr, nullptr, "settled value");
}

template <Vector V>
Settled<V> SettledValue<V>::at(const V& theta) {
  require_shapes<V>(problem_, nullptr, &theta, "settled value");
  problem_.cost() = {};
  Settled<V> settled = settle(better_start<V>(problem_, theta, last_, residual_), theta);
  if (warm_start_ && all_finite(settled.phi)) last_ = duplicate(settled.phi);
  return settled;
}

template <Vector V>
Settled<V> SettledValue<V>::from(const V& start, const V& theta) {
  require_shapes<V>(problem_, &start, &theta, "settled value");
  problem_.cost() = {};
  return settle(start, theta);
}

template <Vector V>
Settled<V> SettledValue<V>::settle(const V& start, const V& theta) {
  Stopwatch watch;
  Solution<V> solution = solver_.solve(theta, 0, start);
  if (Space<V>::size(solution.phi) != Space<V>::size(residual_))
    throw InvalidInput(fmt::format("inner solver {} returned a state of {} elements, the problem wants {}",
                                   solver_.name(), Space<V>::size(solution.phi), Space<V>::size(residual_)));
  Settled<V> settled{.phi = std::move(solution.phi),
                     .tolerance = solution.tolerance,
                     .iterations = solution.iterations,
                     .status = solution.status,
                     .message = fmt::format("{}: {}", solver_.name(), solution.message),
                     .cost = solution.cost};
  const auto not_finite = [&](std::string_view what) {
    settled.value = unknown;
    settled.status = Status::not_finite;
    settled.message += fmt::format("; {} is not finite at the settled state", what);
  };
  if (!all_finite(settled.phi)) {
    not_finite("the state itself");
  } else {
    problem_.residual(settled.phi, theta, residual_);
    settled.residual_norm = norm(residual_);
    settled.value = problem_.outer(settled.phi, theta, {});
    if (!std::isfinite(settled.residual_norm)) not_finite("the residual");
    if (!std::isfinite(settled.value)) not_finite("the outer loss");
  }
  // A state that was not to settle has no value.
  if (!succeeded(settled.status) && stop_wanted(problem_.stop_token())) settled.value = unknown;
  settled.cost += problem_.cost();
  settled.cost.bytes = std::max(settled.cost.bytes, 3 * bytes_of(residual_));
  settled.cost.seconds_inner = watch.seconds();
  return settled;
}

}  // namespace bilevel
