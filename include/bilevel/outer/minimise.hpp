#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <bilevel/gradient/automatic_choice.hpp>
#include <bilevel/outer/solve.hpp>
#include <bilevel/problem/adapter.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// A method as an object (`NewtonOptions{…}`) or by its name (`"newton"`), which is looked up when the
/// options are validated.
template <class Choice>
class Method {
 public:
  template <class Options>
  requires std::constructible_from<Choice, Options> Method(Options options)
      : said_(Choice(std::move(options))) {}
  Method(const char* name) : said_(std::string(name)) {}
  Method(std::string name) : said_(std::move(name)) {}

  /// The name, where one was given.
  const std::string* name() const { return std::get_if<std::string>(&said_); }
  /// The object, where one was given.
  const Choice* object() const { return std::get_if<Choice>(&said_); }

 private:
  std::variant<std::string, Choice> said_;
};

/// What `minimise` is told. Every field has a default that serves most problems.
struct MinimiseOptions {
  /// Phase 1. Not given: newton where the problem offers curvature and has at most 500 inner variables or a
  /// Hessian with few entries, lbfgs where it has more or offers first derivatives only, anderson where it
  /// has a residual and no inner loss. With unrolling or forward mode by name it is the step that they
  /// differentiate; their objects hold that step themselves. The agnostic estimator settles by springs and
  /// takes none.
  std::optional<Method<InnerChoice>> inner = {};
  /// The outer gradient, phase 2 among it.
  Method<EstimatorChoice> estimator = AutomaticOptions{};
  Method<OptimizerChoice> optimizer = LbfgsOptimizerOptions{};
  /// Where θ starts. Empty: at the problem's initial_theta().
  Eigen::VectorXd start = {};
  /// When a run of phase 1 ends, whichever solver it is; the outer loop sets the tolerance. Estimators that
  /// settle by themselves (unrolling, forward mode, the agnostic one) have their own, and take none of these.
  MinimiserOptions phase_1 = {};
  /// Bounds, tolerances, limits, callback, checkpoint. `stop` and `max_seconds` end loops of every stage, not
  /// only the outer one. The methods and their options are part of what a checkpoint is checked against.
  SolveOptions outer = {};

  /// All that is wrong, unknown names among it, at once.
  Violations validate() const;
};

/// Minimises θ ↦ L_out(φ*(θ), θ) of a problem: makes the inner solver, the estimator and the optimiser, and
/// runs `solve` with them. Throws InvalidInput, with everything that is wrong, before any work starts.
template <Vector V>
Summary minimise(Problem<V>& problem, const MinimiseOptions& options = {});
/// The same of an equilibrium that minimises nothing.
template <Vector V>
Summary minimise(Equilibrium<V>& problem, const MinimiseOptions& options = {});

/// What is no problem yet, nor a reference to one, and has to be made one.
template <class T>
concept PlainLosses = !IsProblem<typename HeldBy<T>::type>;

/// The same of two losses in a plain struct (see Oracles), or of a residual and an outer loss. The struct is
/// moved in; std::ref(struct) refers to it instead.
template <PlainLosses Losses>
Summary minimise(Losses losses, const MinimiseOptions& options = {}) {
  auto problem = make_problem(std::move(losses));
  return minimise(problem, options);
}
template <class P>
requires IsProblem<P> Summary minimise(std::reference_wrapper<P> problem,
                                       const MinimiseOptions& options = {}) {
  return minimise(problem.get(), options);
}
/// The same of a problem that is made for this call: minimise(differentiate(…)).
template <class P>
requires(IsProblem<P> && !std::is_lvalue_reference_v<P>) Summary
    minimise(P&& problem, const MinimiseOptions& options = {}) {
  return minimise(problem, options);
}

}  // namespace bilevel
