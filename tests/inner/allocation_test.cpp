// No allocation inside an iteration: a run of 40 iterations allocates exactly as often as one of 20.
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>

#include <conformance/allocation_counter.hpp>
#include "inner/test_problems.hpp"

#if BILEVEL_COUNTS_ALLOCATIONS

namespace bilevel {
namespace {

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

}  // namespace
}  // namespace bilevel

#else

TEST(Allocation, IsCountedOnlyWithoutSanitizers) {
  GTEST_SKIP();
}

#endif
