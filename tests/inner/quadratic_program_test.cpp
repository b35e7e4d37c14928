#include <bilevel/inner/quadratic_program.hpp>

#include <gtest/gtest.h>

#include <bilevel/space/eigen.hpp>

namespace bilevel {
namespace quadratic_program_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

Mat random(std::uint64_t seed, Index rows, Index cols) {
  Vec draws(rows * cols);
  Space<Vec>::random(seed, draws);
  return Eigen::Map<Mat>(draws.data(), rows, cols);
}

/// Optimality itself is the answer that is known: H·x + g = N·u, feasible, u ≥ 0, and u or slack zero.
TEST(QuadraticProgram, SatisfiesTheConditionsOfOptimality) {
  int held = 0, infeasible = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    const auto n = static_cast<Index>(1 + seed % 8), m = static_cast<Index>(1 + (seed / 3) % 12);
    const Mat a = random(seed, n, n), h = a * a.transpose() + 0.01 * Mat::Identity(n, n);
    const Vec g = 3 * random(seed + 10000, n, 1), inside = random(seed + 20000, n, 1),
              room = random(seed + 30000, m, 1).cwiseAbs();
    LinearConstraints c{
        random(seed + 40000, n, m), {}, std::min<Index>({static_cast<Index>(seed % 3), n - 1, m})};
    // Some twice, which no factor likes; and some corners that more constraints meet in than there are
    // elements.
    if (seed % 5 == 0) c.normals.col(m - 1) = c.normals.col(0);
    c.limits = c.normals.transpose() * inside;
    for (Index i = c.equalities; i < m; ++i) c.limits[i] -= seed % 2 ? room[i] : 0;
    const bool planted = seed % 7 == 0 && c.equalities < m;  // nothing is both above and below
    if (planted) {
      c.normals.col(m - 1) = -c.normals.col(0);
      c.limits[m - 1] = -c.limits[0] + 1;
    }
    Mat factor;
    ASSERT_TRUE(inverse_transposed_factor(h, factor));
    const QuadraticProgramSolution s = solve_quadratic_program(factor, g, c);
    if (planted && (m > 1 || c.equalities > 0)) {
      EXPECT_FALSE(s.feasible);
      ++infeasible;
      continue;
    }
    ASSERT_TRUE(s.feasible);
    const double size = 1 + h.norm() * s.x.norm() + g.norm();
    EXPECT_LE((h * s.x + g - c.normals * s.multipliers).norm(), 1e-10 * size);
    const Vec slack = c.normals.transpose() * s.x - c.limits;
    for (Index i = 0; i < m; ++i) {
      EXPECT_GE(slack[i], -1e-10 * size);
      EXPECT_LE(std::abs(slack[i] * s.multipliers[i]), 1e-9 * size * size);
      if (i < c.equalities) {
        EXPECT_LE(slack[i], 1e-10 * size);
      } else {
        EXPECT_GE(s.multipliers[i], 0);
      }
    }
    held += static_cast<int>(s.active.size());
  }
  EXPECT_GE(held, 3000);
  EXPECT_GE(infeasible, 100);
}

TEST(QuadraticProgram, ProjectsOntoASimplex) {
  LinearConstraints simplex{Mat::Zero(3, 4), Vec::Zero(4), 1};
  simplex.normals.col(0).setOnes();
  simplex.limits[0] = 1;
  simplex.normals.rightCols(3).setIdentity();
  const Vec y = (Vec(3) << 0.8, 0.6, -0.5).finished();
  const auto s = solve_quadratic_program(Mat::Identity(3, 3), -y, simplex);
  ASSERT_TRUE(s.feasible);
  EXPECT_LE((s.x - (Vec(3) << 0.6, 0.4, 0).finished()).norm(), 1e-15);
  EXPECT_EQ(s.active, (std::vector<Index>{0, 3}));
  EXPECT_NEAR(s.multipliers[3], 0.7, 1e-15);
}

TEST(QuadraticProgram, RefusesWhatIsNotPositiveDefinite) {
  Mat out;
  EXPECT_FALSE(inverse_transposed_factor(-Mat::Identity(2, 2), out));
  EXPECT_FALSE(inverse_transposed_factor(Mat::Ones(2, 2), out));
  // Badly scaled is not badly conditioned.
  EXPECT_TRUE(inverse_transposed_factor(Vec((Vec(2) << 1e-20, 1e20).finished()).asDiagonal(), out));
}

}  // namespace quadratic_program_test
}  // namespace bilevel
