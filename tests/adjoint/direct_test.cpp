#include <bilevel/adjoint/direct.hpp>

#include <gtest/gtest.h>

#include <adjoint/systems.hpp>
#include <bilevel/problems/kernels.hpp>
#include <bilevel/space/cholesky.hpp>

namespace bilevel::testing {
namespace direct_test {

TEST(Direct, CholeskyNeedsOneFactorizationAndOneProduct) {
  Draw draw(1);
  Operator a(draw.with_spectrum(log_spectrum(20, 10)));
  const Vec b = draw.vector(20);
  const auto solution = Direct<Vec>().solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_EQ(solution.factorizations, 1);
  EXPECT_EQ(solution.products, 1);
  EXPECT_TRUE(std::isnan(solution.smallest_ritz));
  EXPECT_LE((solution.x - a.matrix().llt().solve(b)).norm(), 1e-13 * b.norm());
}

// Sizes on either side of the tiles, of 128.
TEST(Cholesky, SolvesAndJudgesMatricesOfSeveralTilesWithTheSameBitsForAnyThreads) {
  const int before = problems::kernels::threads();
  for (const Index n : {1, 2, 127, 128, 129, 300, 513}) {
    SCOPED_TRACE(n);
    Draw draw(17);
    const Vec spectrum = log_spectrum(n, 100), truth = draw.vector(n);
    Mat a = draw.with_spectrum(spectrum);
    const Vec b = a * truth;
    const Mat whole = a;
    a.triangularView<Eigen::StrictlyUpper>().setConstant(std::nan(""));  // it reads the lower half only
    problems::kernels::set_threads(1);
    Cholesky alone(a);
    problems::kernels::set_threads(3);
    Cholesky factor(a);
    problems::kernels::set_threads(before);
    ASSERT_TRUE(factor.succeeded());
    Vec x = b, with_one = b;
    factor.solve_in_place(x);
    alone.solve_in_place(with_one);
    EXPECT_EQ(x, with_one);
    EXPECT_LE((x - truth).norm(), 1e-13 * static_cast<double>(n + 10) * truth.norm());
    // log det A = 2 Σ log pivots
    EXPECT_NEAR(2 * factor.pivots().array().log().sum(), spectrum.array().log().sum(),
                1e-12 * static_cast<double>(n));
    // The estimate is a lower bound of ‖A⁻¹‖₁, hence an upper one of the reciprocal, and rarely far off.
    const double exact = 1 / (whole.cwiseAbs().colwise().sum().maxCoeff() *
                              whole.inverse().cwiseAbs().colwise().sum().maxCoeff());
    EXPECT_GE(factor.reciprocal_condition(), exact * (1 - 1e-9));
    EXPECT_LE(factor.reciprocal_condition(), 3 * exact);
    a(n - 1, n - 1) -= 2 * spectrum.maxCoeff() + whole(n - 1, n - 1);
    factor.compute(a);
    EXPECT_FALSE(factor.succeeded());
    EXPECT_EQ(factor.reciprocal_condition(), 0);
  }
}

TEST(Direct, AssemblesTheMatrixFromProductsUpToTheLimit) {
  Draw draw(2);
  Operator a(draw.matrix(12, 12), false);
  a.gives_matrix = false;
  const Vec b = draw.vector(12);
  const auto solution = Direct<Vec>().solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_EQ(solution.products, 13);
  DirectOptions options;
  options.assembly_limit = 11;
  EXPECT_THROW(Direct<Vec>(options).solve(a, b, nullptr), InvalidInput);
}

TEST(Direct, AnIndefiniteMatrixGivesTheStationaryPointAndItsEigenvalues) {
  for (const std::uint64_t seed : {3u, 4u}) {
    Draw draw(seed);
    Vec spectrum = log_spectrum(15, 10);
    spectrum[14] = -0.75;
    Operator a(draw.with_spectrum(spectrum));
    const Vec b = draw.vector(15);
    const auto solution = Direct<Vec>().solve(a, b, nullptr);
    EXPECT_EQ(solution.status, Status::negative_curvature) << "seed " << seed;
    EXPECT_NE(solution.message.find("λ_min = -0.75"), std::string::npos) << solution.message;
    EXPECT_NEAR(solution.smallest_ritz, -0.75, 1e-13);
    EXPECT_NEAR(solution.largest_ritz, spectrum.maxCoeff(), 1e-13);
    EXPECT_LE(solution.residual_norm, 1e-13 * b.norm());
  }
}

TEST(Direct, SingularMatricesAreNamedAndSolvedInTheLeastSquaresSense) {
  Draw draw(5);
  Mat a = draw.matrix(10, 10);
  a.col(4) = a.col(7);
  Operator op(a, false);
  const Vec b = draw.vector(10);
  const auto solution = Direct<Vec>().solve(op, b, nullptr);
  EXPECT_EQ(solution.status, Status::singular);
  EXPECT_NE(solution.message.find("rank 9 of 10"), std::string::npos) << solution.message;
  EXPECT_LE((a.transpose() * (b - a * solution.x)).norm(), 1e-12 * a.norm() * b.norm());

  Operator zero(Mat::Zero(3, 3));
  EXPECT_EQ(Direct<Vec>().solve(zero, Vec::Ones(3), nullptr).status, Status::singular);
}

TEST(Direct, AFalseClaimOfSymmetryIsNoticed) {
  Draw draw(6);
  Operator a(4 * Mat::Identity(8, 8) + 0.1 * draw.matrix(8, 8), true);
  const Vec b = draw.vector(8);
  const auto solution = Direct<Vec>().solve(a, b, nullptr);
  EXPECT_EQ(solution.status, Status::converged) << solution.message;
  EXPECT_NE(solution.message.find("claims to be symmetric"), std::string::npos) << solution.message;
  EXPECT_LE((solution.x - a.matrix().lu().solve(b)).norm(), 1e-12 * b.norm());
}

TEST(Direct, AMatrixOfTheWrongSizeThrows) {
  Operator a(Mat::Identity(4, 4));
  EXPECT_THROW(Direct<Vec>().solve(a, Vec::Ones(3), nullptr), InvalidInput);
}

TEST(Direct, AMatrixWithNanIsNotFinite) {
  Mat bad = Mat::Identity(3, 3);
  bad(1, 2) = std::numeric_limits<double>::quiet_NaN();
  Operator a(bad);
  EXPECT_EQ(Direct<Vec>().solve(a, Vec::Ones(3), nullptr).status, Status::not_finite);
  a.gives_matrix = false;
  const auto assembled = Direct<Vec>().solve(a, Vec::Ones(3), nullptr);
  EXPECT_EQ(assembled.status, Status::not_finite);
  EXPECT_NE(assembled.message.find("column"), std::string::npos) << assembled.message;
}

}  // namespace direct_test
}  // namespace bilevel::testing
