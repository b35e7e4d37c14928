#include <bilevel/adjoint/conjugate_gradient.hpp>

#include <array>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>

namespace bilevel::testing {
namespace conjugate_gradient_test {

ConjugateGradientOptions with(Preconditioner preconditioner) {
  ConjugateGradientOptions options;
  options.preconditioner = preconditioner;
  return options;
}

TEST(ConjugateGradient, EndsAfterAsManyStepsAsThereAreEigenvalues) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Draw draw(seed);
    Vec spectrum(40);
    for (Eigen::Index i = 0; i < 40; ++i)
      spectrum[i] = std::array{1.0, 2.0, 5.0, 9.0}[static_cast<std::size_t>(i % 4)];
    Operator a(draw.with_spectrum(spectrum));
    const auto solution = ConjugateGradient<Vec>().solve(a, draw.vector(40), nullptr);
    EXPECT_EQ(solution.status, Status::converged) << solution.message;
    EXPECT_EQ(solution.iterations, 4);
    EXPECT_NEAR(solution.smallest_ritz, 1, 1e-10);
    EXPECT_NEAR(solution.largest_ritz, 9, 1e-10);
  }
}

TEST(ConjugateGradient, ErrorFallsWithTheSquareRootOfTheConditionNumber) {
  for (const std::uint64_t seed : {4u, 5u, 6u}) {
    Draw draw(seed);
    const double kappa = 1000;
    Operator a(draw.with_spectrum(log_spectrum(60, kappa)));
    const Vec b = draw.vector(60), exact = a.matrix().llt().solve(b);
    const auto energy = [&](const Vec& x) { return std::sqrt((x - exact).dot(a.matrix() * (x - exact))); };
    const double rate = (std::sqrt(kappa) - 1) / (std::sqrt(kappa) + 1);
    double lowest = b.norm();
    int checked = 0;
    for (long k = 1; k <= 80; ++k) {
      ConjugateGradientOptions options;
      options.max_iterations = k;
      const auto solution = ConjugateGradient<Vec>(options).solve(a, b, nullptr);
      // The answer is the iterate of the smallest residual; it is the k-th where one step less had a larger
      // one.
      if (!(solution.residual_norm < lowest)) continue;
      lowest = solution.residual_norm;
      ++checked;
      EXPECT_LE(energy(solution.x), 2 * std::pow(rate, static_cast<double>(k)) * energy(Vec::Zero(60)))
          << "seed " << seed << ", step " << k;
    }
    EXPECT_GE(checked, 20) << "seed " << seed;
  }
}

TEST(ConjugateGradient, ZeroCurvatureOfAnIndefiniteMatrixIsABreakdown) {
  Operator a(diagonal({1.0, -1.0}));
  const auto solution = ConjugateGradient<Vec>().solve(a, Vec::Ones(2), nullptr);
  EXPECT_EQ(solution.status, Status::breakdown);
  EXPECT_EQ(solution.x, Vec::Zero(2));
  EXPECT_NE(solution.message.find("indefinite"), std::string::npos) << solution.message;
}

TEST(ConjugateGradient, NegativeCurvatureComesWithItsNumberAndTheIterateBeforeIt) {
  // b = e_1 + e_2: pᵀAp/pᵀp = (2 − 3)/2.
  Operator a(diagonal({2.0, -3.0}));
  const auto at_once = ConjugateGradient<Vec>().solve(a, Vec::Ones(2), nullptr);
  EXPECT_EQ(at_once.status, Status::negative_curvature);
  EXPECT_NE(at_once.message.find("-0.5 at iteration 1"), std::string::npos) << at_once.message;
  EXPECT_EQ(at_once.x, Vec::Zero(2));
  EXPECT_NEAR(at_once.smallest_ritz, -0.5, 1e-15);

  for (const std::uint64_t seed : {7u, 8u, 9u}) {
    Draw draw(seed);
    Vec spectrum = log_spectrum(20, 10);
    spectrum[0] = -0.02;
    Operator b(draw.with_spectrum(spectrum));
    const auto later = ConjugateGradient<Vec>().solve(b, draw.vector(20), nullptr);
    EXPECT_EQ(later.status, Status::negative_curvature) << "seed " << seed << ": " << later.message;
    EXPECT_GT(later.iterations, 1);
    EXPECT_LT(later.residual_norm, later.rhs_norm);
    EXPECT_LT(later.smallest_ritz, 0);
    EXPECT_GE(later.smallest_ritz, -0.02 - 1e-12);
  }
}

TEST(ConjugateGradient, ANullVectorInTheResidualIsSingular) {
  Operator a(diagonal({1.0, 0.0}));
  const auto solution = ConjugateGradient<Vec>().solve(a, Vec::Unit(2, 1), nullptr);
  EXPECT_EQ(solution.status, Status::singular) << solution.message;
}

TEST(ConjugateGradient, RitzValuesBracketTheSpectrumFromInsideAndReachIt) {
  for (const std::uint64_t seed : {10u, 11u}) {
    Draw draw(seed);
    // Both ends stand apart, so that the Krylov space finds them well before it is exhausted.
    Vec spectrum = Vec::LinSpaced(50, 0.2, 0.8);
    spectrum[0] = 0.01;
    spectrum[49] = 1;
    Operator a(draw.with_spectrum(spectrum));
    const Vec b = draw.vector(50);
    double smallest = std::numeric_limits<double>::infinity(), largest = 0;
    for (long k = 1; k <= 50; ++k) {
      ConjugateGradientOptions options;
      options.max_iterations = k;
      options.relative_tolerance = 1e-13;
      const auto solution = ConjugateGradient<Vec>(options).solve(a, b, nullptr);
      EXPECT_GE(solution.smallest_ritz, spectrum[0] * (1 - 1e-12)) << "seed " << seed << ", step " << k;
      EXPECT_LE(solution.largest_ritz, spectrum[49] * (1 + 1e-12)) << "seed " << seed << ", step " << k;
      EXPECT_LE(solution.smallest_ritz, smallest * (1 + 1e-12));
      EXPECT_GE(solution.largest_ritz, largest * (1 - 1e-12));
      smallest = solution.smallest_ritz;
      largest = solution.largest_ritz;
    }
    EXPECT_NEAR(smallest, spectrum[0], 1e-8 * spectrum[0]) << "seed " << seed;
    EXPECT_NEAR(largest, spectrum[49], 1e-8) << "seed " << seed;
  }
}

TEST(ConjugateGradient, JacobiUndoesABadScaling) {
  Draw draw(12);
  const Vec scaling = (Vec::LinSpaced(50, -4, 4).array() * std::log(10.0)).exp();
  const Mat well = draw.with_spectrum(log_spectrum(50, 10));
  const Mat a = scaling.asDiagonal() * well * scaling.asDiagonal();
  Operator op(0.5 * (a + a.transpose()));
  const Vec b = scaling.asDiagonal() * draw.vector(50);
  const auto jacobi = ConjugateGradient<Vec>(with(Preconditioner::jacobi)).solve(op, b, nullptr);
  const auto plain = ConjugateGradient<Vec>().solve(op, b, nullptr);
  EXPECT_EQ(jacobi.status, Status::converged) << jacobi.message;
  EXPECT_LT(jacobi.iterations, 60);
  EXPECT_GT(plain.iterations, 3 * jacobi.iterations) << plain.message;
  EXPECT_TRUE(std::isnan(jacobi.smallest_ritz) && std::isnan(jacobi.largest_ritz));
}

TEST(ConjugateGradient, AnExactPreconditionerNeedsOneStep) {
  Draw draw(13);
  Operator a(draw.with_spectrum(log_spectrum(20, 1000)));
  a.preconditioner = a.matrix().inverse();
  const auto solution = ConjugateGradient<Vec>(with(Preconditioner::own)).solve(a, draw.vector(20), nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_LE(solution.iterations, 2);
}

TEST(ConjugateGradient, APreconditionerThatIsNotPositiveIsNamed) {
  Operator a(Mat::Identity(3, 3));
  a.preconditioner = -Mat::Identity(3, 3);
  const auto solution = ConjugateGradient<Vec>(with(Preconditioner::own)).solve(a, Vec::Ones(3), nullptr);
  EXPECT_EQ(solution.status, Status::breakdown);
  EXPECT_NE(solution.message.find("preconditioner is not positive definite"), std::string::npos)
      << solution.message;
}

TEST(ConjugateGradient, ANegativeDiagonalElementIsNegativeCurvature) {
  Operator a(diagonal({2.0, -0.25}));
  const auto solution = ConjugateGradient<Vec>(with(Preconditioner::jacobi)).solve(a, Vec::Ones(2), nullptr);
  EXPECT_EQ(solution.status, Status::negative_curvature);
  EXPECT_NE(solution.message.find("-0.25"), std::string::npos) << solution.message;
}

TEST(ConjugateGradient, WhatTheOperatorCannotServeThrows) {
  Operator a(Mat::Identity(2, 2));
  a.gives_diagonal = false;
  EXPECT_THROW(ConjugateGradient<Vec>(with(Preconditioner::jacobi)).solve(a, Vec::Ones(2), nullptr),
               InvalidInput);
  EXPECT_THROW(ConjugateGradient<Vec>(with(Preconditioner::own)).solve(a, Vec::Ones(2), nullptr),
               InvalidInput);
  Operator unsymmetric(Mat::Identity(2, 2), false);
  EXPECT_THROW(ConjugateGradient<Vec>().solve(unsymmetric, Vec::Ones(2), nullptr), InvalidInput);
}

}  // namespace conjugate_gradient_test
}  // namespace bilevel::testing
