// No allocation inside an iteration: a run of 40 iterations allocates exactly as often as one of 20.
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>

#include "inner/test_problems.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define BILEVEL_COUNTS_ALLOCATIONS 0
#else
#define BILEVEL_COUNTS_ALLOCATIONS 1
#endif

#if BILEVEL_COUNTS_ALLOCATIONS

namespace {
long allocations = 0;
}

// operator new of libstdc++ and Eigen's own allocator both end here.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++allocations;
  return __libc_memalign(alignment, size);
}
}

namespace bilevel {
namespace {

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
