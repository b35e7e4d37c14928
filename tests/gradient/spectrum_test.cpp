#include <gtest/gtest.h>

#include <bilevel/gradient/spectrum.hpp>

namespace bilevel {
namespace {

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

}  // namespace
}  // namespace bilevel
