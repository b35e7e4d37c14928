#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <bilevel/adjoint/make_adjoint_solver.hpp>
#include <bilevel/gradient/agnostic.hpp>
#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/finite_difference.hpp>
#include <bilevel/gradient/forward_mode.hpp>
#include <bilevel/gradient/holomorphic_propagation.hpp>
#include <bilevel/gradient/implicit.hpp>
#include <bilevel/gradient/random_difference.hpp>
#include <bilevel/gradient/unrolled.hpp>

namespace bilevel {

/// The method is chosen by what the problem offers, and again where it fails (see Automatic).
struct AutomaticOptions {
  ImplicitOptions common = {};
  /// Of the adjoint solvers among the choices. Where the inner state is less accurate than its tolerance, so
  /// is phase 2: digits that the state does not have are not paid for.
  AdjointOptions adjoint = {};
  /// Bytes that a method may hold; > 0. A quarter of what a small machine has.
  std::size_t memory_limit = std::size_t{1} << 30;
  /// Nudging strength, where equilibrium propagation is chosen; 0 chooses it.
  double beta = 0;

  Violations validate() const {
    Violations v("auto");
    v.require(memory_limit > 0, "memory_limit", memory_limit, "must be positive");
    v.require(std::isfinite(beta), "beta", beta, "must be finite");
    return v.add(adjoint.validate()).add(common.validate());
  }
};

/// The dense reference (see Exact).
struct ExactMethod {
  ImplicitOptions common = {};

  Violations validate() const { return common.validate(); }
};

/// Implicit differentiation (see Implicit); with ZeroOptions the first-order, with IdentityOptions the
/// one-step approximation.
struct ImplicitMethod {
  AdjointChoice adjoint = ConjugateGradientOptions{};
  ImplicitOptions common = {};

  Violations validate() const { return common.validate().add(bilevel::validate(adjoint)); }
};

/// An estimator of the outer gradient and everything it is told: the options of one of them. AgnosticOptions
/// make a SpringAgnostic, the simulation of a system that only settles.
using EstimatorChoice =
    std::variant<AutomaticOptions, ExactMethod, ImplicitMethod, EquilibriumPropagationOptions,
                 HolomorphicOptions, AgnosticOptions, UnrolledOptions, ForwardModeOptions,
                 FiniteDifferenceOptions, RandomDifferenceOptions>;

/// The name() of the estimator that is made of it.
std::string name(const EstimatorChoice& choice);
Violations validate(const EstimatorChoice& choice);
/// Whether it has a nudging strength β.
bool nudges(const EstimatorChoice& choice);
/// Whether it differentiates inner steps of its own instead of using what an inner solver returns.
bool differentiates_steps(const EstimatorChoice& choice);

/// The estimators to choose from: `auto`, `exact`, `first-order`, `one-step`, `implicit-` with the name of an
/// adjoint solver; `ep-forward-2` … `ep-forward-4`, `ep-central`, `ep-random-sign`, `ep-holomorphic`;
/// `unrolled`, `unrolled-truncated`, `unrolled-checkpointed`, `forward-mode`; `finite-difference`,
/// `evolution-strategies`, `spsa`. Each is that of a choice with its options at their defaults.
const std::vector<std::string>& estimator_names();
/// Known by their names too, but never the cheapest on a problem: `ep-forward-5` … `ep-forward-8`, whose
/// stencils amplify the errors of the phases, and `ep-agnostic`, which is for systems that only settle.
const std::vector<std::string>& unlisted_estimator_names();
/// The choice of that name, listed or not; null where there is none.
const EstimatorChoice* find_estimator(std::string_view name);
/// The choice of that name, listed or not. Throws InvalidInput, with the list, for any other.
EstimatorChoice estimator_named(std::string_view name);

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

/// The choice with those of these options that concern it. Throws InvalidInput where they cannot.
EstimatorChoice with_options(EstimatorChoice choice, const EstimatorOptions& options);

/// Whether unrolling can differentiate the inner solver of that name.
bool differentiable_step(std::string_view name);

}  // namespace bilevel
