#include <gtest/gtest.h>

#include <bilevel/inner/nudged.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace nudged_test {

using inner_tests::double_well;
using inner_tests::Vec;

TEST(Nudged, IsTheSumOfTheTwoLosses) {
  auto problem = double_well(3);
  problem.target = Vec::LinSpaced(3, 1, 2);
  Nudged<Vec> nudged(problem);
  const Vec theta = Vec::Constant(1, 0.7), phi = Vec::LinSpaced(3, -1, 1), v = Vec::LinSpaced(3, 2, 3);
  for (const double beta : {0.0, 0.4, -0.3}) {
    SCOPED_TRACE(beta);
    nudged.set(theta, beta);
    Vec gradient(3), expected(3), nudge(3), product(3);
    const double value =
        problem.inner(phi, theta, {.phi = &expected}) + beta * problem.outer(phi, theta, {.phi = &nudge});
    expected += beta * nudge;
    EXPECT_EQ(nudged.value(phi), value);
    EXPECT_EQ(nudged.value_and_gradient(phi, gradient), value);
    EXPECT_LE((gradient - expected).norm(), 1e-15);
    nudged.curvature(phi).times(v, product);
    const Vec by_hand = (12 * phi.array().square() - 1.4 + beta) * v.array();
    EXPECT_LE((product - by_hand).norm(), 1e-14);
  }
  EXPECT_EQ(nudged.cost().inner_values, 3);
  EXPECT_EQ(nudged.cost().inner_gradients, 3);
  EXPECT_EQ(nudged.cost().outer_values, 2) << "the outer loss is not called while beta = 0";
  EXPECT_EQ(nudged.cost().outer_gradients, 2);
  EXPECT_EQ(nudged.cost().linearisations, 3);
  EXPECT_EQ(nudged.cost().hessian_products, 3);
}

TEST(Nudged, NamesTheOracleToBlame) {
  auto problem = double_well(2);
  Nudged<Vec> nudged(problem);
  nudged.set(Vec::Ones(1), 0.5);
  Vec gradient(2);
  const auto fault = [&] {
    const double value = nudged.value_and_gradient(Vec::Ones(2), gradient);
    return nudged.fault(value, gradient, norm(gradient), 9);
  };
  EXPECT_FALSE(fault());
  problem.failing_value = 2;
  EXPECT_EQ(fault()->message, "the inner value is nan at iteration 9");
  problem.failing_gradient = 3;
  EXPECT_EQ(fault()->message, "the inner gradient is nan at iteration 9");
  problem.failing_outer = 4;
  EXPECT_EQ(fault()->message, "the outer value is nan at iteration 9");

  // Finite elements whose squares overflow are divergence and nobody's fault.
  nudged.set(Vec::Ones(1), 0);
  nudged.value_and_gradient(Vec::Ones(2), gradient);
  gradient.setConstant(1e200);
  const auto overflow = nudged.fault(1, gradient, norm(gradient), 9);
  ASSERT_TRUE(overflow);
  EXPECT_EQ(overflow->status, Status::diverged);
}

}  // namespace nudged_test
}  // namespace bilevel
