// No allocation inside an iteration: a run of 40 iterations allocates exactly as often as one of 20.
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/inner/recorded_run.hpp>
#include <bilevel/inner/tangent_run.hpp>

#include <conformance/allocation_counter.hpp>
#include "inner/test_problems.hpp"

#if BILEVEL_COUNTS_ALLOCATIONS

namespace bilevel {
namespace allocation_test {

using conformance::allocations;
using inner_tests::Vec;

long allocations_of(InnerSolver<Vec>& solver, Problem<Vec>& problem, double beta, long expected_iterations) {
  const Vec theta = problem.initial_theta(), start = problem.initial_phi();
  const long before = allocations;
  const auto solution = solver.solve(theta, beta, start);
  const long counted = allocations - before;
  EXPECT_EQ(solution.iterations, expected_iterations) << solution.message;
  EXPECT_EQ(solution.status, Status::iteration_limit) << solution.message;
  return counted;
}

TEST(Allocation, TheCounterCounts) {
  const long before = allocations;
  { std::vector<int> v(1000); }
  EXPECT_EQ(allocations, before + 1);
  { Vec v(1000); }
  EXPECT_EQ(allocations, before + 2);
}

TEST(Allocation, NoneInsideAnIteration) {
  for (const std::string_view name : inner_solver_names()) {
    SCOPED_TRACE(name);
    auto problem = inner_tests::flat_quartic(20);
    const auto count = [&](long cap) {
      auto solver = make_inner_solver(name, problem, {.gradient_tolerance = 1e-200, .max_iterations = cap});
      return allocations_of(*solver, problem, 0, cap);
    };
    EXPECT_EQ(count(20), count(40));
  }
}

TEST(Allocation, NoneInsideANudgedIterationOfTheFirstOrderSteps) {
  for (const std::string_view name : {"gradient-descent", "heavy-ball", "nesterov", "adam"}) {
    SCOPED_TRACE(name);
    auto problem = inner_tests::flat_quartic(20);
    const auto count = [&](long cap) {
      auto solver = make_inner_solver(name, problem, {.gradient_tolerance = 0, .max_iterations = cap});
      return allocations_of(*solver, problem, 1e-3, cap);
    };
    EXPECT_EQ(count(20), count(40));
  }
}

std::unique_ptr<Step<Vec>> differentiable_step(std::string_view name) {
  if (name == "heavy-ball") return std::make_unique<HeavyBall<Vec>>();
  if (name == "nesterov") return std::make_unique<Nesterov<Vec>>();
  if (name == "adam") return std::make_unique<Adam<Vec>>();
  return std::make_unique<GradientDescent<Vec>>();
}

// States that are held cost storage once; a second run of as many steps finds it there.
TEST(Allocation, NoneInsideAStepThatIsDifferentiated) {
  for (const std::string_view name : {"gradient-descent", "heavy-ball", "nesterov", "adam"})
    for (const long snapshots : {0, 3}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << snapshots << " snapshots");
      auto problem = inner_tests::flat_quartic(20);
      const Vec theta = problem.initial_theta(), start = problem.initial_phi();
      const auto back = [&](long steps) {
        RecordedRun<Vec> run(problem, differentiable_step(name), {.steps = steps}, 0, snapshots, "test");
        Vec gradient = Vec::Zero(1), pi = Vec::Zero(20);
        run.solve(theta, 0, start);
        run.reverse(start, gradient, pi);
        const long before = allocations;
        run.solve(theta, 0, start);
        run.reverse(start, gradient, pi);
        return allocations - before;
      };
      EXPECT_EQ(back(20), back(40));
      const auto forth = [&](long steps) {
        TangentRun<Vec> run(problem, differentiable_step(name), {.steps = steps}, "test");
        const long before = allocations;
        run.solve(theta, 0, start);
        return allocations - before;
      };
      EXPECT_EQ(forth(20), forth(40));
    }
}

}  // namespace allocation_test
}  // namespace bilevel

#else

TEST(Allocation, IsCountedOnlyWithoutSanitizers) {
  GTEST_SKIP();
}

#endif
