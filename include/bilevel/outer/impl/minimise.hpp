#pragma once

#include <bilevel/outer/minimise.hpp>
#include <bilevel/gradient/impl/make_estimator.hpp>
#include <bilevel/outer/impl/solve.hpp>
#include <bilevel/problem/adapter.hpp>

namespace bilevel {

namespace detail {

/// The choices that the options come to, once they are valid.
struct MinimiseChoices {
  InnerChoice inner;
  EstimatorChoice estimator;
  OptimizerChoice optimizer;
};
/// Throws InvalidInput, with everything that is wrong.
MinimiseChoices choose(const MinimiseOptions& options, Index parameters, bool curvature, bool loss);

template <Vector V, class P>
Summary minimise(P& problem, const MinimiseOptions& options) {
  const MinimiseChoices choices =
      choose(options, Space<V>::size(problem.initial_phi()), problem.capabilities().curvature,
             std::is_base_of_v<Problem<V>, P>);
  const auto inner = make_inner_solver<V>(choices.inner, problem, options.phase_1);
  const auto estimator = make_estimator<V>(choices.estimator, problem, *inner);
  const auto optimizer = make_optimizer(choices.optimizer);
  V start = problem.initial_theta();
  if (const Index size = Space<V>::size(start); options.start.size() == size)
    Space<V>::from_host(options.start.data(), start);
  else if (options.start.size() > 0)
    throw InvalidInput(fmt::format("minimise: the start has {} elements, the problem's theta has {}",
                                   options.start.size(), size));
  return solve<V>(*estimator, *optimizer, start, options.outer);
}

}  // namespace detail

template <Vector V>
Summary minimise(Problem<V>& problem, const MinimiseOptions& options) {
  return detail::minimise<V>(problem, options);
}

template <Vector V>
Summary minimise(Equilibrium<V>& problem, const MinimiseOptions& options) {
  return detail::minimise<V>(problem, options);
}

}  // namespace bilevel
