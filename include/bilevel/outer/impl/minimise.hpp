#pragma once

#include <bilevel/gradient/impl/make_estimator.hpp>
#include <bilevel/inner/variational_inequality.hpp>
#include <bilevel/outer/impl/solve.hpp>
#include <bilevel/outer/minimise.hpp>

namespace bilevel {

namespace detail {

/// The choices that the options come to, once they are valid.
struct MinimiseChoices {
  InnerChoice inner;
  EstimatorChoice estimator;
  OptimizerChoice optimizer;
};
/// What the choice depends on.
struct MinimisedProblem {
  Index inner_variables, parameters;
  bool curvature, sparse, loss;
};
/// Throws InvalidInput, with everything that is wrong.
MinimiseChoices choose(const MinimiseOptions& options, const MinimisedProblem& problem);
/// The methods and a checksum of their options: a checkpoint of others is refused.
std::string identity_of(const MinimiseChoices& choices);

/// Lets a problem obey another token until it goes out of scope.
template <Vector V>
class Obeying {
 public:
  Obeying(Equilibrium<V>& problem, const StopToken* stop) : problem_(problem), before_(problem.stop_token()) {
    problem.obey(stop);
  }
  ~Obeying() { problem_.obey(before_); }
  Obeying(const Obeying&) = delete;
  Obeying& operator=(const Obeying&) = delete;

 private:
  Equilibrium<V>& problem_;
  const StopToken* before_;
};

template <Vector V, class P>
Summary minimise(P& problem, const MinimiseOptions& options) {
  V start = problem.initial_theta();
  const MinimiseChoices choices = choose(options, {.inner_variables = Space<V>::size(problem.initial_phi()),
                                                   .parameters = Space<V>::size(start),
                                                   .curvature = problem.capabilities().curvature,
                                                   .sparse = problem.capabilities().sparse,
                                                   .loss = std::is_base_of_v<Problem<V>, P>});
  if (options.start.size() > 0) Space<V>::from_host(options.start.data(), start);
  SolveOptions outer = options.outer;
  if (!outer.identity.empty()) outer.identity += ", ";
  outer.identity += identity_of(choices);
  const StopToken stop({options.outer.stop, problem.stop_token()}, outer.max_seconds);
  outer.stop = &stop;
  const Obeying<V> obeying(problem, &stop);
  const auto inner = [&] {
    if constexpr (std::same_as<P, VariationalInequality>)
      return problem.solver(choices.inner, options.phase_1);
    else
      return make_inner_solver<V>(choices.inner, problem, options.phase_1);
  }();
  const auto estimator = make_estimator<V>(choices.estimator, problem, *inner);
  const auto optimizer = make_optimizer(choices.optimizer);
  return solve<V>(*estimator, *optimizer, start, outer);
}

}  // namespace detail

template <Vector V>
Summary minimise(Problem<V>& problem, const MinimiseOptions& options) {
  return detail::minimise<V>(problem, options);
}

template <Vector V>
Summary minimise(Equilibrium<V>& problem, const MinimiseOptions& options) {
  if constexpr (std::same_as<V, Eigen::VectorXd>)
    if (!problem.phi_constraints().empty()) {
      VariationalInequality held(problem);
      MinimiseOptions with = options;
      if (!with.inner) with.inner = NewtonKrylovOptions{};
      return detail::minimise<V>(held, with);
    }
  return detail::minimise<V>(problem, options);
}

}  // namespace bilevel
