// The ready-made losses at complex φ and β: equal to the real ones on the real axis, holomorphic off it, and
// honest about poles.

#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/problem/counted.hpp>
#include <bilevel/problem/holomorphic.hpp>
#include <bilevel/problems/registry.hpp>

#include "../../src/problems/complex_functions.hpp"

namespace bilevel {
namespace holomorphic_test {

using Vec = Eigen::VectorXd;
using Complex = std::complex<double>;
using ComplexVec = Eigen::VectorXcd;
using LongComplex = std::complex<long double>;

struct Case {
  std::string family, penalty;
};
const std::vector<Case> cases{{"quadratic", ""},           {"log-cosh", ""},
                              {"ridge", "per-feature"},    {"ridge", "global"},
                              {"logistic", "per-feature"}, {"logistic", "global"}};

struct Drawn {
  Drawn(const Case& c, std::uint64_t seed)
      : problem(problems::make(c.family, {.penalty = c.penalty, .seed = seed})), engine(seed) {
    phi = ComplexVec::NullaryExpr(problem->initial_phi().size(),
                                  [&] { return Complex(normal(engine), 0.1 * normal(engine)); });
    theta = Vec::NullaryExpr(problem->initial_theta().size(), [&] { return 0.3 * normal(engine); });
    beta = {0.5 * normal(engine), 0.5 * normal(engine)};
  }
  ComplexVec by_phi(const ComplexVec& at, Complex b) {
    ComplexVec out(phi.size());
    problem->holomorphic()->complex_derivatives(at, theta, b, {.phi = &out});
    return out;
  }
  ComplexVec by_theta(const ComplexVec& at, Complex b) {
    ComplexVec out(theta.size());
    problem->holomorphic()->complex_derivatives(at, theta, b, {.theta = &out});
    return out;
  }

  std::unique_ptr<problems::ReferenceProblem> problem;
  std::mt19937_64 engine;
  std::normal_distribution<double> normal;
  ComplexVec phi;
  Vec theta;
  Complex beta;
};

template <class Check>
void for_every_draw(Check check) {
  for (const Case& c : cases)
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(::testing::Message() << c.family << " " << c.penalty << ", seed " << seed);
      Drawn drawn(c, seed);
      ASSERT_NE(drawn.problem->holomorphic(), nullptr);
      check(drawn);
    }
}

TEST(Holomorphic, OnTheRealAxisItIsTheRealProblem) {
  for_every_draw([](Drawn& d) {
    const Vec phi = d.phi.real();
    const double beta = d.beta.real();
    Vec inner(phi.size()), outer(phi.size()), inner_theta(d.theta.size()), outer_theta(d.theta.size());
    d.problem->inner(phi, d.theta, {.phi = &inner, .theta = &inner_theta});
    d.problem->outer(phi, d.theta, {.phi = &outer, .theta = &outer_theta});
    ComplexVec by_phi(phi.size()), by_theta(d.theta.size());
    d.problem->holomorphic()->complex_derivatives(phi.cast<Complex>(), d.theta, beta,
                                                  {.phi = &by_phi, .theta = &by_theta});
    EXPECT_LE((by_phi.real() - inner - beta * outer).norm(), 1e-13 * (inner.norm() + outer.norm()));
    EXPECT_LE((by_theta.real() - inner_theta - beta * outer_theta).norm(),
              1e-13 * (inner_theta.norm() + outer_theta.norm()));
    EXPECT_EQ(by_phi.imag().norm(), 0);
    EXPECT_EQ(by_theta.imag().norm(), 0);

    std::unique_ptr<Curvature<Vec>> curvature;
    d.problem->linearise(phi, d.theta, beta, curvature);
    Eigen::MatrixXd dense;
    ASSERT_TRUE(curvature->dense(dense));
    Eigen::MatrixXcd hessian;
    ASSERT_TRUE(d.problem->holomorphic()->complex_hessian(phi.cast<Complex>(), d.theta, beta, hessian));
    EXPECT_LE((hessian.real() - dense).norm(), 1e-13 * dense.norm());
    EXPECT_EQ(hessian.imag().norm(), 0);
    EXPECT_EQ(d.problem->holomorphic()->margin(phi.cast<Complex>(), d.theta), 1);
  });
}

TEST(Holomorphic, CauchyAndRiemannAreSatisfiedAndTheHessianIsTheDerivative) {
  for_every_draw([](Drawn& d) {
    const ComplexVec direction = ComplexVec::NullaryExpr(
        d.phi.size(), [&] { return Complex(d.normal(d.engine), d.normal(d.engine)); });
    const double h = 1e-3;
    // Fourth order, along the real and along the imaginary multiple of a direction: the same derivative.
    const auto slope = [&](auto f, Complex step) {
      return ComplexVec((8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step));
    };
    const auto along_phi = [&](Complex t) { return d.by_phi(d.phi + t * direction, d.beta); };
    const auto along_phi_theta = [&](Complex t) { return d.by_theta(d.phi + t * direction, d.beta); };
    const auto along_beta = [&](Complex t) { return d.by_phi(d.phi, d.beta + t); };
    const auto along_beta_theta = [&](Complex t) { return d.by_theta(d.phi, d.beta + t); };
    Eigen::MatrixXcd hessian;
    d.problem->holomorphic()->complex_hessian(d.phi, d.theta, d.beta, hessian);
    const ComplexVec product = hessian * direction;
    const double size = 1 + product.norm();
    EXPECT_LE((slope(along_phi, h) - product).norm(), 1e-8 * size);
    EXPECT_LE((slope(along_phi, Complex(0, h)) - product).norm(), 1e-8 * size);
    EXPECT_LE((slope(along_phi_theta, h) - slope(along_phi_theta, Complex(0, h))).norm(), 1e-8 * size);
    // L is linear in β, so ∂φ L and ∂θ L are too.
    EXPECT_LE((along_beta(1) - along_beta(0) - slope(along_beta, Complex(0, h))).norm(), 1e-9 * size);
    EXPECT_LE((along_beta_theta(1) - along_beta_theta(0) - slope(along_beta_theta, Complex(0, h))).norm(),
              1e-9 * size);
    EXPECT_LE((hessian - hessian.transpose()).norm(), 1e-13 * hessian.norm());
    // The reflection principle, which halves the number of phases.
    EXPECT_LE((d.by_phi(d.phi.conjugate(), std::conj(d.beta)) - d.by_phi(d.phi, d.beta).conjugate()).norm(),
              1e-13 * size);
    EXPECT_LE(
        (d.by_theta(d.phi.conjugate(), std::conj(d.beta)) - d.by_theta(d.phi, d.beta).conjugate()).norm(),
        1e-13 * size);
  });
}

TEST(Holomorphic, ComplexStepsGiveTheRealHessianProduct) {
  for_every_draw([](Drawn& d) {
    const Vec phi = d.phi.real(), v = d.phi.imag();
    const double h = 1e-20;
    const ComplexVec stepped = d.by_phi(phi.cast<Complex>() + Complex(0, h) * v.cast<Complex>(), 0.25);
    std::unique_ptr<Curvature<Vec>> curvature;
    d.problem->linearise(phi, d.theta, 0.25, curvature);
    Vec product(phi.size());
    curvature->times(v, product);
    EXPECT_LE((stepped.imag() / h - product).norm(), 1e-12 * product.norm());
  });
}

TEST(Holomorphic, FunctionsAreAccurateFarOutAndInfiniteAtPoles) {
  const auto near = [](Complex got, LongComplex want) {
    EXPECT_LE(std::abs(LongComplex(got) - want), 4e-15L * std::abs(want)) << got.real() << " " << got.imag();
  };
  for (const double x : {0.0, 1e-12, 1e-5, 0.3, 1.0, 5.0, 19.9, 20.1, 300.0, 340.0})
    for (const double y : {0.0, 1e-9, 0.2, 0.7, 1.4})
      for (const double sign : {-1.0, 1.0}) {
        const Complex z(sign * x, y);
        const LongComplex w(z);
        const LongComplex cosh = std::cosh(w);  // long double has the range for these
        near(problems::complex_tanh(z), std::sinh(w) / cosh);
        near(problems::complex_sech_squared(z), 1.0L / (cosh * cosh));
        const LongComplex q = std::exp(w);
        near(problems::complex_logistic(z), q / (1.0L + q));
        near(problems::complex_logistic_slope(z), q / ((1.0L + q) * (1.0L + q)));
      }
  EXPECT_EQ(problems::complex_tanh({800, 1}).real(), 1);
  EXPECT_EQ(problems::complex_tanh({-800, 1}).real(), -1);
  EXPECT_EQ(std::abs(problems::complex_sech_squared({-800, 1})), 0);
  EXPECT_EQ(problems::complex_logistic({800, 3}), Complex(1, 0));
  EXPECT_EQ(std::abs(problems::complex_logistic({-800, 3})), 0);
  // π/2 is not a double, so the pole is missed by 6e-17 and the value is about its reciprocal.
  EXPECT_GT(std::abs(problems::complex_tanh({0, std::numbers::pi / 2})), 1e15);
  EXPECT_GT(std::abs(problems::complex_logistic({0, std::numbers::pi})), 1e15);
}

TEST(Holomorphic, TheMarginSaysHowFarThePolesAre) {
  const auto problem = problems::make("log-cosh", {.seed = 3});
  ComplexVec phi = problem->initial_phi().cast<Complex>();
  phi[4] = {0.3, std::numbers::pi / 4};
  EXPECT_NEAR(problem->holomorphic()->margin(phi, problem->initial_theta()), 0.5, 1e-15);
  phi[7] = {0.3, -2};
  EXPECT_LT(problem->holomorphic()->margin(phi, problem->initial_theta()), 0);
  const auto entire = problems::make("ridge", {.seed = 3});
  EXPECT_EQ(entire->holomorphic()->margin(entire->initial_phi().cast<Complex>(), entire->initial_theta()), 1);
}

TEST(Holomorphic, WrappersPassItOnAndCount) {
  const auto problem = problems::make("quadratic", {.seed = 1});
  CountedProblem<Vec> counted(*problem);
  ASSERT_NE(counted.holomorphic(), nullptr);
  ComplexVec phi = problem->initial_phi().cast<Complex>(), out = phi;
  counted.holomorphic()->complex_derivatives(phi, problem->initial_theta(), 1, {.phi = &out});
  Eigen::MatrixXcd hessian;
  counted.holomorphic()->complex_hessian(phi, problem->initial_theta(), 1, hessian);
  // A complex number is two real ones.
  EXPECT_EQ(counted.cost().inner_gradients, 2);
  EXPECT_EQ(counted.cost().outer_gradients, 2);
  EXPECT_EQ(counted.cost().dense_hessians, 1);
  EXPECT_EQ(counted.cost().dense_columns, 2 * phi.size());
  const auto without = problems::make("duopoly", {});
  CountedProblem<Vec> none(*without);
  EXPECT_EQ(none.holomorphic(), nullptr);
}

}  // namespace holomorphic_test
}  // namespace bilevel
