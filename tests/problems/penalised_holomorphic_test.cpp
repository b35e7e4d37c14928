// Penalised models at complex φ and β: the real model on the real axis, and its Hessian a complex step beside
// it, whatever the data and the standardisation.

#include <bilevel/problem/holomorphic.hpp>

#include <gtest/gtest.h>

#include "penalised_cases.hpp"

namespace bilevel::problems {
namespace penalised_holomorphic_test {

using namespace cases;
using cases::Family;
using cases::Settings;

TEST(PenalisedModel, ItsContinuationIsTheRealModelAndAComplexStepGivesTheHessian) {
  for (std::uint64_t seed = 1; seed <= 64; ++seed) {
    Settings s{.family = seed % 2 ? Family::squared : Family::logistic,
               .map = seed % 3 == 0   ? Map::global
                      : seed % 3 == 1 ? Map::per_feature
                                      : Map::spread,
               .sparse = seed / 2 % 2 == 1,
               .weights = seed / 4 % 2 == 1,
               .offsets = seed / 8 % 2 == 1,
               .intercept = seed % 5 != 0,
               .standardise = seed % 7 != 0,
               .folds = seed / 16 % 2 == 1,
               .seed = seed};
    SCOPED_TRACE(s.text());
    Data data(s);
    const auto model = data.model();
    ASSERT_NE(model->holomorphic(), nullptr);
    const Vec theta = gaussian(data.map.thetas(), data.engine);
    const Index n = model->initial_phi().size();
    const Vec psi = gaussian(n, data.engine), v = gaussian(n, data.engine);
    const double beta = 0.3;
    Vec inner(n), outer(n), by_theta(theta.size()), product(n);
    model->inner(psi, theta, {.phi = &inner, .theta = &by_theta});
    model->outer(psi, theta, {.phi = &outer});
    std::unique_ptr<Curvature<Vec>> curvature;
    model->linearise(psi, theta, beta, curvature);
    curvature->times(v, product);
    Vec cross(theta.size());
    curvature->cross_times(v, cross);

    // Beside the real axis by so little that its square is nothing: the imaginary part is the derivative.
    const double h = 1e-100;
    Eigen::VectorXcd beside(n), phi_there(n), theta_there(theta.size());
    beside.real() = psi;
    beside.imag() = h * v;
    model->complex_derivatives(beside, theta, beta, {.phi = &phi_there, .theta = &theta_there});
    const double size = 1 + inner.norm() + outer.norm() + product.norm();
    EXPECT_LE((phi_there.real() - inner - beta * outer).norm(), 1e-13 * size);
    EXPECT_LE((phi_there.imag() / h - product).norm(), 1e-12 * size);
    EXPECT_LE((theta_there.real() - by_theta).norm(), 1e-13 * (1 + by_theta.norm()));
    EXPECT_LE((theta_there.imag() / h - cross).norm(), 1e-13 * (1 + cross.norm()));

    Eigen::MatrixXcd hessian;
    EXPECT_EQ(model->complex_hessian(psi.cast<std::complex<double>>(), theta, beta, hessian), !s.sparse);
    if (!s.sparse) {
      EXPECT_LE((hessian.real() * v - product).norm(), 1e-12 * size);
      EXPECT_EQ(hessian.imag().norm(), 0);
    }
    EXPECT_EQ(model->margin(psi.cast<std::complex<double>>(), theta), 1);
  }
}

TEST(PenalisedModel, OnlyContinuedLossesOfferAContinuation) {
  for (int family = 2; family < 8; ++family)
    EXPECT_EQ(Data({.family = static_cast<Family>(family)}).model()->holomorphic(), nullptr) << family;
}

}  // namespace penalised_holomorphic_test
}  // namespace bilevel::problems
