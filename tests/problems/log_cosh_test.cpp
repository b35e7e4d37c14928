#include <bilevel/problems/log_cosh.hpp>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/SVD>

#include <problems/reference.hpp>

namespace log_cosh_test {

using namespace reference;
using bilevel::problems::LogCosh;
using bilevel::problems::LogCoshOptions;

Long sech_squared(Long x) {
  const Long c = std::cosh(x);
  return 1 / (c * c);
}

/// The formulas of the family, written down again in long double.
struct InLongDouble {
  explicit InLongDouble(const LogCosh& p)
      : h(widen(p.hessian())),
        j(widen(p.coupling())),
        k(widen(p.outer_coupling())),
        y(widen(p.target())),
        epsilon(p.epsilon()) {}

  LongVec residual(const LongVec& phi, const LongVec& theta) const {
    return h * phi + epsilon * (phi - j * theta).unaryExpr([](Long x) { return std::tanh(x); });
  }
  LongVec weight(const LongVec& phi, const LongVec& theta) const {
    return epsilon * (phi - j * theta).unaryExpr([](Long x) { return sech_squared(x); });
  }
  LongVec outer_phi(const LongVec& phi, const LongVec& theta) const {
    return (phi - y - k * theta).unaryExpr([](Long x) { return std::tanh(x); });
  }
  Long outer(const LongVec& phi, const LongVec& theta) const {
    return (phi - y - k * theta).unaryExpr([](Long x) { return std::log(std::cosh(x)); }).sum();
  }
  /// Newton's method; the quadratic part dominates in these tests, so that full steps converge.
  LongVec settle(const LongVec& theta) const {
    LongVec phi = LongVec::Zero(h.rows());
    for (int i = 0; i < 60; ++i) {
      LongMat hessian = h;
      hessian.diagonal() += weight(phi, theta);
      phi -= hessian.ldlt().solve(residual(phi, theta));
    }
    return phi;
  }

  LongMat h, j, k;
  LongVec y;
  Long epsilon;
};

TEST(LogCosh, DerivativesPassTheCheck) {
  expect_derivatives([](std::uint64_t seed) {
    return std::make_unique<LogCosh>(LogCosh::random({.phi = 1 + static_cast<Index>(seed),
                                                      .theta = 4,
                                                      .epsilon = 0.1 * static_cast<double>(seed),
                                                      .seed = seed}));
  });
}

TEST(LogCosh, ImplicitGradientAgreesWithDifferencesOfTheWholeSolve) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    LogCosh problem = LogCosh::random({.phi = 6, .theta = 3, .condition = 4, .seed = seed});
    const InLongDouble exact(problem);
    std::mt19937_64 engine(seed);
    const Vec theta = random_vector(3, engine);
    const LongVec settled = exact.settle(widen(theta));
    ASSERT_LE(exact.residual(settled, widen(theta)).norm(), 1e-16L) << "Newton's method did not settle";
    EXPECT_FALSE(problem.settled(theta));

    // ∇θ = ∂θ L_out − π χ with π H = ∂φ L_out, from the problem's own oracles.
    const Vec phi = settled.cast<double>();
    Vec outer_phi(6), gradient(3), cross(3);
    problem.outer(phi, theta, {.phi = &outer_phi, .theta = &gradient});
    std::unique_ptr<bilevel::Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    Mat hessian;
    ASSERT_TRUE(curvature->dense(hessian));
    curvature->cross_times(hessian.ldlt().solve(outer_phi), cross);
    gradient -= cross;
    const LongVec expected =
        differentiate([&](const LongVec& t) { return exact.outer(exact.settle(t), t); }, widen(theta), 1e-3L);
    EXPECT_LE(static_cast<double>((widen(gradient) - expected).norm()),
              1e-10 * static_cast<double>(expected.norm()));
  }
}

TEST(LogCosh, ScalarFunctionsAreAccurateForSmallAndLargeArguments) {
  for (const double x : {0.0, 1e-300, 1e-9, 1e-4, 0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 10.0, 18.0, 40.0}) {
    // ln cosh x = ½·log1p(sinh² x), which long double evaluates without loss.
    const Long wide = x, sinh = std::sinh(wide), expected = std::log1p(sinh * sinh) / 2;
    EXPECT_NEAR(bilevel::problems::log_cosh(x), static_cast<double>(expected),
                8 * 0x1p-53 * static_cast<double>(expected));
    EXPECT_EQ(bilevel::problems::log_cosh(-x), bilevel::problems::log_cosh(x));
    const double slope = static_cast<double>(sech_squared(wide));
    EXPECT_NEAR(bilevel::problems::sech_squared(x), slope, 12 * 0x1p-53 * slope);
  }
  EXPECT_DOUBLE_EQ(bilevel::problems::log_cosh(1e300), 1e300);
  EXPECT_EQ(bilevel::problems::sech_squared(1e300), 0);
}

TEST(LogCosh, ConstantsHoldAtRandomPoints) {
  double tightest_hessian = 0, tightest_cross = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    LogCosh problem = LogCosh::random({.phi = 4,
                                       .theta = 3,
                                       .condition = 10,
                                       .epsilon = 0.5 + 0.1 * static_cast<double>(seed),
                                       .seed = seed});
    const InLongDouble exact(problem);
    std::mt19937_64 engine(seed);
    const auto c = problem.constants(Vec::Zero(3), Vec::Zero(4), bilevel::everywhere);
    for (int draw = 0; draw < 100; ++draw) {
      const LongVec theta = widen(random_vector(3, engine)), p = widen(random_vector(4, engine, 2));
      const LongVec q = p + widen(random_vector(4, engine, draw % 2 ? 1e-3 : 1));
      const LongVec weight_p = exact.weight(p, theta), weight_q = exact.weight(q, theta);
      LongMat hessian = exact.h;
      hessian.diagonal() += weight_p;
      const LongVec eigenvalues = Eigen::SelfAdjointEigenSolver<LongMat>(hessian).eigenvalues();
      EXPECT_GE(eigenvalues[0], c.mu);
      EXPECT_LE(eigenvalues[3], c.smoothness);
      const auto spectral = [](const LongMat& a) { return Eigen::JacobiSVD<LongMat>(a).singularValues()[0]; };
      const Long distance = (p - q).norm();
      const Long hessian_secant = (weight_p - weight_q).cwiseAbs().maxCoeff() / distance;
      const Long cross_secant = spectral((weight_p - weight_q).asDiagonal() * exact.j) / distance;
      EXPECT_LE(hessian_secant, c.hessian_lipschitz);
      EXPECT_LE(cross_secant, c.cross_lipschitz);
      EXPECT_LE(spectral(weight_p.asDiagonal() * exact.j), c.cross_norm);
      const LongVec g = exact.outer_phi(p, theta), g_q = exact.outer_phi(q, theta);
      EXPECT_LE(g.norm(), c.outer_lipschitz);
      EXPECT_LE((g - g_q).norm() / distance, c.outer_smoothness);
      EXPECT_LE((exact.k.transpose() * (g - g_q)).norm() / distance, c.outer_cross_lipschitz);
      tightest_hessian =
          std::max(tightest_hessian, static_cast<double>(hessian_secant / c.hessian_lipschitz));
      tightest_cross = std::max(tightest_cross, static_cast<double>(cross_secant / c.cross_lipschitz));

      // The bound of ‖χ‖ at the point, with and without a nudge.
      for (const double beta : {0.0, 0.5, -2.0}) {
        std::unique_ptr<bilevel::Curvature<Vec>> curvature;
        problem.linearise(p.cast<double>(), theta.cast<double>(), beta, curvature);
        const LongVec outer_weight =
            (p - exact.y - exact.k * theta).unaryExpr([](Long x) { return sech_squared(x); });
        const LongMat chi =
            weight_p.asDiagonal() * exact.j + static_cast<Long>(beta) * (outer_weight.asDiagonal() * exact.k);
        EXPECT_LE(spectral(chi), curvature->cross_norm());
      }
    }
  }
  std::cout << "log-cosh: largest secant / constant, Hessian " << tightest_hessian << ", cross "
            << tightest_cross << '\n';
  EXPECT_GT(tightest_hessian, 0.5) << "a constant that is never approached says nothing";
}

TEST(LogCosh, RoundingStaysWithinItsBounds) {
  RoundingTally tally;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    const Index n = 1 + static_cast<Index>(seed % 9), m = 1 + static_cast<Index>(seed % 5);
    LogCosh problem = LogCosh::random(
        {.phi = n, .theta = m, .condition = 10, .epsilon = random_scale(engine), .seed = seed});
    const InLongDouble exact(problem);
    const double scale = std::pow(10.0, std::uniform_real_distribution<double>(-3, 2)(engine));
    const Vec theta = random_vector(m, engine, scale);
    // A third at random, a third at arguments near zero, where large terms cancel, a third at a settled
    // state.
    Vec phi = random_vector(n, engine, scale);
    if (seed % 3 == 1) phi = problem.coupling() * theta + 1e-3 * random_vector(n, engine);
    if (seed % 3 == 2) {
      for (int i = 0; i < 20; ++i) {
        Mat hessian = problem.hessian();
        hessian.diagonal().array() += problem.epsilon();
        Vec r(n);
        problem.residual(phi, theta, r);
        phi -= hessian.ldlt().solve(r);
      }
    }
    const Vec pi = random_vector(n, engine, random_scale(engine));
    const LongVec p = widen(phi), t = widen(theta), q = widen(pi);
    const LongVec weighted = exact.weight(p, t).cwiseProduct(q);
    tally.add(problem, phi, theta, pi,
              {exact.residual(p, t), exact.outer_phi(p, t) - exact.h * q - weighted,
               -(exact.k.transpose() * exact.outer_phi(p, t)) + exact.j.transpose() * weighted});
  }
  tally.print("log-cosh");
}

TEST(LogCosh, OptionsAndSizesAreValidated) {
  EXPECT_THROW(LogCosh::random({.phi = 0}), bilevel::InvalidInput);
  EXPECT_THROW(LogCosh::random({.theta = 0}), bilevel::InvalidInput);
  EXPECT_THROW(LogCosh::random({.condition = 0}), bilevel::InvalidInput);
  EXPECT_THROW(LogCosh::random({.epsilon = 0}), bilevel::InvalidInput);
  const Mat h = Mat::Identity(2, 2), j = Mat::Ones(2, 1);
  const Vec y = Vec::Zero(2);
  EXPECT_NO_THROW(LogCosh(h, j, y, j, 1));
  EXPECT_THROW(LogCosh(h, j, y, Mat::Ones(2, 2), 1), bilevel::InvalidInput);
  EXPECT_THROW(LogCosh(-h, j, y, j, 1), bilevel::InvalidInput);
  EXPECT_THROW(LogCosh(Mat{{1, 0.5}, {0, 1}}, j, y, j, 1), bilevel::InvalidInput);
  EXPECT_THROW(LogCosh(h, j, y, j, -1), bilevel::InvalidInput);
}

}  // namespace log_cosh_test
