#include <bilevel/adjoint/neumann.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace neumann_test {

NeumannOptions cut_after(long terms, double step) {
  NeumannOptions options;
  options.terms = terms;
  options.step = step;
  return options;
}

TEST(Neumann, IteratesAreThePartialSumsOfTheSeries) {
  for (const std::uint64_t seed : {1u, 2u}) {
    Draw draw(seed);
    // Whether the series converges or not, its partial sums are what they are.
    for (const double step : {0.5, 1.0, 2.5}) {
      Operator a(Mat::Identity(15, 15) + 0.1 * draw.matrix(15, 15), false);
      const Vec b = draw.vector(15);
      Vec sum = Vec::Zero(15), power = b;
      for (long k = 1; k <= 20; ++k) {
        sum += step * power;
        power -= step * (a.matrix() * power);
        const auto solution = Neumann<Vec>(cut_after(k, step)).solve(a, b, nullptr);
        EXPECT_LE((solution.x - sum).norm(), 1e-13 * static_cast<double>(k) * (1 + sum.norm() + power.norm()))
            << "seed " << seed << ", step " << step << ", " << k << " terms";
        EXPECT_EQ(solution.iterations, k);
        EXPECT_EQ(solution.products, k);
        // What is left of b after k terms is (I − αA)^k·b.
        EXPECT_NEAR(solution.residual_norm, power.norm(), 1e-12 * (1 + power.norm() + sum.norm()));
      }
    }
  }
}

TEST(Neumann, TheErrorFallsByOneMinusOneOverKappaAStep) {
  Draw draw(3);
  const double kappa = 30;
  Operator a(draw.with_spectrum(log_spectrum(20, kappa)));
  const Vec b = draw.vector(20), exact = a.matrix().llt().solve(b);
  for (const long k : {1L, 10L, 50L, 200L}) {
    const auto solution = Neumann<Vec>(cut_after(k, 1.0)).solve(a, b, nullptr);
    EXPECT_LE((solution.x - exact).norm(),
              std::pow(1 - 1 / kappa, static_cast<double>(k)) * exact.norm() * (1 + 1e-10) + 1e-12);
  }
  const auto tail = Neumann<Vec>(cut_after(400, 1.0)).solve(a, b, nullptr);
  const auto next = Neumann<Vec>(cut_after(401, 1.0)).solve(a, b, nullptr);
  EXPECT_NEAR(next.residual_norm / tail.residual_norm, 1 - 1 / kappa, 1e-4);
}

TEST(Neumann, TheEstimatedStepIsShortEnoughAndNotMuchShorter) {
  for (const std::uint64_t seed : {4u, 5u, 6u, 7u, 8u}) {
    Draw draw(seed);
    Operator a(5 * draw.with_spectrum(log_spectrum(200, 20)));
    NeumannOptions options;
    options.seed = seed;
    const auto solution = Neumann<Vec>(options).solve(a, draw.vector(200), nullptr);
    EXPECT_EQ(solution.status, Status::converged) << "seed " << seed << ": " << solution.message;
    EXPECT_EQ(solution.products, solution.iterations + 20);
    // 23/ln(1/(1 − 1/κ)) steps at α = 1/λ_max; the margin costs a quarter at most here.
    EXPECT_LE(solution.iterations, 23 * 20 * 1.25 + 10);
  }
}

TEST(Neumann, DivergenceIsReportedWithItsGrowth) {
  Operator a(4 * Mat::Identity(4, 4));
  NeumannOptions options;
  options.step = 1;  // |1 − 4| = 3
  const auto solution = Neumann<Vec>(options).solve(a, Vec::Ones(4), nullptr);
  EXPECT_EQ(solution.status, Status::diverged);
  EXPECT_NE(solution.message.find("factor of 3 a step"), std::string::npos) << solution.message;
  EXPECT_NE(solution.message.find("α = 1;"), std::string::npos) << solution.message;
  EXPECT_LE(solution.residual_norm, solution.rhs_norm);
}

TEST(Neumann, NegativeCurvatureMakesItDivergeHoweverSlowly) {
  Vec spectrum = Vec::LinSpaced(10, 0.5, 1);
  spectrum[0] = -0.01;
  Draw draw(9);
  Operator a(draw.with_spectrum(spectrum));
  const auto solution = Neumann<Vec>().solve(a, draw.vector(10), nullptr);
  EXPECT_EQ(solution.status, Status::diverged) << solution.message;
  EXPECT_NE(solution.message.find("no step size converges"), std::string::npos) << solution.message;
  EXPECT_LT(solution.residual_norm, solution.rhs_norm);
}

TEST(Neumann, AnEstimatedStepThatIsTooLongForARotationIsHalved) {
  // λ = 1 ± 2i: |1 − αλ| < 1 only for α < 2/5, and 1/|λ| = 0.447.
  const Mat a = (Mat(2, 2) << 1, 2, -2, 1).finished();
  Operator op(a, false);
  const auto solution = Neumann<Vec>().solve(op, Vec::Ones(2), nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
}

TEST(Neumann, TheZeroMatrixIsSingular) {
  Operator a(Mat::Zero(3, 3));
  EXPECT_EQ(Neumann<Vec>().solve(a, Vec::Ones(3), nullptr).status, Status::singular);
}

}  // namespace neumann_test
}  // namespace bilevel::testing
