#include <bilevel/inner/quadratic_program.hpp>

#include <random>

#include <gtest/gtest.h>
#include <Eigen/LU>
#include <Eigen/QR>

#include <bilevel/space/eigen.hpp>
#include <random_matrix.hpp>

namespace bilevel {
namespace quadratic_program_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Optimality itself is the answer that is known: H·x + g = N·u, feasible, u ≥ 0, and u or slack zero.
TEST(QuadraticProgram, SatisfiesTheConditionsOfOptimality) {
  int held = 0, infeasible = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    const auto n = static_cast<Index>(1 + seed % 8), m = static_cast<Index>(1 + (seed / 3) % 12);
    const Mat a = random_matrix(seed, n, n), h = a * a.transpose() + 0.01 * Mat::Identity(n, n);
    const Vec g = 3 * random_matrix(seed + 10000, n, 1), inside = random_matrix(seed + 20000, n, 1),
              room = random_matrix(seed + 30000, m, 1).cwiseAbs();
    LinearConstraints c{
        random_matrix(seed + 40000, n, m), {}, std::min<Index>({static_cast<Index>(seed % 3), n - 1, m})};
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

struct Programme {
  Mat h;
  Vec g;
  LinearConstraints c;
  double scale = 1;
};

/// Rows of −1, 0 and 1 with limits of a few values: corners that many rows meet in, and rows that are sums of
/// others.
Programme degenerate(unsigned seed, Index most_elements, Index most_rows) {
  std::mt19937 bits(seed);
  std::normal_distribution<> normal;
  const auto one_of = [&](Index count) { return static_cast<Index>(bits() % static_cast<unsigned>(count)); };
  const Index n = 1 + one_of(most_elements), m = 1 + one_of(most_rows);
  Programme p;
  Mat a(n, n);
  for (double& each : a.reshaped()) each = normal(bits);
  const Mat q = Eigen::HouseholderQR<Mat>(a).householderQ();
  const double condition = std::pow(1e4, static_cast<double>(one_of(3)));
  Vec eigenvalues = Vec::Ones(n);
  for (Index i = 1; i < n; ++i)
    eigenvalues[i] = std::pow(condition, -static_cast<double>(i) / static_cast<double>(n - 1));
  p.h = q * eigenvalues.asDiagonal() * q.transpose();
  p.h = (0.5 * (p.h + p.h.transpose())).eval();
  p.scale = std::pow(1e8, static_cast<double>(one_of(3) - 1));
  p.c.normals.resize(n, m);
  for (double& each : p.c.normals.reshaped()) each = static_cast<double>(one_of(3) - 1);
  for (Index i = 0; i < m; ++i)
    if (p.c.normals.col(i).isZero()) p.c.normals(0, i) = 1;
  p.c.limits.resize(m);
  for (double& each : p.c.limits) each = p.scale * static_cast<double>(one_of(3) - 1);
  p.c.equalities = one_of(3) == 0 ? std::min(m, 1 + one_of(2)) : 0;
  p.g.resize(n);
  for (double& each : p.g) each = 3 * p.scale * normal(bits);
  return p;
}

/// Every set of independent rows is tried as the active one; false where none is optimal.
bool by_trying_all(const Programme& p, Vec& x) {
  const Index n = p.g.size(), m = p.c.limits.size();
  for (unsigned set = 0; set < 1U << m; ++set) {
    std::vector<Index> rows;
    for (Index i = 0; i < m; ++i)
      if (set >> i & 1U) rows.push_back(i);
    const auto q = static_cast<Index>(rows.size());
    if (q > n) continue;
    const Mat normals = p.c.normals(Eigen::all, rows);
    if (q > 0 && Eigen::FullPivLU<Mat>(normals).rank() < q) continue;
    Mat kkt = Mat::Zero(n + q, n + q);
    kkt << p.h, -normals, normals.transpose(), Mat::Zero(q, q);
    Vec right(n + q);
    right << -p.g, p.c.limits(rows);
    const Vec solved = Eigen::FullPivLU<Mat>(kkt).solve(right);
    x = solved.head(n);
    const double held = 1e-9 * (p.g.norm() + solved.tail(q).norm()), kept = 1e-9 * (p.scale + x.norm());
    const Vec slack = p.c.normals.transpose() * x - p.c.limits;
    bool optimal = slack.minCoeff() >= -kept;
    for (Index i = 0; i < p.c.equalities; ++i) optimal = optimal && slack[i] <= kept;
    for (Index k = 0; k < q; ++k)
      optimal = optimal && (rows[static_cast<std::size_t>(k)] < p.c.equalities || solved[n + k] >= -held);
    if (optimal) return true;
  }
  return false;
}

TEST(QuadraticProgram, AgreesWithEveryActiveSetTriedInTurn) {
  int feasible = 0, infeasible = 0;
  for (unsigned seed = 1; seed <= 6000; ++seed) {
    SCOPED_TRACE(seed);
    const Programme p = degenerate(seed, 4, 6);
    Mat factor;
    ASSERT_TRUE(inverse_transposed_factor(p.h, factor));
    const QuadraticProgramSolution s = solve_quadratic_program(factor, p.g, p.c);
    Vec x;
    const bool found = by_trying_all(p, x);
    EXPECT_EQ(s.end, found ? QuadraticProgramEnd::solved : QuadraticProgramEnd::infeasible);
    ++(found ? feasible : infeasible);
    if (found && s.feasible) {
      EXPECT_LE((s.x - x).norm(), 1e-6 * (p.scale + x.norm()));
    }
  }
  EXPECT_GE(feasible, 3000);
  EXPECT_GE(infeasible, 1000);
}

TEST(QuadraticProgram, MultipliersAtDegenerateCornersBalanceTheGradient) {
  for (unsigned seed = 1; seed <= 6000; ++seed) {
    SCOPED_TRACE(seed);
    Programme p = degenerate(seed, 9, 24);
    p.c.equalities = 0;
    p.c.limits = p.c.limits.cwiseMin(0);  // x = 0 satisfies them
    Mat factor;
    ASSERT_TRUE(inverse_transposed_factor(p.h, factor));
    const QuadraticProgramSolution s = solve_quadratic_program(factor, p.g, p.c);
    ASSERT_EQ(s.end, QuadraticProgramEnd::solved);
    const double size = p.scale + s.x.norm();
    EXPECT_LE((p.h * s.x + p.g - p.c.normals * s.multipliers).norm(), 3e-13 * (size + p.g.norm()));
    EXPECT_GE((p.c.normals.transpose() * s.x - p.c.limits).minCoeff(), -3e-13 * size);
    EXPECT_GE(s.multipliers.minCoeff(), 0);
    if (s.active.empty()) continue;
    const Mat held = p.c.normals(Eigen::all, s.active);
    EXPECT_EQ(Eigen::FullPivLU<Mat>(held).rank(), static_cast<Index>(s.active.size()));
  }
}

TEST(QuadraticProgram, DependentRowsThatAreSatisfiedDoNotTurnItRound) {
  // Rounding was once taken for a multiplier that falls here, and one of 1e15 came of it.
  LinearConstraints c{Mat(4, 7), Vec::Zero(7), 0};
  c.normals << 0, 1, -1, 1, -1, 1, 1,  //
      -1, 1, -1, 0, 1, 1, -1,          //
      1, 0, -1, 0, -1, 1, 0,           //
      1, 1, -1, 1, -1, 0, -1;
  const Vec g = (Vec(4) << 2.7019630231065852, -4.2175533062266002, -1.2307120835722656, -5.2739269910913125)
                    .finished();
  const auto s = solve_quadratic_program(Mat::Identity(4, 4), g, c);
  ASSERT_TRUE(s.feasible);
  EXPECT_LE((s.x + g - c.normals * s.multipliers).norm(), 1e-14);
}

TEST(QuadraticProgram, TwoRowsThatMeetInTheAnswerDoNotTakeTurns) {
  // One gives way to the other at the very step that satisfies the other.
  LinearConstraints c{Mat(3, 5), Vec::Zero(5), 1};
  c.normals << 0, 0, -1, 0, -1,  //
      -1, 1, 0, -1, 0,           //
      0, 1, -1, -1, 1;
  const Vec g = c.normals * (Vec(5) << 0.30036, 0, 0, 1.71196, 0).finished();
  const auto s = solve_quadratic_program(Mat::Identity(3, 3), g, c);
  ASSERT_EQ(s.end, QuadraticProgramEnd::solved);
  EXPECT_LE(s.x.norm(), 1e-15);
  EXPECT_LE((g - c.normals * s.multipliers).norm(), 1e-15);
}

TEST(QuadraticProgram, SaysWhyItEnded) {
  LinearConstraints c{Mat::Ones(1, 2), (Vec(2) << 1, 2).finished(), 0};
  c.normals(0, 1) = -1;  // 1 ≤ x ≤ −2
  EXPECT_EQ(solve_quadratic_program(Mat::Ones(1, 1), Vec::Zero(1), c).end, QuadraticProgramEnd::infeasible);
  c.limits[1] = -2;  // 1 ≤ x ≤ 2
  const StopToken stop([] { return true; });
  EXPECT_EQ(solve_quadratic_program(Mat::Ones(1, 1), Vec::Zero(1), c, {.stop = &stop}).end,
            QuadraticProgramEnd::interrupted);
  EXPECT_EQ(solve_quadratic_program(Mat::Ones(1, 1), Vec::Constant(1, std::nan("")), c).end,
            QuadraticProgramEnd::gave_up);
  const Vec here = Vec::Constant(1, 0.25);
  const auto step = solve_quadratic_program(Mat::Ones(1, 1), Vec::Zero(1), c, {.around = &here});
  EXPECT_EQ(step.x[0], 0.75);
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
