#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <variant>

#include <bilevel/inner/adam.hpp>
#include <bilevel/inner/backtracking_descent.hpp>
#include <bilevel/inner/constrained.hpp>
#include <bilevel/inner/fixed_point.hpp>
#include <bilevel/inner/gradient_descent.hpp>
#include <bilevel/inner/heavy_ball.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/nesterov.hpp>
#include <bilevel/inner/newton.hpp>
#include <bilevel/inner/newton_krylov.hpp>
#include <bilevel/inner/trust_region.hpp>

namespace bilevel {

/// A solver of phase 1 and everything that is its own: the options of one of them. All but the last two,
/// which seek a zero of the residual, are steps of a Minimiser.
using InnerChoice = std::variant<GradientDescentOptions, BacktrackingDescentOptions, HeavyBallOptions,
                                 NesterovOptions, AdamOptions, LbfgsOptions, NewtonOptions,
                                 TrustRegionOptions, FixedPointOptions, NewtonKrylovOptions>;

/// gradient-descent, gradient-descent-backtracking, heavy-ball, nesterov, adam, lbfgs, newton, trust-region,
/// anderson, broyden, newton-krylov: the name() of the solver that is made of it.
std::string_view name(const InnerChoice& choice);
Violations validate(const InnerChoice& choice);
/// Whether it minimises a loss, step by step; anderson, broyden and newton-krylov ask for a residual only.
bool minimises(const InnerChoice& choice);
/// Whether unrolling and forward mode can differentiate its steps.
bool differentiable(const InnerChoice& choice);

/// Every name, each that of a choice with its options at their defaults (broyden:
/// FixedPointOptions::broyden()), in the order of its documentation.
std::span<const std::string_view> inner_solver_names();
/// The choice of that name; null where there is none.
const InnerChoice* find_inner_solver(std::string_view name);
/// The choice of that name. Throws InvalidInput, with the list, for any other.
InnerChoice inner_solver_named(std::string_view name);

/// The step that a minimiser loops over. Throws InvalidInput for what does not minimise: it has none.
template <Vector V>
std::unique_ptr<Step<V>> make_step(const InnerChoice& choice);
/// The same by name, with its own options at their defaults.
template <Vector V>
std::unique_ptr<Step<V>> make_step(std::string_view name);

/// A solver of phase 1. The problem must outlive it. Where the problem has constraints on φ, NewtonOptions
/// and LbfgsOptions make a Constrained one, with a Hessian and with differences of gradients; others are
/// refused, and so are options of these two that are not at their defaults, for which it has no use.
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(const InnerChoice& choice, Problem<V>& problem,
                                                  const MinimiserOptions& options = {});
/// The same for an equilibrium that minimises nothing: only what does not minimise, since the others need a
/// loss.
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(const InnerChoice& choice, Equilibrium<V>& problem,
                                                  const MinimiserOptions& options = {});

/// A solver of phase 1 by name, with its own options at their defaults. Throws InvalidInput, with the list,
/// for a name that there is not.
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(std::string_view name, Problem<V>& problem,
                                                  const MinimiserOptions& options = {}) {
  return make_inner_solver<V>(inner_solver_named(name), problem, options);
}
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(std::string_view name, Equilibrium<V>& problem,
                                                  const MinimiserOptions& options = {}) {
  return make_inner_solver<V>(inner_solver_named(name), problem, options);
}

}  // namespace bilevel
