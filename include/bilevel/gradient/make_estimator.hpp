#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/exact.hpp>
#include <bilevel/gradient/finite_difference.hpp>
#include <bilevel/gradient/forward_mode.hpp>
#include <bilevel/gradient/holomorphic_propagation.hpp>
#include <bilevel/gradient/implicit.hpp>
#include <bilevel/gradient/random_difference.hpp>
#include <bilevel/gradient/spring_agnostic.hpp>
#include <bilevel/gradient/unrolled.hpp>
#include <bilevel/inner/make_inner_solver.hpp>

namespace bilevel {

/// What an estimator made by name may be told; each reads what concerns it.
struct EstimatorOptions {
  AdjointOptions adjoint = {};  ///< of implicit differentiation
  CertificateOptions certificate = {};
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// Nudging strength of equilibrium propagation; 0 chooses it.
  double beta = 0;
  /// What is differentiated by unrolling and forward mode: gradient-descent, heavy-ball, nesterov or adam.
  /// The default settles in the fewest steps whose length follows from the problem's own constants.
  std::string step = "nesterov";
  /// Of unrolling and forward mode, ≥ 1: ten times a minimiser's own, since these cannot search.
  long max_steps = 100000;
  /// Steps that unrolled-truncated follows back, ≥ 1.
  long truncate = 100;
  /// Bytes that unrolled-checkpointed may hold; 0 is room for some dozens of states.
  std::size_t memory_budget = 0;
  /// Bytes above which forward mode refuses and auto looks for something else; > 0.
  std::size_t memory_limit = std::size_t{1} << 30;
  std::uint64_t seed = 1;  ///< of everything random
};

/// Every name that make_estimator knows: `auto`, `exact`, `first-order`, `one-step`, `implicit-` with the
/// name of an adjoint solver; `ep-forward-2` … `ep-forward-8`, `ep-central`, `ep-random-sign`,
/// `ep-holomorphic`, `ep-agnostic`; `unrolled`, `unrolled-truncated`, `unrolled-checkpointed`,
/// `forward-mode`; `finite-difference`, `evolution-strategies`, `spsa`.
const std::vector<std::string>& estimator_names();

/// InvalidInput that lists the names.
[[noreturn]] void refuse_estimator(std::string_view name);

/// Whether unrolling can differentiate the inner solver of that name.
bool differentiable_step(std::string_view name);

/// An estimator by name, for anything that settles. Throws InvalidInput, with the reason, where the
/// equilibrium cannot serve it. The problem and the inner solver must outlive it.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& options = {});

/// The same for a problem with an inner loss, which equilibrium propagation and unrolling need.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Problem<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& options = {});

namespace detail {

/// auto, over whichever of the two overloads fits P.
template <Vector V, class P>
std::unique_ptr<Estimator<V>> make_automatic(P& problem, InnerSolver<V>& inner,
                                             const EstimatorOptions& options) {
  const auto make = [&problem, options](std::string_view method, InnerSolver<V>& solver) {
    return make_estimator<V>(method, problem, solver, options);
  };
  return std::make_unique<Automatic<V>>(
      problem, inner, std::is_base_of_v<Problem<V>, P>, make,
      AutomaticOptions{.common = {options.certificate, options.outer_tolerance},
                       .adjoint = options.adjoint,
                       .memory_limit = options.memory_limit});
}

}  // namespace detail

template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& o) {
  const ImplicitOptions common{o.certificate, o.outer_tolerance};
  if (name == "auto") return detail::make_automatic<V>(problem, inner, o);
  if (name == "exact") return std::make_unique<Exact<V>>(problem, inner, common);
  for (const std::string_view solver : adjoint_solver_names())
    if (name == estimator_name(solver))
      return std::make_unique<Implicit<V>>(problem, inner, make_adjoint_solver<V>(solver, o.adjoint), common);
  if (name == "finite-difference")
    return std::make_unique<FiniteDifference<V>>(
        problem, inner, FiniteDifferenceOptions{.outer_tolerance = o.outer_tolerance});
  const RandomDifferenceOptions random{.seed = o.seed, .outer_tolerance = o.outer_tolerance};
  if (name == "evolution-strategies")
    return std::make_unique<RandomDifference<V>>(problem, inner, Directions::gaussian, random);
  if (name == "spsa")
    return std::make_unique<RandomDifference<V>>(problem, inner, Directions::rademacher, random);
  for (const std::string& known : estimator_names())
    if (name == known)
      throw InvalidInput(fmt::format("{} needs an inner loss, and this problem has only a residual", name));
  refuse_estimator(name);
}

template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Problem<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& o) {
  if (name == "auto") return detail::make_automatic<V>(problem, inner, o);
  if (name == "ep-holomorphic")
    return std::make_unique<HolomorphicPropagation<V>>(
        problem, inner,
        HolomorphicOptions{
            .beta = std::abs(o.beta), .certificate = o.certificate, .outer_tolerance = o.outer_tolerance});
  if (name == "ep-agnostic") {
    AgnosticOptions options{.certificate = o.certificate, .outer_tolerance = o.outer_tolerance};
    if (o.beta != 0) options.beta = std::abs(o.beta);
    return std::make_unique<SpringAgnostic<V>>(problem, options);
  }
  if (name.starts_with("ep-"))
    return std::make_unique<EquilibriumPropagation<V>>(
        problem, inner,
        equilibrium_propagation_options(name, {.beta = o.beta,
                                               .seed = o.seed,
                                               .certificate = o.certificate.enabled,
                                               .outer_tolerance = o.outer_tolerance}));
  if (name.starts_with("unrolled")) {
    UnrolledOptions options{.run = {.max_steps = o.max_steps},
                            .certificate = o.certificate,
                            .outer_tolerance = o.outer_tolerance};
    if (name == "unrolled-truncated") {
      Violations("estimator").at_least("truncate", o.truncate, 1).throw_if_any();
      options.truncate = o.truncate;
    }
    if (name == "unrolled-checkpointed")
      options.memory_budget =
          o.memory_budget > 0 ? o.memory_budget
                              : 96 * bytes_of(problem.initial_phi()) + 16 * bytes_of(problem.initial_theta());
    if (name == Unrolled<V>::name_of(options))
      return std::make_unique<Unrolled<V>>(problem, make_step<V>(o.step), options);
  }
  if (name == "forward-mode")
    return std::make_unique<ForwardMode<V>>(
        problem, make_step<V>(o.step),
        ForwardModeOptions{.run = {.max_steps = o.max_steps},
                           .memory_limit = o.memory_limit,
                           .adjoint_tolerance = o.adjoint.relative_tolerance,
                           .certificate = o.certificate,
                           .outer_tolerance = o.outer_tolerance});
  return make_estimator<V>(name, static_cast<Equilibrium<V>&>(problem), inner, o);
}

extern template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(std::string_view,
                                                                           Equilibrium<Eigen::VectorXd>&,
                                                                           InnerSolver<Eigen::VectorXd>&,
                                                                           const EstimatorOptions&);
extern template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(std::string_view,
                                                                           Problem<Eigen::VectorXd>&,
                                                                           InnerSolver<Eigen::VectorXd>&,
                                                                           const EstimatorOptions&);
extern template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(std::string_view,
                                                                           Equilibrium<Eigen::VectorXf>&,
                                                                           InnerSolver<Eigen::VectorXf>&,
                                                                           const EstimatorOptions&);
extern template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(std::string_view,
                                                                           Problem<Eigen::VectorXf>&,
                                                                           InnerSolver<Eigen::VectorXf>&,
                                                                           const EstimatorOptions&);

}  // namespace bilevel
