#include <bilevel/problems/logistic.hpp>

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include "linear_model_checks.hpp"

namespace bilevel::problems {
namespace logistic_test {

using checks::Mat;
using checks::Vec;

LinearModelOptions options_for(std::uint64_t seed) {
  return {.rows = 1 + static_cast<Index>(seed * 7 % 300),
          .validation_rows = 1 + static_cast<Index>(seed * 5 % 200),
          .features = 6 + static_cast<Index>(seed % 20),
          .strong = 2,
          .penalty = seed % 2 ? Penalty::per_feature : Penalty::global,
          .seed = seed};
}

TEST(Logistic, DerivativesAgreeWithLongDouble) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Logistic problem = Logistic::random(options_for(seed));
    const checks::Exact exact(problem, false);
    std::mt19937_64 engine(seed);
    const Index d = problem.features();
    const Vec phi = checks::gaussian(d, engine),
              theta = checks::gaussian(problem.initial_theta().size(), engine);
    const Vec v = checks::gaussian(d, engine);
    Vec dphi(d), dtheta(theta.size()), out(d), diagonal(d);
    EXPECT_NEAR(problem.inner(phi, theta, {.phi = &dphi, .theta = &dtheta}),
                static_cast<double>(exact.inner(phi, theta)), 1e-12);
    EXPECT_LE((dphi - exact.residual(phi, theta).cast<double>()).norm(), 1e-13);
    EXPECT_LE((dtheta - 0.5 * exact.cross_times(phi, theta, phi).cast<double>()).norm(), 1e-12);
    EXPECT_NEAR(problem.outer(phi, theta, {.phi = &dphi, .theta = &dtheta}),
                static_cast<double>(exact.outer(phi)), 1e-12);
    EXPECT_LE((dphi - exact.outer_gradient(phi).cast<double>()).norm(), 1e-13);
    EXPECT_EQ(dtheta.norm(), 0);
    std::unique_ptr<Curvature<Vec>> curvature;
    for (double beta : {0.0, 0.4, -0.1}) {
      problem.linearise(phi, theta, beta, curvature);
      const Vec expected = exact.hessian_times(phi, theta, v, beta).cast<double>();
      curvature->times(v, out);
      EXPECT_LE((out - expected).norm(), 1e-13 * expected.norm());
      curvature->diagonal(diagonal);
      Mat dense;
      ASSERT_TRUE(curvature->dense(dense));
      EXPECT_LE((dense * v - expected).norm(), 1e-13 * expected.norm());
      EXPECT_LE((dense.diagonal() - diagonal).norm(), 1e-13 * diagonal.norm());
      Vec cross(theta.size());
      curvature->cross_times(v, cross);
      EXPECT_LE((cross - exact.cross_times(phi, theta, v).cast<double>()).norm(), 1e-12);
      // The two products with χ are each other's transpose.
      const Vec u = checks::gaussian(theta.size(), engine);
      Vec image(d);
      curvature->cross_apply(u, image);
      EXPECT_NEAR(image.dot(v), cross.dot(u), 1e-12 * (1 + std::abs(cross.dot(u))));
    }
  }
}

TEST(Logistic, DerivativesAgreeWithCentralDifferences) {
  Logistic problem =
      Logistic::random({.rows = 60, .validation_rows = 40, .features = 11, .strong = 2, .seed = 4});
  std::mt19937_64 engine(4);
  const Vec phi = checks::gaussian(11, engine), theta = checks::gaussian(11, engine);
  Vec dphi(11), dtheta(11), plus(11), minus(11), out(11);
  problem.inner(phi, theta, {.phi = &dphi, .theta = &dtheta});
  std::unique_ptr<Curvature<Vec>> curvature;
  problem.linearise(phi, theta, 0, curvature);
  const double h = 1e-5;
  for (Index j = 0; j < 11; ++j) {
    const Vec e = h * Vec::Unit(11, j);
    EXPECT_NEAR(dphi[j], (problem.inner(phi + e, theta, {}) - problem.inner(phi - e, theta, {})) / (2 * h),
                1e-9);
    EXPECT_NEAR(dtheta[j], (problem.inner(phi, theta + e, {}) - problem.inner(phi, theta - e, {})) / (2 * h),
                1e-8);
    problem.residual(phi + e, theta, plus);
    problem.residual(phi - e, theta, minus);
    curvature->times(Vec::Unit(11, j), out);
    EXPECT_LE((out - (plus - minus) / (2 * h)).norm(), 1e-8);
    problem.residual(phi, theta + e, plus);
    problem.residual(phi, theta - e, minus);
    curvature->cross_apply(Vec::Unit(11, j), out);
    EXPECT_LE((out - (plus - minus) / (2 * h)).norm(), 1e-8);
  }
}

TEST(Logistic, LinearisingAfterAGradientEqualsLinearisingAfresh) {
  Logistic problem = Logistic::random({.rows = 500, .features = 20, .seed = 6});
  std::mt19937_64 engine(6);
  const Vec theta = problem.initial_theta(), a = checks::gaussian(20, engine),
            b = checks::gaussian(20, engine);
  const Vec v = checks::gaussian(20, engine);
  Vec fresh_a(20), fresh_b(20), out(20);
  std::unique_ptr<Curvature<Vec>> one, two;
  problem.linearise(a, theta, 0, one);
  one->times(v, fresh_a);
  problem.linearise(b, theta, 0, one);
  one->times(v, fresh_b);
  for (int round = 0; round < 3; ++round) {
    problem.residual(a, theta, out);
    problem.linearise(a, theta, 0, one);  // takes what the residual left behind
    problem.linearise(a, theta, 0, two);  // and now it is gone
    one->times(v, out);
    EXPECT_EQ(out, fresh_a);
    two->times(v, out);
    EXPECT_EQ(out, fresh_a);
    problem.residual(a, theta, out);
    problem.linearise(b, theta, 0, two);  // left behind for another point
    two->times(v, out);
    EXPECT_EQ(out, fresh_b);
    one->times(v, out);
    EXPECT_EQ(out, fresh_a);
  }
}

TEST(Logistic, ConstantsHoldOverSamples) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    LinearModelOptions options = options_for(seed);
    if (seed % 10 == 0) options.features = 260;
    Logistic problem = Logistic::random(options);
    const checks::Exact exact(problem, false);
    std::mt19937_64 engine(seed);
    const Index d = problem.features();
    const Vec theta = checks::gaussian(problem.initial_theta().size(), engine),
              center = checks::gaussian(d, engine);
    const double radius = seed % 2 ? 0.01 : 1;
    const Constants c = problem.constants(theta, center, radius);
    EXPECT_FALSE(std::isnan(problem.constants(theta, center, everywhere).outer_lipschitz));
    EXPECT_EQ(c.outer_cross_lipschitz, 0);
    std::unique_ptr<Curvature<Vec>> curvature, other;
    problem.linearise(center, theta, 0, curvature);
    for (int draw = 0; draw < 20; ++draw) {
      Vec step = checks::gaussian(d, engine);
      step *= radius / step.norm();
      const Vec phi = center + step;
      problem.linearise(phi, theta, 0, other);
      Mat here, there;
      curvature->dense(here);
      other->dense(there);
      const Vec eigenvalues = there.selfadjointView<Eigen::Lower>().eigenvalues();
      EXPECT_LE(c.mu, eigenvalues[0] * (1 + 1e-12) + 1e-14);
      EXPECT_GE(c.smoothness, eigenvalues[d - 1] * (1 - 1e-12));
      const Mat change = there - here;
      EXPECT_LE(change.selfadjointView<Eigen::Lower>().eigenvalues().cwiseAbs().maxCoeff(),
                c.hessian_lipschitz * radius + 1e-13);
      EXPECT_LE(static_cast<double>(exact.outer_gradient(phi).norm()), c.outer_lipschitz);
      EXPECT_LE(static_cast<double>((exact.outer_gradient(phi) - exact.outer_gradient(center)).norm()),
                c.outer_smoothness * radius * (1 + 1e-12));
      EXPECT_LE(other->cross_norm(), c.cross_norm * (1 + 1e-12));
      const Vec u = checks::gaussian(theta.size(), engine);
      Vec image(d), image_here(d);
      other->cross_apply(u, image);
      curvature->cross_apply(u, image_here);
      EXPECT_LE((image - image_here).norm(), c.cross_lipschitz * radius * u.norm() * (1 + 1e-12) + 1e-14);
    }
  }
}

TEST(Logistic, RoundingBoundsAreNeverViolated) {
  double closest = 0;
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Logistic problem = Logistic::random(options_for(seed));
    const checks::Exact exact(problem, false);
    std::mt19937_64 engine(seed);
    const Index d = problem.features();
    const Vec theta = 3 * checks::gaussian(problem.initial_theta().size(), engine);
    const Vec phi = checks::gaussian(d, engine, std::pow(10.0, static_cast<double>(seed % 9) - 4));
    const Vec pi = checks::gaussian(d, engine, std::pow(10.0, static_cast<double>(seed % 5) - 2));
    const Rounding bound = problem.rounding(phi, theta, pi);
    Vec residual(d), outer(d), product(d), by_matrix(d), cross(theta.size());
    problem.residual(phi, theta, residual);
    problem.outer(phi, theta, {.phi = &outer});
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    curvature->times(pi, product);
    Mat dense;
    curvature->dense(dense);
    curvature->times(pi, by_matrix);
    curvature->cross_times(pi, cross);
    const auto error = [](const Vec& computed, const checks::LongVec& truth) {
      return static_cast<double>((computed.cast<long double>() - truth).norm());
    };
    const checks::LongVec adjoint = exact.outer_gradient(phi) - exact.hessian_times(phi, theta, pi);
    EXPECT_LE(error(residual, exact.residual(phi, theta)), bound.residual);
    EXPECT_LE(error(outer - product, adjoint), bound.adjoint);
    EXPECT_LE(error(outer - by_matrix, adjoint), bound.adjoint);
    EXPECT_LE(error(cross, exact.cross_times(phi, theta, pi)), bound.gradient);
    closest = std::max(closest, error(residual, exact.residual(phi, theta)) / bound.residual);
  }
  RecordProperty("closest", std::to_string(closest));
  EXPECT_GT(closest, 1e-4) << "a bound that is never approached says nothing";
}

/// φ* by Newton's method on the oracles; from 0 with these penalties full steps converge.
Vec settle(Logistic& problem, const Vec& theta) {
  Vec phi = problem.initial_phi(), residual(phi.size());
  std::unique_ptr<Curvature<Vec>> curvature;
  Mat dense;
  for (int step = 0; step < 60; ++step) {
    problem.residual(phi, theta, residual);
    if (residual.norm() < 1e-15) break;
    problem.linearise(phi, theta, 0, curvature);
    curvature->dense(dense);
    phi -= Eigen::LLT<Mat>(dense).solve(residual);
  }
  return phi;
}

TEST(Logistic, ImplicitGradientAgreesWithDifferencesOfTheWholeSolve) {
  for (Penalty penalty : {Penalty::per_feature, Penalty::global}) {
    Logistic problem = Logistic::random({.rows = 120,
                                         .validation_rows = 80,
                                         .features = 9,
                                         .strong = 2,
                                         .group = 4,
                                         .penalty = penalty,
                                         .seed = 8});
    const Vec theta = problem.initial_theta();
    const Vec phi = settle(problem, theta);
    Vec g(9), gradient(theta.size());
    problem.outer(phi, theta, {.phi = &g});
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    Mat dense;
    curvature->dense(dense);
    const Vec pi = Eigen::LLT<Mat>(dense).solve(g);
    curvature->cross_times(pi, gradient);
    gradient = -gradient;
    for (Index j = 0; j < theta.size(); ++j) {
      const auto value = [&](double shift) {
        Vec moved = theta;
        moved[j] += shift;
        return problem.outer(settle(problem, moved), moved, {});
      };
      const double h = 1e-2;
      EXPECT_NEAR(gradient[j], (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h),
                  1e-9);
    }
  }
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Logistic, RefusesWrongLabelsAndNamesTheRow) {
  const Mat x = Mat::Ones(4, 2);
  const Vec good{{1, -1, 1, -1}}, two{{1, -1, 2, 1}}, mixed{{1, 0, 1, -1}}, hole{{1, -1, std::nan(""), 1}};
  EXPECT_EQ(
      message_of([&] { Logistic(x, two, x, good); }),
      "logistic: the training label in row 2 (counted from 0) is 2; labels must be -1 and 1, or 0 and 1");
  EXPECT_EQ(
      message_of([&] { Logistic(x, good, x, mixed); }),
      "logistic: the validation label in row 3 (counted from 0) is -1; labels must be -1 and 1, or 0 and 1");
  EXPECT_EQ(message_of([&] { Logistic(x, hole, x, good); }),
            "logistic: the training labels hold nan in row 2 (counted from 0)");
  Mat far = x;
  far(3, 0) = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(message_of([&] { Logistic(far, good, x, good); }),
            "logistic: the training features hold -inf in row 3, column 0 (counted from 0)");
}

TEST(Logistic, ZeroAndOneAreTakenAsMinusAndPlusOne) {
  std::mt19937_64 engine(2);
  const Mat x = Mat(checks::gaussian(12, engine).reshaped(6, 2));
  const Vec zero_one{{1, 0, 1, 0, 0, 1}}, signs{{1, -1, 1, -1, -1, 1}};
  Logistic a(x, zero_one, x, zero_one), b(x, signs, x, signs);
  const Vec phi{{0.3, -2}}, theta = a.initial_theta();
  EXPECT_EQ(a.inner(phi, theta, {}), b.inner(phi, theta, {}));
  EXPECT_EQ(a.outer(phi, theta, {}), b.outer(phi, theta, {}));
}

}  // namespace logistic_test
}  // namespace bilevel::problems
