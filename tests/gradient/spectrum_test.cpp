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

/// diag(values), as a curvature that offers products only.
struct Diagonal final : Curvature<Eigen::VectorXd> {
  explicit Diagonal(Eigen::VectorXd of) : values(std::move(of)) {}
  void times(const Eigen::VectorXd& v, Eigen::VectorXd& out) override {
    out = values.cwiseProduct(v);
    ++products;
  }
  void cross_times(const Eigen::VectorXd&, Eigen::VectorXd&) override {}
  void cross_apply(const Eigen::VectorXd&, Eigen::VectorXd&) override {}

  Eigen::VectorXd values;
  long products = 0;
};

/// Thousands of eigenvalues within a thousandth of the least: no eigenvector is found, and the bound holds.
TEST(Spectrum, TheSmallEndOfACrowdIsBounded) {
  constexpr Index n = 4000;
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    for (const double condition : {20.0, 500.0, 4000.0}) {
      SCOPED_TRACE(fmt::format("seed {}, condition {}", seed, condition));
      Eigen::VectorXd values = 1 + 1e-3 * Eigen::ArrayXd::LinSpaced(n, 0, 1);
      for (Index j = 0; j < 40; ++j) values[100 * j] = std::pow(condition, static_cast<double>(j + 1) / 40);
      Diagonal crowd(values);
      const Spectrum s = crowded_spectrum<Eigen::VectorXd>(crowd, values, seed, 3000, nullptr);
      EXPECT_LE(s.smallest, 1);
      EXPECT_GE(s.smallest, 0.15);
      EXPECT_NEAR(s.largest, condition, 1e-6 * condition);
      // Twice the products for four times the condition.
      EXPECT_LE(crowd.products, 32 + static_cast<long>(9 * std::sqrt(condition) / std::sqrt(0.8)));
      values[77] = -0.05 * std::sqrt(condition);
      Diagonal saddle(values);
      EXPECT_LE(crowded_spectrum<Eigen::VectorXd>(saddle, values, seed, 3000, nullptr).smallest, 0);
    }
}

}  // namespace spectrum_test
}  // namespace bilevel
