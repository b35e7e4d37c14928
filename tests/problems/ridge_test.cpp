#include <bilevel/problems/ridge.hpp>

#include <functional>

#include <gtest/gtest.h>
#include <Eigen/Eigenvalues>
#include <Eigen/QR>

#include "linear_model_checks.hpp"

namespace bilevel::problems {
namespace ridge_test {

using checks::Mat;
using checks::Vec;

/// φ* by another way: least squares on the stacked rows [X/√n; √Λ], never forming XᵀX.
Vec by_stacked_rows(const Ridge& problem, const Vec& theta) {
  const Index n = problem.x().rows(), d = problem.features();
  Mat a(n + d, d);
  Vec b = Vec::Zero(n + d);
  a.topRows(n) = problem.x() / std::sqrt(static_cast<double>(n));
  a.bottomRows(d).setZero();
  for (Index j = 0; j < d; ++j)
    a(n + j, j) = std::exp(0.5 * theta[problem.penalty() == Penalty::global ? 0 : j]);
  b.head(n) = problem.labels() / std::sqrt(static_cast<double>(n));
  return a.colPivHouseholderQr().solve(b);
}

TEST(Ridge, SettledAgreesWithAnIndependentDenseSolve) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Index features = seed % 5 == 0 ? 270 : 21;  // beyond and below the size at which XᵀX is kept
    const Ridge problem = Ridge::random({.rows = 60 + static_cast<Index>(seed),
                                         .features = features,
                                         .penalty = seed % 2 ? Penalty::per_feature : Penalty::global,
                                         .seed = seed});
    std::mt19937_64 engine(seed);
    const Vec theta = problem.initial_theta() + checks::gaussian(problem.initial_theta().size(), engine);
    const Vec expected = by_stacked_rows(problem, theta);
    EXPECT_LE((*problem.settled(theta) - expected).norm(), 1e-10 * expected.norm());
  }
}

TEST(Ridge, SettledIsWhereTheResidualOfTheNudgedLossVanishes) {
  Ridge problem = Ridge::random({.rows = 200, .features = 13, .strong = 3, .seed = 3});
  const Vec theta = problem.initial_theta();
  for (double beta : {0.0, 0.3, 2.0, -0.05}) {
    const Vec phi = problem.settled(theta, beta);
    Vec inner(13), outer(13);
    problem.inner(phi, theta, {.phi = &inner});
    problem.outer(phi, theta, {.phi = &outer});
    EXPECT_LE((inner + beta * outer).norm(), 1e-13) << beta;
  }
}

TEST(Ridge, OuterGradientAgreesWithDifferencesOfTheWholeSolve) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Ridge problem = Ridge::random({.rows = 80,
                                   .validation_rows = 50,
                                   .features = 12,
                                   .strong = 3,
                                   .group = 4,
                                   .penalty = seed % 2 ? Penalty::per_feature : Penalty::global,
                                   .seed = seed});
    std::mt19937_64 engine(seed);
    Vec theta = problem.initial_theta();
    theta += checks::gaussian(theta.size(), engine);
    const Vec gradient = *problem.outer_gradient(theta);
    for (Index j = 0; j < theta.size(); ++j) {
      const auto value = [&](double shift) {
        Vec moved = theta;
        moved[j] += shift;
        return problem.outer(*problem.settled(moved), moved, {});
      };
      // Fourth order, so that neither truncation nor rounding comes near 1e-9.
      const double h = 1e-2;
      const double difference = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
      EXPECT_NEAR(gradient[j], difference, 1e-9) << j;
    }
  }
}

TEST(Ridge, DenseMatrixAndProductsAgreeWithLongDouble) {
  for (Index features : {9, 300}) {
    Ridge problem = Ridge::random({.rows = 150, .features = features, .strong = 2, .seed = 5});
    const checks::Exact exact(problem, true);
    std::mt19937_64 engine(5);
    const Vec theta = problem.initial_theta(), phi = checks::gaussian(features, engine);
    std::unique_ptr<Curvature<Vec>> curvature;
    for (double beta : {0.0, 0.7, -0.2}) {
      problem.linearise(phi, theta, beta, curvature);
      const Vec v = checks::gaussian(features, engine);
      const Vec expected = exact.hessian_times(phi, theta, v, beta).cast<double>();
      Vec out(features), diagonal(features), before(features);
      curvature->times(v, before);
      curvature->diagonal(diagonal);
      Mat dense;
      ASSERT_TRUE(curvature->dense(dense));
      curvature->times(v, out);
      EXPECT_LE((before - expected).norm(), 1e-13 * expected.norm());
      EXPECT_LE((out - expected).norm(), 1e-13 * expected.norm());
      EXPECT_LE((dense * v - expected).norm(), 1e-13 * expected.norm());
      EXPECT_LE((dense.diagonal() - diagonal).norm(), 1e-14 * diagonal.norm());
    }
  }
}

TEST(Ridge, DerivativesOfBothLossesAgreeWithLongDouble) {
  for (Penalty penalty : {Penalty::per_feature, Penalty::global}) {
    Ridge problem =
        Ridge::random({.rows = 77, .validation_rows = 33, .features = 17, .penalty = penalty, .seed = 9});
    const checks::Exact exact(problem, true);
    std::mt19937_64 engine(9);
    const Vec phi = checks::gaussian(17, engine),
              theta = checks::gaussian(problem.initial_theta().size(), engine);
    Vec dphi(17), dtheta(theta.size());
    EXPECT_NEAR(problem.inner(phi, theta, {.phi = &dphi, .theta = &dtheta}),
                static_cast<double>(exact.inner(phi, theta)), 1e-13);
    EXPECT_LE((dphi - exact.residual(phi, theta).cast<double>()).norm(), 1e-13);
    EXPECT_LE((dtheta - 0.5 * exact.cross_times(phi, theta, phi).cast<double>()).norm(), 1e-13);
    EXPECT_NEAR(problem.outer(phi, theta, {.phi = &dphi, .theta = &dtheta}),
                static_cast<double>(exact.outer(phi)), 1e-13);
    EXPECT_LE((dphi - exact.outer_gradient(phi).cast<double>()).norm(), 1e-13);
    EXPECT_EQ(dtheta.norm(), 0);
  }
}

TEST(Ridge, ConstantsHoldOverSamples) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Ridge problem = Ridge::random({.rows = seed % 3 ? 90 : 10,
                                   .validation_rows = 25,
                                   .features = seed % 7 ? 14 : 260,
                                   .strong = 2,
                                   .penalty = seed % 2 ? Penalty::per_feature : Penalty::global,
                                   .seed = seed});
    const checks::Exact exact(problem, true);
    std::mt19937_64 engine(seed);
    const Index d = problem.features();
    const Vec theta = problem.initial_theta() + checks::gaussian(problem.initial_theta().size(), engine);
    const Vec center = checks::gaussian(d, engine);
    const double radius = 0.5;
    const Constants c = problem.constants(theta, center, radius);
    EXPECT_TRUE(std::isnan(problem.constants(theta, center, everywhere).outer_lipschitz));
    EXPECT_TRUE(std::isnan(problem.constants(theta, center, everywhere).cross_norm));
    EXPECT_EQ(c.hessian_lipschitz, 0);
    EXPECT_EQ(c.outer_cross_lipschitz, 0);
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(center, theta, 0, curvature);
    Mat dense;
    curvature->dense(dense);
    const Vec eigenvalues = dense.selfadjointView<Eigen::Lower>().eigenvalues();
    EXPECT_LE(c.mu, eigenvalues[0] * (1 + 1e-12) + 1e-14);
    EXPECT_GE(c.smoothness, eigenvalues[d - 1] * (1 - 1e-12));
    if (d < 200 && problem.penalty() == Penalty::global) {
      // With one penalty for all the two eigenvalues are exact, so the bounds must be nearly so.
      EXPECT_NEAR(c.mu, eigenvalues[0], 1e-11 * eigenvalues[d - 1]);
      EXPECT_NEAR(c.smoothness, eigenvalues[d - 1], 1e-11 * eigenvalues[d - 1]);
    }
    for (int draw = 0; draw < 20; ++draw) {
      Vec step = checks::gaussian(d, engine);
      step *= radius / step.norm();
      const Vec phi = center + step;
      EXPECT_LE(static_cast<double>(exact.outer_gradient(phi).norm()), c.outer_lipschitz);
      EXPECT_LE(static_cast<double>((exact.outer_gradient(phi) - exact.outer_gradient(center)).norm()),
                c.outer_smoothness * radius * (1 + 1e-12));
      problem.linearise(phi, theta, 0, curvature);
      EXPECT_LE(curvature->cross_norm(), c.cross_norm * (1 + 1e-12));
      Vec u = checks::gaussian(theta.size(), engine), image(d);
      curvature->cross_apply(u, image);
      EXPECT_LE(image.norm(), curvature->cross_norm() * u.norm() * (1 + 1e-14));
    }
  }
}

TEST(Ridge, RoundingBoundsAreNeverViolated) {
  double closest = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Ridge problem = Ridge::random({.rows = 1 + static_cast<Index>(seed * 7 % 300),
                                   .validation_rows = 1 + static_cast<Index>(seed * 5 % 200),
                                   .features = seed % 50 == 0 ? 264 : 6 + static_cast<Index>(seed % 20),
                                   .strong = 2,
                                   .penalty = seed % 2 ? Penalty::per_feature : Penalty::global,
                                   .seed = seed});
    const checks::Exact exact(problem, true);
    std::mt19937_64 engine(seed);
    const Index d = problem.features();
    const Vec theta = 3 * checks::gaussian(problem.initial_theta().size(), engine);
    // Large at random; and where it has settled, so that the residual is nothing but rounding.
    const Vec phi = seed % 3 ? checks::gaussian(d, engine, std::pow(10.0, static_cast<double>(seed % 7) - 3))
                             : *problem.settled(theta);
    const Vec pi = checks::gaussian(d, engine, std::pow(10.0, static_cast<double>(seed % 5) - 2));
    const Rounding bound = problem.rounding(phi, theta, pi);
    Vec residual(d), outer(d), product(d), cross(theta.size());
    problem.residual(phi, theta, residual);
    problem.outer(phi, theta, {.phi = &outer});
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    curvature->times(pi, product);
    curvature->cross_times(pi, cross);
    const auto error = [](const Vec& computed, const checks::LongVec& truth) {
      return static_cast<double>((computed.cast<long double>() - truth).norm());
    };
    EXPECT_LE(error(residual, exact.residual(phi, theta)), bound.residual);
    EXPECT_LE(error(outer - product, exact.outer_gradient(phi) - exact.hessian_times(phi, theta, pi)),
              bound.adjoint);
    EXPECT_LE(error(cross, exact.cross_times(phi, theta, pi)), bound.gradient);
    closest = std::max(closest, error(residual, exact.residual(phi, theta)) / bound.residual);
  }
  RecordProperty("closest", std::to_string(closest));
  EXPECT_GT(closest, 1e-4) << "a bound that is never approached says nothing";
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Ridge, RefusesDataThatDoNotFit) {
  const Mat x = Mat::Ones(4, 3), v = Mat::Ones(2, 3);
  const Vec t = Vec::Ones(4), s = Vec::Ones(2);
  Mat hole = v;
  hole(1, 2) = std::nan("");
  Vec far = t;
  far[3] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message_of([&] { Ridge(x, t, hole, s); }),
            "ridge: the validation features hold nan in row 1, column 2 (counted from 0)");
  EXPECT_EQ(message_of([&] { Ridge(x, far, v, s); }),
            "ridge: the training labels hold inf in row 3 (counted from 0)");
  EXPECT_EQ(message_of([&] { Ridge(x, s, v, s); }), "ridge: 4 rows of training features and 2 labels");
  EXPECT_EQ(message_of([&] { Ridge(x, t, Mat(Mat::Ones(2, 2)), s); }),
            "ridge: 3 columns of training features and 2 of validation features");
  EXPECT_EQ(message_of([&] { Ridge(Mat(0, 3), Vec(0), v, s); }), "ridge: the training features have no rows");
  EXPECT_EQ(message_of([&] { Ridge(Mat(4, 0), t, Mat(2, 0), s); }),
            "ridge: the training features have no columns");
  EXPECT_EQ(message_of([&] { Ridge::random({.rows = 0, .correlation = 1}); }),
            "linear_model.rows = 0 must be at least 1; linear_model.correlation = 1 must be at least 0 and "
            "below 1");
}

TEST(Ridge, TakesAnyMatrixLayoutAndKeepsItsValues) {
  std::mt19937_64 engine(1);
  const Vec values = checks::gaussian(35, engine);
  const Mat x = Eigen::Map<const Mat>(values.data(), 7, 5);
  const ModelMatrix::RowMajor row_major = x;
  const Vec t = Vec::Ones(7);
  const Ridge a(x, t, x.topRows(3), t.head(3)), b(row_major, t, row_major.topRows(3), t.head(3));
  EXPECT_EQ(Mat(a.x()), x);
  EXPECT_EQ(*a.settled(a.initial_theta()), *b.settled(b.initial_theta()));
}

TEST(Ridge, LearningOnePenaltyAFeatureWouldSilenceTheUselessOnes) {
  // The structure of the random data shows in the gradient: penalties of strong features want to fall.
  const Ridge problem = Ridge::random({.rows = 400, .validation_rows = 4000, .seed = 11});
  const Vec gradient = *problem.outer_gradient(problem.initial_theta());
  for (Index j = 0; j < gradient.size(); ++j)
    if (problem.planted()[j] != 0) {
      EXPECT_GT(gradient[j], 0) << j;
    }
}

}  // namespace ridge_test
}  // namespace bilevel::problems
