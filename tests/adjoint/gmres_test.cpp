#include <bilevel/adjoint/gmres.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace gmres_test {

GmresOptions restarted(long length) {
  GmresOptions options;
  options.restart = length;
  return options;
}

Mat cyclic_shift(Eigen::Index n) {
  Mat a = Mat::Zero(n, n);
  for (Eigen::Index i = 0; i < n; ++i) a((i + 1) % n, i) = 1;
  return a;
}

TEST(Gmres, SolvesInAsManyStepsAsThereAreUnknowns) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Draw draw(seed);
    Operator a(draw.matrix(25, 25), false);
    const Vec b = draw.vector(25);
    const auto solution = Gmres<Vec>().solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::converged) << "seed " << seed << ": " << solution.message;
    EXPECT_LE(solution.iterations, 25) << "seed " << seed;
  }
  // The worst case: no progress at all before the last step.
  Operator shift(cyclic_shift(12), false);
  const auto solution = Gmres<Vec>().solve(shift, Vec::Unit(12, 0), nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_EQ(solution.iterations, 12);
}

TEST(Gmres, ShortCyclesConvergeWhereTheFieldOfValuesIsAwayFromZero) {
  Draw draw(4);
  Operator a(2 * Mat::Identity(40, 40) + 0.1 * draw.matrix(40, 40), false);
  const Vec b = draw.vector(40);
  const auto solution = Gmres<Vec>(restarted(5)).solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_GT(solution.iterations, 5);
  EXPECT_LE((solution.x - a.matrix().lu().solve(b)).norm(), 1e-9 * b.norm());
}

TEST(Gmres, ACycleWithoutProgressStalls) {
  Operator a(cyclic_shift(12), false);
  const auto solution = Gmres<Vec>(restarted(4)).solve(a, Vec::Unit(12, 0), nullptr);
  EXPECT_EQ(solution.status, Status::stalled);
  EXPECT_NE(solution.message.find("a cycle of 4 steps"), std::string::npos) << solution.message;
}

TEST(Gmres, ANilpotentMatrixIsSingular) {
  Mat a = Mat::Zero(3, 3);
  a(0, 1) = a(1, 2) = 1;
  Operator op(a, false);
  const auto solution = Gmres<Vec>().solve(op, Vec::Unit(3, 2), nullptr);
  EXPECT_EQ(solution.status, Status::singular) << solution.message;
  EXPECT_TRUE(solution.x.allFinite());
}

}  // namespace gmres_test
}  // namespace bilevel::testing
