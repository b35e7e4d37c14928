#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <Eigen/Eigenvalues>

#include <bilevel/gradient/impl/spectrum.hpp>

namespace bilevel {
namespace spectrum_test {

TEST(DenseSpectrum, OfASymmetricMatrixIsItsEigenvalues) {
  Eigen::Matrix2d a;
  a << 2, 1, 1, 2;
  const Spectrum s = dense_spectrum(a, true);
  EXPECT_NEAR(s.smallest, 1, 1e-12);
  EXPECT_NEAR(s.largest, 3, 1e-12);
}

TEST(DenseSpectrum, OfAnyOtherMatrixIsItsSingularValues) {
  Eigen::Matrix2d a;
  a << 0, 4, -3, 0;
  const Spectrum s = dense_spectrum(a, false);
  EXPECT_NEAR(s.smallest, 3, 1e-12);
  EXPECT_NEAR(s.largest, 4, 1e-12);
}

TEST(DenseSpectrum, RefusesAMatrixThatIsNotSquare) {
  EXPECT_THROW(dense_spectrum(Eigen::MatrixXd::Ones(4, 2), false), InvalidInput);
  EXPECT_THROW(dense_spectrum(Eigen::MatrixXd::Ones(4, 2), true), InvalidInput);
}

TEST(Spectrum, TheLargestRelativeEigenvalueIsBoundedClosely) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    const Index n = 5 + static_cast<Index>(seed) * 3;
    const auto gaussian = [&](Index rows, Index columns) {
      return Eigen::MatrixXd::NullaryExpr(rows, columns, [&] { return normal(engine); }).eval();
    };
    const Eigen::MatrixXd x = gaussian(2 * n, n), z = gaussian(seed % 3 == 0 ? 2 : n, n);
    Eigen::MatrixXd a = x.transpose() * x / static_cast<double>(2 * n);
    a.diagonal() += Eigen::VectorXd::NullaryExpr(n, [&] { return std::exp(3 * normal(engine)); });
    const Eigen::MatrixXd b = z.transpose() * z;
    const double smallest =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(a, Eigen::EigenvaluesOnly).eigenvalues()[0];
    const double truth =
        Eigen::GeneralizedSelfAdjointEigenSolver<Eigen::MatrixXd>(b, a, Eigen::EigenvaluesOnly)
            .eigenvalues()[n - 1];
    const double bound = largest_relative(a, b, 0, 0.99 * smallest);
    EXPECT_GE(bound, truth * (1 - 1e-9));
    EXPECT_LE(bound, 1.6 * truth);
    // Of matrices that are not quite those.
    const double error = 0.05 * smallest;
    const Eigen::MatrixXd turn = gaussian(n, n), off = (turn + turn.transpose()).eval();
    const double size = off.operatorNorm();
    const Eigen::MatrixXd other_a = a - error / size * off, other_b = b + error / size * off;
    const double other =
        Eigen::GeneralizedSelfAdjointEigenSolver<Eigen::MatrixXd>(other_b, other_a, Eigen::EigenvaluesOnly)
            .eigenvalues()[n - 1];
    EXPECT_GE(largest_relative(a, b, error, 0.94 * smallest), other * (1 - 1e-9));
  }
  Eigen::MatrixXd indefinite = Eigen::MatrixXd::Identity(4, 4);
  indefinite(3, 3) = -1;
  EXPECT_TRUE(std::isnan(largest_relative(indefinite, Eigen::MatrixXd::Identity(4, 4), 0, 1)));
}

}  // namespace spectrum_test
}  // namespace bilevel
