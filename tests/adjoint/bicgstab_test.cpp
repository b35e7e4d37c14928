#include <bilevel/adjoint/bicgstab.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace bicgstab_test {

TEST(Bicgstab, SolvesWithoutSymmetry) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    Draw draw(seed);
    Operator a(2 * Mat::Identity(50, 50) + 0.1 * draw.matrix(50, 50), false);
    const Vec b = draw.vector(50);
    const auto solution = Bicgstab<Vec>().solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::converged) << "seed " << seed << ": " << solution.message;
    EXPECT_LE((b - a.matrix() * solution.x).norm(), 1.01e-10 * b.norm()) << "seed " << seed;
  }
}

TEST(Bicgstab, BeginsAgainAfterABreakdown) {
  // r̂ᵀA·r = 0 in the first step with r̂ = r = e_1; another shadow gets past it.
  Mat a(3, 3);
  a << 0, 1, 0, 1, 1, 1, 0, 1, 3;
  const Vec b = Vec::Unit(3, 0);
  Operator op(a, false);
  const auto solution = Bicgstab<Vec>().solve(op, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_LE((b - a * solution.x).norm(), 1e-9);
}

TEST(Bicgstab, AMatrixWithoutASymmetricPartBreaksItDown) {
  // sᵀA·s = 0 for every s.
  Operator op(Mat{{0.0, 1.0}, {-1.0, 0.0}}, false);
  const auto solution = Bicgstab<Vec>().solve(op, Vec::Ones(2), nullptr);
  EXPECT_TRUE(solution.status == Status::breakdown || solution.status == Status::converged)
      << solution.message;
  if (solution.status == Status::breakdown) {
    EXPECT_NE(solution.message.find("times in a row"), std::string::npos);
  }
}

}  // namespace bicgstab_test
}  // namespace bilevel::testing
