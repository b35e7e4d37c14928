#include <bilevel/space/sparse_cholesky.hpp>

#include <random>

#include <gtest/gtest.h>
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

namespace bilevel {
namespace sparse_cholesky_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

SparseMatrix compressed(const Mat& dense) {
  SparseMatrix s;
  for (Index j = 0; j < dense.cols(); ++j) {
    for (Index i = 0; i < dense.rows(); ++i)
      if (dense(i, j) != 0) {
        s.rows.push_back(static_cast<int>(i));
        s.values.push_back(dense(i, j));
      }
    s.begins.push_back(static_cast<int>(s.rows.size()));
  }
  return s;
}

/// Symmetric, some entries in each row, with λ_min = `least`, in units that differ by many orders.
Mat random_matrix(Index n, double least, double units, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<Index> index(0, n - 1);
  Mat a = Mat::Zero(n, n);
  for (Index k = 0; k < 3 * n; ++k) {
    const Index i = index(engine), j = index(engine);
    a(i, j) = a(j, i) = normal(engine);
  }
  a.diagonal().array() += least - Eigen::SelfAdjointEigenSolver<Mat>(a).eigenvalues()[0];
  const Vec scale = Vec::NullaryExpr(n, [&] { return std::pow(units, normal(engine)); });
  return scale.asDiagonal() * a * scale.asDiagonal();
}

TEST(SparseCholesky, SolvesAsTheDenseFactorDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 engine(seed);
    const Mat a = random_matrix(5 + static_cast<Index>(seed) * 3, 0.1, 100, engine);
    SparseCholesky factor;
    ASSERT_TRUE(factor.compute(compressed(a)));
    const Vec b = Vec::Random(a.rows());
    Vec x = b;
    factor.solve_in_place(x);
    EXPECT_LE((a * x - b).norm(), 1e-10 * (a.cwiseAbs() * x.cwiseAbs()).norm());
    // With a shift: A + τD.
    ASSERT_TRUE(factor.compute(compressed(a), 0.5));
    Mat shifted = a;
    shifted.diagonal() *= 1.5;
    x = b;
    factor.solve_in_place(x);
    EXPECT_LE((shifted * x - b).norm(), 1e-10 * (shifted.cwiseAbs() * x.cwiseAbs()).norm());
    EXPECT_GT(factor.bytes(), 0U);
  }
}

TEST(SparseCholesky, SaysWhereAMatrixIsNotPositiveDefinite) {
  std::mt19937_64 engine(3);
  for (const double least : {-1.0, -1e-3, -1e-8}) {
    const SparseMatrix a = compressed(random_matrix(30, least, 1, engine));
    EXPECT_FALSE(SparseCholesky().compute(a)) << least;
    EXPECT_TRUE(SparseCholesky().compute(a, 1e3)) << least;
  }
  EXPECT_FALSE(SparseCholesky().compute(compressed(Mat::Zero(3, 3))));
  Mat hole = Mat::Identity(3, 3);
  hole(1, 1) = std::nan("");
  EXPECT_FALSE(SparseCholesky().compute(compressed(hole)));
}

TEST(SparseCholesky, RunsOnWhereTheShiftLeavesItPositiveDefinite) {
  std::mt19937_64 engine(4);
  const SparseMatrix a = compressed(random_matrix(40, 0.5, 1, engine));
  SparseCholesky factor;
  EXPECT_TRUE(factor.runs_on(a, 0.4999));
  EXPECT_FALSE(factor.runs_on(a, 0.5001));
  EXPECT_TRUE(factor.runs_on(a, 0));
  // The next has other places.
  EXPECT_TRUE(factor.compute(compressed(Mat::Identity(4, 4))));
  Vec x = Vec::Constant(4, 2);
  factor.solve_in_place(x);
  EXPECT_EQ(x, Vec::Constant(4, 2));
}

}  // namespace sparse_cholesky_test
}  // namespace bilevel
