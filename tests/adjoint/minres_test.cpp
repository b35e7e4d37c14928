#include <bilevel/adjoint/minres.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace minres_test {

TEST(Minres, SolvesAnIndefiniteSystemAndSaysThatItIs) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Draw draw(seed);
    Vec spectrum = log_spectrum(30, 50);
    spectrum.head(10) *= -1;
    Operator a(draw.with_spectrum(spectrum));
    const Vec b = draw.vector(30);
    const auto solution = Minres<Vec>().solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::converged) << "seed " << seed << ": " << solution.message;
    EXPECT_LE((solution.x - a.matrix().fullPivLu().solve(b)).norm(), 50 * 1e-10 * b.norm());
    EXPECT_NE(solution.message.find("not positive definite"), std::string::npos) << solution.message;
    EXPECT_NEAR(solution.smallest_ritz, spectrum.minCoeff(), 1e-8);
    EXPECT_NEAR(solution.largest_ritz, 1, 1e-8);
  }
}

TEST(Minres, TheResidualNeverGrows) {
  Draw draw(4);
  Vec spectrum = log_spectrum(30, 50);
  for (Eigen::Index i = 0; i < 30; i += 2) spectrum[i] *= -1;
  Operator a(draw.with_spectrum(spectrum));
  const Vec b = draw.vector(30);
  double previous = b.norm();
  for (long k = 1; k <= 30; ++k) {
    MinresOptions options;
    options.max_iterations = k;
    const auto solution = Minres<Vec>(options).solve(a, b, nullptr);
    EXPECT_LE(solution.residual_norm, previous * (1 + 1e-12)) << "step " << k;
    previous = solution.residual_norm;
  }
}

TEST(Minres, OutsideTheRangeTheResidualIsThatOfLeastSquares) {
  for (const std::uint64_t seed : {5u, 6u, 7u}) {
    Draw draw(seed);
    Vec spectrum = log_spectrum(25, 10);
    spectrum[3] = 0;
    Operator a(draw.with_spectrum(spectrum));
    const Vec b = draw.vector(25);
    const auto solution = Minres<Vec>().solve(a, b, nullptr);
    const Vec reference = least_norm(a.matrix(), b);
    EXPECT_EQ(solution.status, Status::singular) << "seed " << seed << ": " << solution.message;
    EXPECT_NEAR(solution.residual_norm, (b - a.matrix() * reference).norm(), 1e-10 * b.norm())
        << "seed " << seed;
  }
}

TEST(Minres, InsideTheRangeOfASingularMatrixItFindsTheSolutionOfLeastNorm) {
  Draw draw(8);
  Vec spectrum = log_spectrum(25, 10);
  spectrum.head(5).setZero();
  Operator a(draw.with_spectrum(spectrum));
  const Vec b = a.matrix() * draw.vector(25);
  const auto solution = Minres<Vec>().solve(a, b, nullptr);
  const Vec reference = least_norm(a.matrix(), b);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_LE((solution.x - reference).norm(), 1e-8 * reference.norm());
}

TEST(Minres, TheZeroMatrixIsSingular) {
  Operator a(Mat::Zero(3, 3));
  const auto solution = Minres<Vec>().solve(a, Vec::Ones(3), nullptr);
  EXPECT_EQ(solution.status, Status::singular) << solution.message;
  EXPECT_EQ(solution.x, Vec::Zero(3));
}

TEST(Minres, NeedsSymmetry) {
  Operator a(Mat::Identity(2, 2), false);
  EXPECT_THROW(Minres<Vec>().solve(a, Vec::Ones(2), nullptr), InvalidInput);
}

}  // namespace minres_test
}  // namespace bilevel::testing
