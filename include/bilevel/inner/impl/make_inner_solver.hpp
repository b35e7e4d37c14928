#pragma once

#include <bilevel/inner/impl/adam.hpp>
#include <bilevel/inner/impl/backtracking_descent.hpp>
#include <bilevel/inner/impl/constrained.hpp>
#include <bilevel/inner/impl/fixed_point.hpp>
#include <bilevel/inner/impl/lbfgs.hpp>
#include <bilevel/inner/impl/minimiser.hpp>
#include <bilevel/inner/impl/newton.hpp>
#include <bilevel/inner/impl/newton_krylov.hpp>
#include <bilevel/inner/impl/trust_region.hpp>
#include <bilevel/inner/make_inner_solver.hpp>

namespace bilevel {

namespace detail {

[[noreturn]] void refuse_step(const InnerChoice& choice);
[[noreturn]] void refuse_residual(const InnerChoice& choice);
/// Options of newton and lbfgs that Constrained, which takes their place, would not look at.
void refuse_unused_under_constraints(const InnerChoice& choice);

template <Vector V>
struct StepMaker {
  using Made = std::unique_ptr<Step<V>>;
  Made operator()(const GradientDescentOptions& o) const { return std::make_unique<GradientDescent<V>>(o); }
  Made operator()(const BacktrackingDescentOptions& o) const {
    return std::make_unique<BacktrackingDescent<V>>(o);
  }
  Made operator()(const HeavyBallOptions& o) const { return std::make_unique<HeavyBall<V>>(o); }
  Made operator()(const NesterovOptions& o) const { return std::make_unique<Nesterov<V>>(o); }
  Made operator()(const AdamOptions& o) const { return std::make_unique<Adam<V>>(o); }
  Made operator()(const LbfgsOptions& o) const { return std::make_unique<Lbfgs<V>>(o); }
  Made operator()(const NewtonOptions& o) const { return std::make_unique<Newton<V>>(o); }
  Made operator()(const TrustRegionOptions& o) const { return std::make_unique<TrustRegion<V>>(o); }
  Made operator()(const FixedPointOptions& o) const { refuse_step(o); }
  Made operator()(const NewtonKrylovOptions& o) const { refuse_step(o); }
};

/// A solver that asks for a residual only; null where the choice minimises.
template <Vector V>
std::unique_ptr<InnerSolver<V>> make_residual_solver(const InnerChoice& choice, Equilibrium<V>& problem,
                                                     const MinimiserOptions& options) {
  if (const auto* fixed_point = std::get_if<FixedPointOptions>(&choice))
    return std::make_unique<FixedPoint<V>>(problem, options, *fixed_point);
  if (const auto* newton = std::get_if<NewtonKrylovOptions>(&choice))
    return std::make_unique<NewtonKrylov<V>>(problem, options, *newton);
  return nullptr;
}

}  // namespace detail

template <Vector V>
std::unique_ptr<Step<V>> make_step(const InnerChoice& choice) {
  return std::visit(detail::StepMaker<V>{}, choice);
}

template <Vector V>
std::unique_ptr<Step<V>> make_step(std::string_view name) {
  return make_step<V>(inner_solver_named(name));
}

template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(const InnerChoice& choice, Problem<V>& problem,
                                                  const MinimiserOptions& options) {
  if (!problem.phi_constraints().empty()) {
    detail::refuse_unused_under_constraints(choice);
    if (std::holds_alternative<NewtonOptions>(choice))
      return std::make_unique<Constrained<V>>(problem, options, ConstrainedOptions{.second_order = true});
    if (std::holds_alternative<LbfgsOptions>(choice))
      return std::make_unique<Constrained<V>>(problem, options, ConstrainedOptions{.second_order = false});
  }
  if (auto settling = detail::make_residual_solver<V>(choice, problem, options)) return settling;
  return std::make_unique<Minimiser<V>>(problem, make_step<V>(choice), options);
}

template <Vector V>
std::unique_ptr<InnerSolver<V>> make_inner_solver(const InnerChoice& choice, Equilibrium<V>& problem,
                                                  const MinimiserOptions& options) {
  if (auto settling = detail::make_residual_solver<V>(choice, problem, options)) return settling;
  detail::refuse_residual(choice);
}

}  // namespace bilevel
