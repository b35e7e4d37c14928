// Factorisations of small matrices against what they factor.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/space/decompositions.hpp>

namespace bilevel {
namespace decompositions_test {

using Mat = Eigen::MatrixXd;
using Vec = Eigen::VectorXd;

/// The second difference on n points, whose eigenvalues are 2 − 2cos(kπ/(n+1)).
Mat second_difference(Index n) {
  Mat a = 2 * Mat::Identity(n, n);
  a.diagonal(1).setConstant(-1);
  a.diagonal(-1).setConstant(-1);
  return a;
}

Vec its_eigenvalues(Index n) {
  return Vec::NullaryExpr(n, [n](Index k) {
    return 2 - 2 * std::cos(static_cast<double>(k + 1) * M_PI / static_cast<double>(n + 1));
  });
}

TEST(Decompositions, EigenvaluesOfTheSecondDifference) {
  const Index n = 12;
  const Mat a = second_difference(n);
  const Vec expected = its_eigenvalues(n);
  EXPECT_LE((symmetric_eigenvalues(a) - expected).norm(), 1e-14);
  EXPECT_LE((tridiagonal_eigenvalues(a.diagonal(), a.diagonal(-1)) - expected).norm(), 1e-14);
  const Mat scale = 4 * Mat::Identity(n, n);
  EXPECT_LE((generalised_eigenvalues(a, scale) - expected / 4).norm(), 1e-14);
  const SymmetricEigen eigen(a);
  EXPECT_TRUE(eigen.found);
  EXPECT_LE((eigen.values - expected).norm(), 1e-14);
  EXPECT_LE((a * eigen.vectors - eigen.vectors * eigen.values.asDiagonal()).norm(), 1e-13);
}

TEST(Decompositions, LeastSquaresLeavesAnOrthogonalResidual) {
  Mat a(4, 2);
  a << 1, 0, 1, 1, 1, 2, 1, 3;
  const Vec b = Vec::LinSpaced(4, 1, 7).array().square(), x = least_squares(a, b);
  EXPECT_LE((a.transpose() * (b - a * x)).norm(), 1e-12);
}

TEST(Decompositions, FullPivotingKnowsTheRank) {
  const Mat a = second_difference(5), b = Mat::Identity(5, 2);
  const FullPivoting factor(a);
  EXPECT_EQ(factor.rank(), 5);
  EXPECT_LE((a * factor.solve(b) - b).norm(), 1e-14);
  Mat singular = a;
  singular.row(4) = singular.row(0) + singular.row(1);
  EXPECT_EQ(FullPivoting(singular).rank(), 4);
}

}  // namespace decompositions_test
}  // namespace bilevel
