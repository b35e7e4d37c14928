// No oracle of a generalised linear model allocates once it is warm.

#include <functional>

#include <gtest/gtest.h>

#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/ridge.hpp>
#include <conformance/allocation_counter.hpp>

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;
using conformance::allocations;

long allocations_of(const std::function<void()>& work) {
  const long before = allocations;
  work();
  return allocations - before;
}

void expect_no_allocation(GeneralisedLinearModel& problem) {
  if (!BILEVEL_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitiser owns the allocator";
  ASSERT_GT(allocations_of([] { Vec::Zero(100).eval(); }), 0) << "the counter counts";
  const Vec phi = Vec::Constant(problem.initial_phi().size(), 0.1), theta = problem.initial_theta();
  Vec dphi = phi, dtheta = theta, out = phi;
  Eigen::MatrixXd dense(phi.size(), phi.size());
  std::unique_ptr<Curvature<Vec>> curvature;
  const auto everything = [&] {
    problem.inner(phi, theta, {.phi = &dphi, .theta = &dtheta});
    problem.inner(phi, theta, {});
    problem.outer(phi, theta, {.phi = &dphi, .theta = &dtheta});
    for (double beta : {0.0, 0.1}) {
      problem.linearise(phi, theta, beta, curvature);
      curvature->times(phi, out);
      curvature->diagonal(out);
      curvature->dense(dense);
      curvature->times(phi, out);
      curvature->cross_times(phi, dtheta);
      curvature->cross_apply(dtheta, out);
      problem.linearise(out, theta, beta, curvature);
      curvature->times(phi, out);
    }
    problem.rounding(phi, theta, out);
  };
  everything();
  everything();
  EXPECT_EQ(allocations_of(everything), 0);
}

TEST(Allocation, OraclesOfLogisticAllocateNothingOnceWarm) {
  Logistic problem = Logistic::random({.rows = 3000, .validation_rows = 900, .features = 40});
  expect_no_allocation(problem);
}
TEST(Allocation, OraclesOfRidgeAllocateNothingOnceWarm) {
  Ridge problem = Ridge::random({.rows = 3000, .validation_rows = 900, .features = 40});
  expect_no_allocation(problem);
}
TEST(Allocation, OraclesOfWideRidgeAllocateNothingOnceWarm) {
  Ridge problem = Ridge::random({.rows = 300, .validation_rows = 90, .features = 300});
  expect_no_allocation(problem);
}

}  // namespace
}  // namespace bilevel::problems
