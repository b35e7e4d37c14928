#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <conformance/translated.hpp>

/// One suite for every vector type: every inner solver, every estimator and the outer loop find on it what
/// they find on Eigen's. A vector type joins by instantiating VectorConformance.
namespace bilevel::testing {

/// Relative accuracy that a method owes when everything is asked for to the last digits; infinite for the
/// deliberate approximations and for sampling, which owe no more than an honest certificate.
inline double owed(std::string_view method) {
  for (const char* rough :
       {"first-order", "one-step", "unrolled-truncated", "evolution-strategies", "spsa", "ep-agnostic"})
    if (method == rough) return everywhere;
  if (method == "ep-forward-2" || method == "ep-random-sign") return 1e-4;  // √δ at the best β
  if (method == "finite-difference" || method == "ep-forward-3" || method == "ep-central") return 1e-6;
  for (const char* more_points :
       {"ep-forward-4", "ep-forward-5", "ep-forward-6", "ep-forward-7", "ep-forward-8"})
    if (method == more_points) return 1e-7;
  return 1e-8;
}

/// The unlisted ones owe as much as the others.
inline std::vector<std::string> every_name() {
  std::vector<std::string> names = estimator_names();
  for (const std::string& name : unlisted_estimator_names()) names.push_back(name);
  return names;
}

/// Nothing that a ready-made problem could be asked for.
inline bool applies(std::string_view method, problems::ReferenceProblem& problem) {
  return method != "implicit-cg-preconditioned" && method != "implicit-sgd" &&
         (method != "ep-holomorphic" || problem.holomorphic());
}

template <class V>
class VectorConformance : public ::testing::Test {};
TYPED_TEST_SUITE_P(VectorConformance);

TYPED_TEST_P(VectorConformance, EveryInnerSolverAndEstimatorGivesTheSameGradient) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  for (const std::string family : {"quadratic", "log-cosh", "duopoly", "pitchfork"}) {
    problems::Settings settings{.seed = 5};
    if (family == "quadratic" || family == "log-cosh") settings.condition = 10;
    const auto original = problems::make(family, settings);
    const Eigen::VectorXd theta0 = original->initial_theta();
    const auto exact_inner = make_inner_solver<Eigen::VectorXd>("newton", *original);
    const Eigen::VectorXd expected =
        make_estimator<Eigen::VectorXd>("exact", *original, *exact_inner)->estimate(theta0, {}).gradient;
    conformance::Translated<V> problem(*original);
    const auto agree = [&](const Estimate<V>& e, double tolerance) {
      EXPECT_LE((conformance::Translated<V>::host(e.gradient) - expected).norm(), tolerance * expected.norm())
          << e.message;
    };
    MinimiserOptions options;
    options.gradient_tolerance = single ? 2e-5 : 1e-10;
    options.max_iterations = 100000;
    for (const std::string_view solver : inner_solver_names()) {
      SCOPED_TRACE(::testing::Message() << family << ", inner " << solver);
      const auto inner = make_inner_solver<V>(solver, problem, options);
      const auto e =
          make_estimator<V>("implicit-direct", problem, *inner)->estimate(problem.initial_theta(), {});
      // From φ = 1 a first step of exactly one half lands on the pitchfork's saddle: that must be noticed,
      // not hidden.
      if (family == "pitchfork" && e.adjoint_status == Status::negative_curvature) {
        EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
        continue;
      }
      agree(e, single ? 1e-3 : 1e-7);
    }
    const auto inner = make_inner_solver<V>("newton", problem, options);
    for (const std::string& method : every_name()) {
      if (owed(method) > 1e-7 || !applies(method, *original) || method == "implicit-cg-jacobi") continue;
      SCOPED_TRACE(::testing::Message() << family << ", " << method);
      agree(make_estimator<V>(method, problem, *inner,
                              {.adjoint = {.relative_tolerance = single ? 1e-5 : 1e-10},
                               // Unrolling has a tolerance of its own, which float does not reach.
                               .max_steps = single ? 3000 : 100000})
                ->estimate(problem.initial_theta(), {}),
            // Differences of phases that are good to six digits.
            single ? (nudges(estimator_named(method)) ? 1e-1 : 1e-3) : 1e-7);
    }
  }
}

TYPED_TEST_P(VectorConformance, TheOuterLoopLearnsTheSameParameters) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  const auto original = problems::make("quadratic", {.phi = 8, .theta = 3, .condition = 10, .seed = 9});
  conformance::Translated<V> problem(*original);
  const auto inner = make_inner_solver<V>("lbfgs", problem);
  const auto estimator = make_estimator<V>("implicit-cg", problem, *inner);
  SolveOptions options;
  options.gradient_tolerance = single ? 3e-3 : 1e-7;
  if (single) options.tolerances.floor = 1e-5;
  const auto optimizer = make_optimizer("lbfgs");
  const Summary s = solve<V>(*estimator, *optimizer, problem.initial_theta(), options);
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE((s.theta - *original->best_theta()).norm(), (single ? 2e-2 : 1e-6) * (1 + s.theta.norm()));
}

REGISTER_TYPED_TEST_SUITE_P(VectorConformance, EveryInnerSolverAndEstimatorGivesTheSameGradient,
                            TheOuterLoopLearnsTheSameParameters);

}  // namespace bilevel::testing
