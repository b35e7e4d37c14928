// Every way in which a solver of phase 1 can end, and what it says then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace status_test {

using inner_tests::double_well;
using inner_tests::hill;
using inner_tests::MadeD;
using inner_tests::Recurrent;
using inner_tests::rosenbrock;
using inner_tests::Vec;
using testing::AllOf;
using testing::HasSubstr;

problems::Quadratic quadratic() {
  return problems::Quadratic::random({.phi = 12, .theta = 3, .condition = 50, .seed = 7});
}

template <class P>
Solution<Vec> solve(std::string_view name, P& problem, MinimiserOptions options = {}, double beta = 0) {
  return make_inner_solver(name, problem, options)
      ->solve(problem.initial_theta(), beta, problem.initial_phi());
}

TEST(Status, IterationLimitReturnsTheLastIterate) {
  auto problem = quadratic();
  for (const std::string_view name : inner_solver_names()) {
    SCOPED_TRACE(name);
    const auto s = solve(name, problem, {.gradient_tolerance = 0, .max_iterations = 3});
    if (s.status == Status::stalled) continue;  // Newton has nothing left to do after one
    EXPECT_EQ(s.status, Status::iteration_limit);
    EXPECT_EQ(s.iterations, 3);
    EXPECT_THAT(s.message, AllOf(HasSubstr("max_iterations = 3"), HasSubstr("after 3 iterations"),
                                 HasSubstr("asked for 0")));
    EXPECT_TRUE(s.residual_norm > 0);
  }
  const auto none = solve("lbfgs", problem, {.max_iterations = 0});
  EXPECT_EQ(none.status, Status::iteration_limit);
  EXPECT_EQ(none.phi, problem.initial_phi());
}

TEST(Status, TimeLimit) {
  auto problem = inner_tests::flat_quartic(50);
  for (const std::string_view name : inner_solver_names()) {
    SCOPED_TRACE(name);
    const auto s = solve(name, problem,
                         {.gradient_tolerance = 1e-300, .max_iterations = 1000000000, .max_seconds = 1e-9});
    EXPECT_EQ(s.status, Status::time_limit);
    EXPECT_THAT(s.message, HasSubstr("max_seconds = 1e-09"));
  }
}

TEST(Status, RelativeDecrease) {
  auto problem = quadratic();
  const auto s = solve("gradient-descent", problem, {.relative_decrease = 1e-4});
  EXPECT_EQ(s.status, Status::relative_decrease);
  EXPECT_GT(s.residual_norm, 1e-10);
  EXPECT_THAT(s.message, AllOf(HasSubstr("relative_decrease is 0.0001"), HasSubstr("the loss changed by")));
}

TEST(Status, StalledWhereTheToleranceIsBelowRounding) {
  auto problem = quadratic();
  for (const std::string_view name : inner_solver_names()) {
    SCOPED_TRACE(name);
    const auto s = solve(name, problem, {.gradient_tolerance = 1e-30, .max_iterations = 100000});
    EXPECT_EQ(s.status, Status::stalled) << s.message;
    EXPECT_LT(s.iterations, 100000);
    EXPECT_LE((s.phi - problem.settled(problem.initial_theta(), 0)).norm(), 1e-12) << s.message;
    EXPECT_THAT(s.message, HasSubstr("asked for 1e-30"));
  }
}

TEST(Status, UnboundedBelowIsDiverged) {
  auto problem = hill(5);
  for (const std::string_view name : inner_solver_names()) {
    if (name == "adam" || !minimises(inner_solver_named(name)))
      continue;  // fixed distances; and the stationary point is what those without a loss seek
    SCOPED_TRACE(name);
    const auto s = make_inner_solver(name, problem)->solve(problem.initial_theta(), 0, 3 * Vec::Ones(5));
    EXPECT_EQ(s.status, Status::diverged) << s.message;
    EXPECT_THAT(s.message, AllOf(HasSubstr("exceeds 6.71e+10"), HasSubstr("unbounded below")));
    EXPECT_TRUE(s.phi.allFinite());
    EXPECT_TRUE(std::isfinite(s.value));
  }
}

TEST(Status, AStepThatIsTooLongIsDivergedAndReturnsTheBestIterate) {
  auto problem = quadratic();
  Minimiser<Vec> solver(problem, std::make_unique<GradientDescent<Vec>>(GradientDescentOptions{.step = 10}));
  const auto s = solver.solve(problem.initial_theta(), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::diverged);
  EXPECT_THAT(s.message, HasSubstr("returned the best iterate"));
  Vec gradient = s.phi;
  EXPECT_EQ(problem.inner(s.phi, problem.initial_theta(), {.phi = &gradient}), s.value);
  EXPECT_EQ(gradient.norm(), s.residual_norm);
  EXPECT_LE(s.value, problem.inner(problem.initial_phi(), problem.initial_theta(), {}));
}

TEST(Status, PlainFixedPointThatIsNoContractionDiverges) {
  auto problem = quadratic();
  FixedPoint<Vec> solver(problem, {}, {.step = 10, .memory = 0});
  const auto s = solver.solve(problem.initial_theta(), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::diverged);
  EXPECT_EQ(s.phi, problem.initial_phi());
  EXPECT_THAT(s.message, AllOf(HasSubstr("step 10"), HasSubstr("best iterate")));
}

TEST(NotFinite, ValueOrGradientAtIteration7IsNamed) {
  for (const std::string_view name : {"gradient-descent", "heavy-ball", "nesterov", "adam"}) {
    SCOPED_TRACE(name);
    // The start is call 1 and iterate k is call k + 1.
    auto problem = double_well(4);
    problem.failing_value = 8;
    auto s = solve(name, problem, {.gradient_tolerance = 0});
    EXPECT_EQ(s.status, Status::not_finite);
    EXPECT_EQ(s.iterations, 7);
    EXPECT_THAT(s.message, HasSubstr("the inner value is nan at iteration 7"));
    EXPECT_TRUE(s.phi.allFinite() && std::isfinite(s.value) && std::isfinite(s.residual_norm));

    auto other = double_well(4);
    other.failing_gradient = 8;
    s = solve(name, other, {.gradient_tolerance = 0});
    EXPECT_EQ(s.status, Status::not_finite);
    EXPECT_THAT(s.message, HasSubstr("the inner gradient is nan at iteration 7"));

    auto nudged = double_well(4);
    nudged.failing_outer = 8;
    s = solve(name, nudged, {.gradient_tolerance = 0}, 0.1);
    EXPECT_EQ(s.status, Status::not_finite);
    EXPECT_THAT(s.message, HasSubstr("the outer value is nan at iteration 7"));
  }
}

TEST(NotFinite, SearchingStepsNameTheOracleAndKeepTheLastGoodIterate) {
  for (const std::string_view name : {"gradient-descent-backtracking", "lbfgs", "newton", "trust-region"}) {
    for (const bool in_value : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", name, in_value));
      auto problem = rosenbrock(2);
      // A value of NaN at one trial is a step too far (below); at all of them there is nowhere to go.
      problem.fails_on = in_value;
      (in_value ? problem.failing_value : problem.failing_gradient) = 7;
      const auto s = solve(name, problem);
      EXPECT_EQ(s.status, Status::not_finite);
      EXPECT_THAT(s.message, HasSubstr(fmt::format("the inner {} is nan at iteration {}",
                                                   in_value ? "value" : "gradient", s.iterations + 1)));
      Vec gradient = s.phi;
      problem.failing_value = problem.failing_gradient = 0;
      problem.fails_on = false;
      EXPECT_EQ(problem.inner(s.phi, problem.initial_theta(), {.phi = &gradient}), s.value);
      EXPECT_EQ(gradient.norm(), s.residual_norm);
    }
  }
}

TEST(NotFinite, HessianProductIsNamed) {
  for (const std::string_view name : {"newton", "trust-region"}) {
    SCOPED_TRACE(name);
    auto problem = rosenbrock(1);
    problem.failing_product = 15;  // Newton: two products an iteration, so iteration 7
    const auto s = solve(name, problem);
    EXPECT_EQ(s.status, Status::not_finite);
    EXPECT_THAT(s.message,
                HasSubstr(fmt::format("the Hessian product is not finite at iteration {}", s.iterations)));
    if (name == "newton") {
      EXPECT_EQ(s.iterations, 7);
    }
  }
  auto problem = double_well(3);
  problem.failing_product = 4;
  const auto s = solve("gradient-descent", problem);
  EXPECT_EQ(s.status, Status::not_finite);
  EXPECT_THAT(s.message, HasSubstr("the Hessian product is not finite at iteration 0, while L was measured"));
}

TEST(NotFinite, AtTheStart) {
  auto problem = double_well(3);
  problem.failing_gradient = 1;
  const auto s = solve("lbfgs", problem);
  EXPECT_EQ(s.status, Status::not_finite);
  EXPECT_EQ(s.iterations, 0);
  EXPECT_THAT(s.message, HasSubstr("at iteration 0"));
  EXPECT_EQ(s.phi, problem.initial_phi());
}

TEST(NotFinite, ResidualOfAnEquilibriumAtIteration7) {
  for (const std::string_view name : {"anderson", "broyden"}) {
    SCOPED_TRACE(name);
    Recurrent problem(8, 0.9, 3);
    problem.failing_call = 8;
    const auto s = solve(name, problem, {.gradient_tolerance = 0});
    EXPECT_EQ(s.status, Status::not_finite);
    EXPECT_EQ(s.iterations, 7);
    EXPECT_THAT(s.message, HasSubstr("the residual is not finite at iteration 7"));
    EXPECT_TRUE(s.phi.allFinite() && std::isfinite(s.residual_norm));
  }
}

/// −Σ log φ + Σ φ: +∞ outside of the domain.
MadeD barrier() {
  return MadeD(
      Vec::Constant(3, 0.01), Vec::Ones(1),
      [](const Vec& p, const Vec&, Vec* g) {
        if (g) *g = 1 - p.array().inverse();
        if (p.minCoeff() <= 0) return std::numeric_limits<double>::infinity();
        return p.sum() - p.array().log().sum();
      },
      [](const Vec& p, const Vec&, const Vec& v, Vec& out) { out = v.array() / p.array().square(); });
}

TEST(NotFinite, PlusInfinityOutsideOfTheDomainOnlyShortensASearch) {
  for (const std::string_view name : {"gradient-descent-backtracking", "lbfgs", "newton", "trust-region"}) {
    SCOPED_TRACE(name);
    auto problem = barrier();
    const auto s = make_inner_solver(name, problem)->solve(problem.initial_theta(), 0, Vec::Constant(3, 50));
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.phi - Vec::Ones(3)).norm(), 1e-9);
  }
}

/// The same with NaN, as formulas give it that nobody has guarded, and with an outer loss that is NaN there
/// too.
TEST(NotFinite, NanOutsideOfTheDomainOnlyShortensASearch) {
  for (const std::string_view name : {"gradient-descent-backtracking", "lbfgs", "newton", "trust-region"})
    for (const double beta : {0.0, 0.1}) {
      SCOPED_TRACE(fmt::format("{}, beta {}", name, beta));
      MadeD problem(
          Vec::Constant(3, 0.01), Vec::Ones(1),
          [](const Vec& p, const Vec&, Vec* g) {
            if (g) *g = 1 - p.array().inverse() + 0 * p.array().log();
            return p.sum() - p.array().log().sum();
          },
          [](const Vec& p, const Vec&, const Vec& v, Vec& out) { out = v.array() / p.array().square(); });
      const auto s =
          make_inner_solver(name, problem)->solve(problem.initial_theta(), beta, Vec::Constant(3, 50));
      EXPECT_EQ(s.status, Status::converged) << s.message;
      // 1 − 1/φ + β(φ − target) = 0
      for (Index i = 0; i < 3; ++i) {
        const double b = 1 - beta * problem.target[i];
        const double root = beta == 0 ? 1 : (-b + std::sqrt(b * b + 4 * beta)) / (2 * beta);
        EXPECT_NEAR(s.phi[i], root, 1e-9);
      }
    }
}

/// What is accepted is never NaN, and a start that is one is named.
TEST(NotFinite, NanAtTheStartIsNamedBySearchesToo) {
  for (const std::string_view name : {"gradient-descent-backtracking", "lbfgs", "newton", "trust-region"}) {
    SCOPED_TRACE(name);
    auto problem = double_well(3);
    problem.failing_value = 1;
    const auto s = solve(name, problem);
    EXPECT_EQ(s.status, Status::not_finite);
    EXPECT_THAT(s.message, HasSubstr("the inner value is nan at iteration 0"));
  }
}

}  // namespace status_test
}  // namespace bilevel
