#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <iostream>
#include <memory>
#include <numbers>
#include <random>

#include <gtest/gtest.h>
#include <Eigen/QR>

#include <bilevel/gradient/exact.hpp>
#include <bilevel/gradient/holomorphic_propagation.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/registry.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/translated.hpp>

#include "holomorphic_test_problems.hpp"

namespace bilevel {
namespace holomorphic_propagation_test {

using conformance::BlockVector;
using conformance::Translated;
using namespace holomorphic_test;

/// Q with one inner variable for each generalised eigenvalue of (G, H), in a random basis.
problems::Quadratic with_poles(const Vec& eigenvalues, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const Index n = eigenvalues.size();
  const auto draw = [&](Index rows, Index columns) {
    return Mat(Mat::NullaryExpr(rows, columns, [&] { return normal(engine); }));
  };
  const Mat q = Eigen::HouseholderQR<Mat>(draw(n, n)).householderQ();
  Mat g = q * eigenvalues.asDiagonal() * q.transpose();
  g = Mat(0.5 * (g + g.transpose()));
  return problems::Quadratic(Mat::Identity(n, n), draw(n, 2), draw(n, 1), g, draw(n, 1));
}

/// The estimate by the formula, all N points, every phase solved by LU: no checks of any kind.
Vec unchecked(const problems::Quadratic& q, Vec target, const Vec& theta, const Vec& b, int points,
              double beta, int from = 0, int until = -1) {
  Vec sum = Vec::Zero(theta.size());
  if (until < 0) until = points;
  for (int k = from; k < until; ++k) {
    const Complex at = std::polar(beta, 2 * std::numbers::pi * (k + 0.5) / points);
    const Eigen::MatrixXcd matrix = q.hessian().cast<Complex>() + at * q.outer_hessian();
    const ComplexVec right = (q.coupling() * theta + b).cast<Complex>() + at * (q.outer_hessian() * target);
    const ComplexVec phi = matrix.partialPivLu().solve(right);
    sum -= (q.coupling().transpose() * phi / at).real();
  }
  return sum / (until - from);
}

double slope_of(const std::vector<double>& x, const std::vector<double>& y) {
  double mx = 0, my = 0, xx = 0, xy = 0;
  const double n = static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) mx += std::log(x[i]) / n, my += std::log(y[i]) / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (std::log(x[i]) - mx) * (std::log(x[i]) - mx);
    xy += (std::log(x[i]) - mx) * (std::log(y[i]) - my);
  }
  return xy / xx;
}

TEST(HolomorphicPropagation, TheBiasFallsLikeBetaToTheNumberOfPoints) {
  for (const std::string family : {"quadratic", "log-cosh"})
    for (std::uint64_t seed : {1, 2, 3})
      for (const int points : {2, 4, 6, 8}) {
        SCOPED_TRACE(::testing::Message() << family << ", seed " << seed << ", N = " << points);
        const auto problem = problems::make(family, {.phi = 6, .theta = 3, .condition = 4, .seed = seed});
        const Vec theta = moved_theta(*problem, seed), expected = truth(*problem, theta);
        const Constants c = problem->constants(theta, problem->initial_phi(), everywhere);
        const double radius = c.mu / c.outer_smoothness;
        std::vector<double> betas, errors;
        for (double share = 0.9; share > 1e-4; share /= 1.15) {
          const auto e = propagate<Vec>(*problem, theta, {.points = points, .beta = share * radius});
          ASSERT_EQ(e.status, Status::converged) << e.message;
          const double error = (e.gradient - expected).norm() / expected.norm();
          if (error < 3e-12) break;  // the floor of rounding is near
          if (error > 1e-2) continue;
          betas.push_back(share * radius);
          errors.push_back(error);
        }
        ASSERT_GE(betas.size(), 4U);
        const double slope = slope_of(betas, errors);
        std::cout << family << " N = " << points << " seed " << seed << ": slope " << slope << " over "
                  << betas.size() << " radii, errors " << errors.front() << " to " << errors.back() << '\n';
        EXPECT_NEAR(slope, points, 0.1);
      }
}

TEST(HolomorphicPropagation, EightPointsReachTenDigitsOnEveryFamily) {
  struct Case {
    std::string family;
    problems::Settings settings;
  };
  for (std::uint64_t seed : {1, 2, 3})
    for (const Case& c : {Case{"quadratic", {.seed = seed}}, Case{"log-cosh", {.seed = seed}},
                          Case{"ridge", {.penalty = "per-feature", .seed = seed}},
                          Case{"ridge", {.penalty = "global", .seed = seed}},
                          Case{"logistic", {.penalty = "per-feature", .seed = seed}},
                          Case{"logistic", {.penalty = "global", .seed = seed}}}) {
      SCOPED_TRACE(::testing::Message() << c.family << " " << c.settings.penalty << ", seed " << seed);
      const auto problem = problems::make(c.family, c.settings);
      const Vec theta = moved_theta(*problem, seed), expected = truth(*problem, theta);
      const auto e = propagate<Vec>(*problem, theta, {});
      EXPECT_EQ(e.status, Status::converged) << e.message;
      const double error = (e.gradient - expected).norm();
      std::cout << c.family << " " << c.settings.penalty << ": relative error " << error / expected.norm()
                << ", bound " << e.certificate.bound / expected.norm() << " (" << name(e.certificate.kind)
                << ")\n";
      EXPECT_LE(error, 1e-10 * expected.norm()) << e.message;
      EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
      EXPECT_LE(error, e.certificate.bound + 1e-14 * expected.norm());
      EXPECT_GT(e.cost.dense_hessians, 0);
      EXPECT_GT(e.cost.factorizations, 0);
      EXPECT_NEAR(e.outer_value, problem->outer(e.phi, theta, {}), 1e-14);
    }
}

TEST(HolomorphicPropagation, HalfThePointsAreConjugatesOfTheOtherHalf) {
  const auto problem = with_poles(Vec::LinSpaced(5, 0.2, 2), 7);
  const Vec theta = moved_theta(problem, 7);
  const Mat& h = problem.hessian();
  // b and y are not accessible: they follow from two derivatives.
  Vec residual(5), outer(5);
  problems::Quadratic copy = problem;
  copy.inner(Vec::Zero(5), Vec::Zero(2), {.phi = &residual});
  copy.outer(Vec::Zero(5), Vec::Zero(2), {.phi = &outer});
  const Vec b = -residual, y = -problem.outer_hessian().ldlt().solve(outer);
  ASSERT_EQ(h.rows(), 5);
  for (const int points : {2, 4, 8, 10}) {
    const double beta = 0.3;
    const Vec all = unchecked(problem, y, theta, b, points, beta);
    const Vec upper = unchecked(problem, y, theta, b, points, beta, 0, points / 2);
    const auto e = propagate<Vec>(copy, theta, {.points = points, .beta = beta});
    EXPECT_LE((all - upper).norm(), 1e-14 * all.norm());
    EXPECT_LE((e.gradient - all).norm(), 1e-13 * all.norm()) << e.message;
    // And the closed form of the estimate, with the sign of the first alias: Σ_j (−1)^j f_{1+jN} β^{jN}.
    const Vec g0 = problem.outer_hessian() * (*problem.settled(theta) - y);
    Vec series = Vec::Zero(2);
    Vec term = g0;
    for (int m = 0; m <= 40 * points; ++m) {
      if (m % points == 0)
        series += (m / points % 2 ? -1.0 : 1.0) * std::pow(beta, m) * (problem.coupling().transpose() * term);
      term = Vec(-problem.outer_hessian() * term);
    }
    EXPECT_LE((e.gradient - series).norm(), 1e-12 * series.norm()) << points;
  }
}

TEST(HolomorphicPropagation, BeyondThePoleTheComplexPhasesSettleAndTheResultIsRefused) {
  // Generalised eigenvalues up to 2: the pole is at −½.
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    problems::Quadratic problem = with_poles(Vec::LinSpaced(5, 0.2, 2), seed);
    const Vec theta = moved_theta(problem, seed), expected = *problem.outer_gradient(theta);
    Vec residual(5), outer(5);
    problem.inner(Vec::Zero(5), Vec::Zero(2), {.phi = &residual});
    problem.outer(Vec::Zero(5), Vec::Zero(2), {.phi = &outer});
    const Vec b = -residual, y = -problem.outer_hessian().ldlt().solve(outer);
    for (const int points : {2, 8})
      for (const double beta : {0.55, 0.8, 2.0}) {
        const double error =
            (unchecked(problem, y, theta, b, points, beta) - expected).norm() / expected.norm();
        std::cout << "seed " << seed << ", N = " << points << ", beta = " << beta
                  << " beyond the pole at 0.5: unchecked error " << error << '\n';
        EXPECT_GT(error, 0.02);
        for (const bool knows : {true, false}) {
          Passing passing(problem);
          passing.knows = knows;
          const auto e = propagate<Vec>(passing, theta, {.points = points, .beta = beta});
          EXPECT_EQ(e.status, Status::negative_curvature) << e.message;
          EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
          EXPECT_EQ(e.certificate.kind, Kind::none);
          EXPECT_TRUE(e.gradient.array().isNaN().all());
          EXPECT_NE(e.message.find("0.5"), std::string::npos) << e.message;
        }
      }
    // Just within it, it serves.
    const auto e = propagate<Vec>(problem, theta, {.points = 64, .beta = 0.3});
    EXPECT_LE((e.gradient - expected).norm(), 1e-10 * expected.norm()) << e.message;
  }
}

TEST(HolomorphicPropagation, ACircleThatReachesAPoleOfTheLossIsNoticed) {
  // One variable far from its target: the displacement b·g/H leaves the strip |Im φ| < π/2 long before |b|
  // reaches μ/L_out for a loss that pulls with a large slope. y = 40 makes ∂φ L_out = −1 exactly.
  const Mat one = Mat::Identity(1, 1);
  problems::LogCosh problem(0.1 * one, one, Vec::Constant(1, 40), 0 * one, 1);
  Passing passing(problem);
  passing.knows = false;
  for (const double beta : {0.05, 5.0, 20.0, 1e3}) {
    SCOPED_TRACE(::testing::Message() << "beta " << beta);
    const auto e = propagate<Vec>(passing, Vec::Ones(1), {.points = 8, .beta = beta});
    if (beta < 0.1) {
      EXPECT_EQ(e.status, Status::converged) << e.message;
    } else {
      EXPECT_NE(e.status, Status::converged) << e.message;
      EXPECT_TRUE(e.gradient.array().isNaN().all()) << e.message;
      EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
    }
  }
  // Left to choose, it finds a circle that fits.
  const auto e = propagate<Vec>(passing, Vec::Ones(1), {});
  EXPECT_EQ(e.status, Status::converged) << e.message;
  EXPECT_LE((e.gradient - truth(problem, Vec::Ones(1))).norm(), 1e-8 * e.gradient.norm()) << e.message;
}

TEST(HolomorphicPropagation, NoiseOfThePhasesIsNotAmplifiedByMorePoints) {
  const auto problem = problems::make("quadratic", {.phi = 6, .theta = 3, .condition = 4, .seed = 2});
  const Vec theta = moved_theta(*problem, 2), expected = truth(*problem, theta);
  const double amplitude = 1e-5, beta = 0.02;
  std::vector<double> gains;
  for (const int points : {4, 8, 16, 32, 64}) {
    std::mt19937_64 engine(11);
    std::normal_distribution<double> normal;
    double square = 0;
    const int draws = 200;
    for (int draw = 0; draw < draws; ++draw) {
      // The same noise at the same point for as long as its phase runs, as a component's tolerance would be.
      Passing noisy(*problem);
      Complex last = -1;
      ComplexVec noise(6);
      noisy.disturb = [&](Complex b, ComplexVec& out) {
        if (b != last) {
          noise = ComplexVec::NullaryExpr(6, [&] { return Complex(normal(engine), normal(engine)); });
          last = b;
        }
        if (b != 0.0) out += amplitude * noise;
      };
      const auto e = propagate<Vec>(noisy, theta, {.points = points, .beta = beta});
      square += (e.gradient - expected).squaredNorm() / draws;
    }
    gains.push_back(std::sqrt(square) * beta / amplitude);
    std::cout << "N = " << points << ": rms error / (noise/beta) = " << gains.back() << '\n';
  }
  for (std::size_t i = 1; i < gains.size(); ++i) {
    EXPECT_LE(gains[i], gains[i - 1] * 1.1);
    // Independent noise averages out: a gain that falls like 1/√N.
    EXPECT_NEAR(gains[i - 1] / gains[i], std::numbers::sqrt2, 0.2);
  }
}

TEST(HolomorphicPropagation, GradientStepsAgreeWithNewton) {
  for (const std::string family : {"quadratic", "log-cosh", "ridge", "logistic"}) {
    SCOPED_TRACE(family);
    problems::Settings settings{.seed = 4};
    if (family == "quadratic" || family == "log-cosh") settings.condition = 10;
    const auto problem = problems::make(family, settings);
    const Vec theta = moved_theta(*problem, 4), expected = truth(*problem, theta);
    // With constants, and with nothing but curvature to measure.
    for (const bool knows : {true, false}) {
      Passing passing(*problem);
      passing.knows = knows;
      passing.hessian = false;
      const auto e = propagate<Vec>(passing, theta, {});
      EXPECT_EQ(e.status, Status::converged) << e.message;
      EXPECT_NE(e.message.find("by gradient"), std::string::npos) << e.message;
      EXPECT_LE((e.gradient - expected).norm(), 1e-9 * expected.norm()) << e.message;
    }
    const auto forced = propagate<Vec>(*problem, theta, {.method = ComplexMethod::gradient});
    EXPECT_NE(forced.message.find("by gradient"), std::string::npos) << forced.message;
    EXPECT_LE((forced.gradient - expected).norm(), 1e-9 * expected.norm());
  }
}

template <class V>
class HolomorphicOnOtherVectors : public ::testing::Test {};
using OtherTypes = ::testing::Types<BlockVector, Eigen::VectorXf>;
TYPED_TEST_SUITE(HolomorphicOnOtherVectors, OtherTypes);

TYPED_TEST(HolomorphicOnOtherVectors, TheGradientIsTheSame) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  for (const std::string family : {"quadratic", "log-cosh"}) {
    SCOPED_TRACE(family);
    const auto original = problems::make(family, {.condition = 10, .seed = 5});
    const Vec theta = original->initial_theta(), expected = truth(*original, theta);
    Translated<V> problem(*original);
    MinimiserOptions options;
    options.gradient_tolerance = single ? 2e-5 : 1e-10;
    const auto inner = make_inner_solver<V>("newton", problem, options);
    HolomorphicPropagation<V> estimator(problem, *inner);
    const auto e = estimator.estimate(problem.initial_theta(), {});
    EXPECT_LE((Translated<V>::host(e.gradient) - expected).norm(), (single ? 1e-6 : 1e-10) * expected.norm())
        << e.message;
    EXPECT_EQ(e.certificate.kind, Kind::estimated);
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.bound << e.certificate.reason;
    // Deterministic to the last bit.
    const auto again = estimator.estimate(problem.initial_theta(), {});
    EXPECT_EQ(Translated<V>::host(e.gradient), Translated<V>::host(again.gradient));
  }
}

}  // namespace holomorphic_propagation_test
}  // namespace bilevel
