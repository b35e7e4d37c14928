#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <bilevel/inner/adam.hpp>
#include <bilevel/inner/backtracking_descent.hpp>
#include <bilevel/inner/fixed_point.hpp>
#include <bilevel/inner/gradient_descent.hpp>
#include <bilevel/inner/heavy_ball.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/minimiser.hpp>
#include <bilevel/inner/nesterov.hpp>
#include <bilevel/inner/newton.hpp>
#include <bilevel/inner/trust_region.hpp>

namespace bilevel {

/// Every name that make_inner_solver knows, in the order of its documentation.
std::span<const std::string_view> inner_solver_names();

/// InvalidInput that lists the names.
[[noreturn]] void refuse_inner_solver(std::string_view name);

/// The step that the minimiser of that name loops over, with its own options at their defaults. Throws
/// InvalidInput for any other name, anderson among them: it has none.
template <Vector V>
std::unique_ptr<Step<V>> make_step(std::string_view name) {
  if (name == "gradient-descent") return std::make_unique<GradientDescent<V>>();
  if (name == "gradient-descent-backtracking") return std::make_unique<BacktrackingDescent<V>>();
  if (name == "heavy-ball") return std::make_unique<HeavyBall<V>>();
  if (name == "nesterov") return std::make_unique<Nesterov<V>>();
  if (name == "adam") return std::make_unique<Adam<V>>();
  if (name == "lbfgs") return std::make_unique<Lbfgs<V>>();
  if (name == "newton") return std::make_unique<Newton<V>>();
  if (name == "trust-region") return std::make_unique<TrustRegion<V>>();
  refuse_inner_solver(name);
}

/// A solver of phase 1 by name, with its own options at their defaults: gradient-descent,
/// gradient-descent-backtracking, heavy-ball, nesterov, adam, lbfgs, newton, trust-region, anderson.
/// The problem must outlive the solver. Throws InvalidInput for any other name.
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(std::string_view name, Problem<V>& problem,
                                                  const MinimiserOptions& options = {}) {
  if (name == "anderson") return std::make_unique<FixedPoint<V>>(problem, options);
  return std::make_unique<Minimiser<V>>(problem, make_step<V>(name), options);
}

/// The same for an equilibrium that minimises nothing: only anderson, since the others need a loss.
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(std::string_view name, Equilibrium<V>& problem,
                                                  const MinimiserOptions& options = {}) {
  if (name == "anderson") return std::make_unique<FixedPoint<V>>(problem, options);
  for (const std::string_view known : inner_solver_names())
    if (name == known)
      throw InvalidInput(fmt::format(
          "inner solver {}: it minimises a loss and this problem has only a residual; use anderson", name));
  refuse_inner_solver(name);
}

}  // namespace bilevel
