#include <bilevel/problem/differenced.hpp>

#include <gtest/gtest.h>

#include <problem/planted.hpp>

namespace differenced_test {

using namespace bilevel;

template <class S>
class DifferencedOf : public testing::Test {};
using Scalars = testing::Types<double, float>;
TYPED_TEST_SUITE(DifferencedOf, Scalars);

TYPED_TEST(DifferencedOf, ProductsAgreeWithTheProblemsOwn) {
  using V = typename Planted<TypeParam>::V;
  // u^⅔ with room for the third derivatives and the norms of the random matrices.
  const double tolerance = 200 * std::pow(unit_roundoff<V>(), 2.0 / 3.0);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Planted<TypeParam> problem(seed);
    auto differenced = with_difference_products(problem);
    V phi = problem.initial_phi(), theta = problem.initial_theta(), v = phi, u = theta;
    Space<V>::random(seed, phi);
    Space<V>::random(seed + 100, theta);
    Space<V>::random(seed + 200, v);
    Space<V>::random(seed + 300, u);
    std::unique_ptr<Curvature<V>> exact, approximate;
    for (const double beta : {0.0, 0.7}) {
      problem.linearise(phi, theta, beta, exact);
      differenced.linearise(phi, theta, beta, approximate);
      V expected = phi, actual = phi;
      const auto agree = [&](const char* what) {
        EXPECT_LE((expected - actual).norm(), tolerance * expected.norm()) << what << " at beta " << beta;
      };
      // A product is linear in its direction whatever the size of that.
      for (const double size : {1e-6, 1.0, 1e6}) {
        const V direction = static_cast<TypeParam>(size) * v;
        exact->times(direction, expected), approximate->times(direction, actual);
        agree("times");
        exact->transpose_times(direction, expected), approximate->transpose_times(direction, actual);
        agree("transpose_times");
        exact->cross_times(direction, expected), approximate->cross_times(direction, actual);
        agree("cross_times");
      }
      exact->cross_apply(u, expected), approximate->cross_apply(u, actual);
      agree("cross_apply");
    }
  }
}

TEST(Differenced, SaysWhatItIsAndPromisesNothing) {
  Planted<double> problem(1);
  auto differenced = with_difference_products(problem);
  EXPECT_TRUE(differenced.capabilities().curvature);
  EXPECT_TRUE(differenced.capabilities().symmetric);
  EXPECT_TRUE(differenced.capabilities().differenced);
  const Eigen::VectorXd x = Eigen::VectorXd::Ones(6);
  EXPECT_FALSE(std::isnan(problem.constants(x, x, 1).mu));
  EXPECT_TRUE(std::isnan(differenced.constants(x, x, 1).mu));
  EXPECT_TRUE(std::isnan(differenced.rounding(x, x, x).residual));
  EXPECT_EQ(differenced.inner(x, x, {}), problem.inner(x, x, {}));
  EXPECT_EQ(differenced.outer(x, x, {}), problem.outer(x, x, {}));
}

TEST(Differenced, AZeroDirectionGivesZero) {
  Planted<double> problem(1);
  auto differenced = with_difference_products(problem);
  std::unique_ptr<Curvature<Eigen::VectorXd>> curvature;
  const Eigen::VectorXd x = Eigen::VectorXd::Ones(6), zero = Eigen::VectorXd::Zero(6);
  differenced.linearise(x, x, 1, curvature);
  Eigen::VectorXd out = Eigen::VectorXd::Constant(6, unknown);
  curvature->times(zero, out);
  EXPECT_EQ(out, zero);
  out.setConstant(unknown);
  curvature->cross_times(zero, out);
  EXPECT_EQ(out, zero);
  out.setConstant(unknown);
  curvature->cross_apply(zero, out);
  EXPECT_EQ(out, zero);
}

}  // namespace differenced_test
