// Learned sample weights against evaluations in long double, differences of the whole solve, and the truth of
// their certificates.

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/outcome/violations.hpp>
#include <bilevel/problem/check.hpp>
#include <bilevel/problems/sample_weights.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>


#include "linear_model_checks.hpp"

namespace bilevel::problems {
namespace sample_weights_test {

using checks::gaussian;
using checks::LongMat;
using checks::LongVec;
using checks::Mat;
using checks::Vec;
using Real = long double;

struct Settings {
  Index rows = 40, trusted = 15, features = 4, classes = 3;
  bool sparse = false;
  double lambda = 0.05, size = 1;
  std::uint64_t seed = 1;
};

/// Random data with some wrong labels, and everything about them in long double: Newton's method on all
/// coefficients, with an explicit Hessian and an explicit χ.
class Data {
 public:
  explicit Data(const Settings& settings) : s(settings), engine(settings.seed) {
    const Index all = s.rows + s.trusted;
    ModelMatrix::RowMajor x(all, s.features);
    for (Index i = 0; i < all; ++i) x.row(i) = s.size * gaussian(s.features, engine).transpose();
    if (s.sparse)
      for (Index i = 0; i < all; ++i)
        for (Index j = 0; j < s.features; ++j)
          if (engine() % 2) x(i, j) = 0;
    auto labels = std::make_shared<std::vector<int>>();
    const Mat direction = Mat::NullaryExpr(s.features, s.classes, [&] { return gaussian(1, engine)[0]; });
    for (Index i = 0; i < all; ++i) {
      Index best = 0;
      (x.row(i) * direction).maxCoeff(&best);
      const bool wrong = i < s.rows && engine() % 3 == 0;
      labels->push_back(static_cast<int>(wrong ? engine() % static_cast<std::uint64_t>(s.classes) : best));
    }
    samples.classes = labels;
    if (s.sparse)
      samples.matrix = std::make_shared<ModelMatrix>(ModelMatrix::Sparse(x.sparseView()));
    else
      samples.matrix = std::make_shared<ModelMatrix>(x);
    x_ = LongMat::Ones(all, s.features + 1);
    x_.leftCols(s.features) = x.cast<Real>();
  }

  SampleWeights problem() const {
    return {samples, s.classes, {0, s.rows}, {s.rows, s.rows + s.trusted}, s.lambda};
  }

  LongVec probabilities(Index i, const LongVec& phi) const {
    LongVec m = LongVec::Zero(s.classes);
    for (Index j = 0; j <= s.features; ++j) m += x_(i, j) * phi.segment(j * s.classes, s.classes);
    const LongVec e = (m.array() - m.maxCoeff()).exp();
    return e / e.sum();
  }
  LongVec slope(Index i, const LongVec& phi) const {
    LongVec p = probabilities(i, phi);
    p[(*samples.classes)[static_cast<std::size_t>(i)]] -= 1;
    return p;
  }
  LongVec row_gradient(Index i, const LongVec& phi) const {
    const LongVec p = slope(i, phi);
    LongVec g(phi.size());
    for (Index j = 0; j <= s.features; ++j) g.segment(j * s.classes, s.classes) = x_(i, j) * p;
    return g;
  }
  Real loss(Index i, const LongVec& phi) const {
    return -std::log(probabilities(i, phi)[(*samples.classes)[static_cast<std::size_t>(i)]]);
  }
  static Real sigma(Real t) { return 1 / (1 + std::exp(-t)); }

  LongVec residual(const LongVec& phi, const Vec& theta) const {
    LongVec g = static_cast<Real>(s.lambda) * phi;
    for (Index i = 0; i < s.rows; ++i)
      g += sigma(theta[i]) / static_cast<Real>(s.rows) * row_gradient(i, phi);
    return g;
  }
  LongMat hessian(const LongVec& phi, const Vec& theta) const {
    LongMat h = static_cast<Real>(s.lambda) * LongMat::Identity(phi.size(), phi.size());
    for (Index i = 0; i < s.rows; ++i) {
      const LongVec p = probabilities(i, phi);
      LongMat curvature = -p * p.transpose();
      curvature.diagonal() += p;
      for (Index j = 0; j <= s.features; ++j)
        for (Index k = 0; k <= s.features; ++k)
          h.block(j * s.classes, k * s.classes, s.classes, s.classes) +=
              sigma(theta[i]) / static_cast<Real>(s.rows) * x_(i, j) * x_(i, k) * curvature;
    }
    return h;
  }
  LongMat cross(const LongVec& phi, const Vec& theta) const {
    LongMat chi(phi.size(), s.rows);
    for (Index i = 0; i < s.rows; ++i) {
      const Real w = sigma(theta[i]);
      chi.col(i) = w * (1 - w) / static_cast<Real>(s.rows) * row_gradient(i, phi);
    }
    return chi;
  }
  Real outer(const LongVec& phi) const {
    Real sum = 0;
    for (Index i = s.rows; i < s.rows + s.trusted; ++i) sum += loss(i, phi);
    return sum / static_cast<Real>(s.trusted);
  }
  LongVec settle(const Vec& theta) const {
    LongVec phi = LongVec::Zero((s.features + 1) * s.classes);
    // Damped at first: far from the minimum a whole step may overshoot.
    for (int k = 0; k < 200; ++k) {
      const LongVec r = residual(phi, theta), step = hessian(phi, theta).ldlt().solve(r);
      const Real length = step.norm();
      phi -= std::min<Real>(1, 1 / length) * step;
      if (length < 1e-17L * (1 + phi.norm())) break;
    }
    return phi;
  }
  LongVec gradient(const LongVec& phi, const Vec& theta) const {
    LongVec g = LongVec::Zero(phi.size());
    for (Index i = s.rows; i < s.rows + s.trusted; ++i)
      g += row_gradient(i, phi) / static_cast<Real>(s.trusted);
    return -cross(phi, theta).transpose() * hessian(phi, theta).ldlt().solve(g);
  }

  Settings s;
  std::mt19937_64 engine;
  Samples samples;

 private:
  LongMat x_;
};

Settings drawn(std::uint64_t seed) {
  return {.rows = 12 + static_cast<Index>(seed % 5) * 9,
          .trusted = 6 + static_cast<Index>(seed % 3) * 5,
          .features = 2 + static_cast<Index>(seed % 4),
          .classes = 2 + static_cast<Index>(seed / 2 % 3),
          .sparse = seed % 2 == 1,
          .lambda = std::pow(10.0, -0.5 - static_cast<double>(seed % 4)),
          .size = seed % 3 == 0 ? 3.0 : 0.7,
          .seed = seed};
}

Estimate<Vec> estimate(SampleWeights& problem, const Vec& theta, double tolerance, bool spectrum = true) {
  const auto inner = make_inner_solver<Vec>("trust-region", problem);
  EstimatorOptions options;
  if (!spectrum) options.certificate.dense_limit = options.certificate.factor_limit = 0;
  const auto estimator = make_estimator<Vec>("implicit-cg", problem, *inner, options);
  estimator->set_tolerances(tolerance, tolerance);
  return estimator->estimate(theta, {});
}

TEST(SampleWeights, DerivativesAndConstants) {
  for (std::uint64_t seed = 1; seed <= 48; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Data data(drawn(seed));
    SampleWeights problem = data.problem();
    const Vec theta = gaussian(data.s.rows, data.engine, 2),
              phi = gaussian(problem.initial_phi().size(), data.engine, 0.5);
    const CheckReport report =
        check_derivatives<Vec>(problem, phi, theta, {.seed = seed, .radius = seed % 5 == 0 ? 0.05 : 1});
    EXPECT_TRUE(report.passed()) << report.table();
    for (const char* name :
         {"inner-theta", "cross-difference", "cross-norm", "diagonal", "constants", "nudged"})
      EXPECT_NE(report.find(name), nullptr) << name;
    EXPECT_EQ(report.find("dense") != nullptr, !data.s.sparse);
  }
}

TEST(SampleWeights, GradientEqualsTheReferenceAndDifferencesOfTheWholeSolve) {
  for (std::uint64_t seed = 1; seed <= 36; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Data data(drawn(seed));
    SampleWeights problem = data.problem();
    const Vec theta = gaussian(data.s.rows, data.engine, 1.5);
    const Estimate<Vec> e = estimate(problem, theta, 1e-13);
    const LongVec phi = data.settle(theta), exact = data.gradient(phi, theta);
    EXPECT_LE((e.phi.cast<Real>() - phi).norm(), 1e-9L * phi.norm());
    EXPECT_LE((e.gradient.cast<Real>() - exact).norm(), 1e-8L * exact.norm());
    EXPECT_NEAR(e.outer_value, static_cast<double>(data.outer(phi)), 1e-10);

    const auto solver = make_inner_solver<Vec>("newton", problem);
    solver->set_tolerance(1e-14);
    const auto value = [&](Index k, double shift) {
      Vec moved = theta;
      moved[k] += shift;
      return problem.outer(solver->solve(moved, 0, e.phi).phi, moved, {});
    };
    Vec difference(theta.size());
    for (Index k = 0; k < theta.size(); ++k) {
      const double h = 2e-2;
      difference[k] = (8 * (value(k, h) - value(k, -h)) - (value(k, 2 * h) - value(k, -2 * h))) / (12 * h);
    }
    EXPECT_LE((difference - e.gradient).norm(), 1e-6 * e.gradient.norm());
  }
}

TEST(SampleWeights, CertificatesHold) {
  double tightest = 1e300;
  int trusted = 0, cases = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed)
    for (const double tolerance : {1e-1, 1e-3, 1e-6, 1e-12}) {
      SCOPED_TRACE(fmt::format("seed {} tolerance {}", seed, tolerance));
      Data data(drawn(seed));
      SampleWeights problem = data.problem();
      const Vec theta = gaussian(data.s.rows, data.engine, seed % 4 == 0 ? 6 : 1.5);
      const Estimate<Vec> e = estimate(problem, theta, tolerance, seed % 2 == 0);
      const LongVec phi = data.settle(theta);
      const auto error = static_cast<double>((e.gradient.cast<Real>() - data.gradient(phi, theta)).norm());
      EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
      EXPECT_LE(error, e.certificate.bound);
      EXPECT_LE(static_cast<double>((e.phi.cast<Real>() - phi).norm()), e.certificate.delta);
      if (error > 1e-12) tightest = std::min(tightest, e.certificate.bound / error);
      if (tolerance == 1e-12) {
        ++cases;
        trusted += e.certificate.bound <= 0.1 * e.gradient.norm();
      }
    }
  EXPECT_EQ(trusted, cases) << "solved to 1e-12 every gradient can be trusted";
  RecordProperty("least_bound_over_error", fmt::format("{:.3g}", tightest));
}

/// ‖H^(−1/2)χ‖ at points of the ball, from dense matrices.
TEST(SampleWeights, CrossEnergyIsABoundAndBeatsTheSimpleOne) {
  int better = 0, cases = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    for (const double radius : {0.0, 1e-3, 0.1, 1.0}) {
      SCOPED_TRACE(fmt::format("seed {} radius {}", seed, radius));
      // With two rows and next to no penalty the bound by the rows' own curvature is all there is.
      Settings s = drawn(seed);
      if (seed % 3 == 0) {
        s.rows = 2;
        s.lambda = 1e-9;
      }
      Data data(s);
      SampleWeights problem = data.problem();
      const Vec theta = gaussian(data.s.rows, data.engine, 2);
      const Vec center = s.rows == 2 ? gaussian(problem.initial_phi().size(), data.engine)
                                     : data.settle(theta).cast<double>();
      const double claimed = problem.constants(theta, center, radius).cross_energy;
      for (int k = 0; k < 4; ++k) {
        // At random, and where the label of the least believed row is believed even less.
        Vec at = gaussian(center.size(), data.engine);
        if (k == 3) {
          const LongVec middle = center.cast<Real>();
          Index worst = 0;
          for (Index i = 0; i < data.s.rows; ++i)
            if (data.loss(i, middle) > data.loss(worst, middle)) worst = i;
          at = data.row_gradient(worst, middle).cast<double>();
        }
        at = center + (k == 0 ? 0.0 : radius) / at.norm() * at;
        const LongVec here = at.cast<Real>();
        const LongMat chi = data.cross(here, theta);
        const Mat energy = (chi.transpose() * data.hessian(here, theta).ldlt().solve(chi)).cast<double>();
        const double largest = Eigen::SelfAdjointEigenSolver<Mat>(energy).eigenvalues().maxCoeff();
        EXPECT_LE(std::sqrt(largest), claimed);
      }
      ++cases;
      better += claimed < 0.9 * problem.constants(theta, center, everywhere).cross_energy;
    }
  EXPECT_GE(better, cases / 2);
}

/// ∂φ²L_in(φ′) ⪰ exp(−R‖φ′ − φ‖)·∂φ²L_in(φ), and the same of L_out from above, along the slopes of single
/// rows, where curvature changes fastest.
TEST(SampleWeights, CurvatureDecaysNoFasterThanClaimed) {
  double nearest = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    for (const double distance : {0.05, 0.5, 2.0}) {
      SCOPED_TRACE(fmt::format("seed {} distance {}", seed, distance));
      Settings s = drawn(seed);
      s.lambda = 1e-6;
      s.rows = 3;
      s.trusted = 3;
      Data data(s);
      SampleWeights problem = data.problem();
      const Vec theta = Vec::Zero(s.rows);
      const LongVec phi = gaussian(problem.initial_phi().size(), data.engine, 0.3).cast<Real>();
      const Constants c = problem.constants(theta, phi.cast<double>(), distance);
      for (Index i = 0; i < s.rows; ++i)
        for (const double sign : {-1.0, 1.0}) {
          const LongVec direction = data.row_gradient(i, phi);
          const LongVec moved = phi + static_cast<Real>(sign * distance) / direction.norm() * direction;
          const Mat here = data.hessian(phi, theta).cast<double>(),
                    there = data.hessian(moved, theta).cast<double>();
          const Eigen::GeneralizedSelfAdjointEigenSolver<Mat> relative(there, here, Eigen::EigenvaluesOnly);
          const double least = relative.eigenvalues().minCoeff();
          EXPECT_GE(least, std::exp(-c.curvature_decay * distance) * (1 - 1e-6));
          nearest = std::max(nearest, -std::log(least) / (c.curvature_decay * distance));
        }
    }
  EXPECT_GE(nearest, 0.3) << "the claim could be sharper, or these points are harmless";
}

/// Oracles in double against the same in long double, at the same φ, θ and π.
TEST(SampleWeights, RoundingErrorsAreWithinTheirBounds) {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Data data(drawn(seed));
    SampleWeights problem = data.problem();
    const Index size = problem.initial_phi().size();
    const Vec theta = gaussian(data.s.rows, data.engine, 2),
              phi = gaussian(size, data.engine, seed % 4 + 0.1), pi = gaussian(size, data.engine, 3);
    const LongVec here = phi.cast<Real>(), along = pi.cast<Real>();
    const Rounding r = problem.rounding(phi, theta, pi);
    Vec residual(size), outer(size), product(size), gradient(theta.size());
    problem.inner(phi, theta, {.phi = &residual});
    problem.outer(phi, theta, {.phi = &outer});
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    curvature->times(pi, product);
    curvature->cross_times(pi, gradient);

    LongVec g = LongVec::Zero(size);
    for (Index i = data.s.rows; i < data.s.rows + data.s.trusted; ++i)
      g += data.row_gradient(i, here) / static_cast<Real>(data.s.trusted);
    const LongVec adjoint = (outer - product).cast<Real>();
    const auto check = [](const LongVec& error, double bound, double size_of) {
      EXPECT_LE(static_cast<double>(error.norm()), bound);
      EXPECT_LE(bound, 1e-10 * size_of) << "of no use";
    };
    check(residual.cast<Real>() - data.residual(here, theta), r.residual, 1 + phi.norm());
    check(adjoint - (g - data.hessian(here, theta) * along), r.adjoint, 1 + pi.norm() * (1 + phi.norm()));
    check(gradient.cast<Real>() - data.cross(here, theta).transpose() * along, r.gradient,
          1 + pi.norm() * (1 + phi.norm()));
  }
}

TEST(SampleWeights, ExtremeWeightsAndHopelessLabelsStayFinite) {
  Data data({.rows = 20, .trusted = 8, .size = 20, .seed = 3});
  SampleWeights problem = data.problem();
  Vec theta = Vec::Constant(20, 800.0);
  theta.tail(10).setConstant(-800.0);
  const Vec phi = Vec::Constant(problem.initial_phi().size(), 50)
                      .cwiseProduct(gaussian(problem.initial_phi().size(), data.engine));
  Vec by_phi(phi.size()), by_theta(20);
  EXPECT_TRUE(std::isfinite(problem.inner(phi, theta, {.phi = &by_phi, .theta = &by_theta})));
  EXPECT_TRUE(by_phi.allFinite());
  EXPECT_EQ(by_theta, Vec::Zero(20)) << "σ′(±800) is zero in this arithmetic";
  const Constants c = problem.constants(theta, phi, 1e-3);
  EXPECT_TRUE(std::isfinite(c.cross_energy + c.smoothness + c.hessian_lipschitz));
}

TEST(SampleWeights, RefusesWhatDoesNotFit) {
  Data data({});
  const auto refused = [&](const Samples& samples, Index classes, RowRange training, RowRange trusted,
                           double lambda, const std::string& word) {
    try {
      SampleWeights(samples, classes, training, trusted, lambda);
      ADD_FAILURE() << "accepted: " << word;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused({}, 3, {0, 40}, {40, 55}, 0.1, "no matrix");
  refused(data.samples, 1, {0, 40}, {40, 55}, 0.1, "classes");
  refused(data.samples, 2, {0, 40}, {40, 55}, 0.1, "has class 2 of 2");
  refused(data.samples, 3, {0, 0}, {40, 55}, 0.1, "rows 0 to 0");
  refused(data.samples, 3, {0, 40}, {40, 56}, 0.1, "rows 40 to 56");
  refused(data.samples, 3, {0, 40}, {40, 55}, 0, "λ = 0");
  Samples weighted = data.samples;
  weighted.weights = std::make_shared<const Vec>(Vec::Ones(55));
  refused(weighted, 3, {0, 40}, {40, 55}, 0.1, "weights");
  Samples unlabelled = data.samples;
  unlabelled.classes = nullptr;
  refused(unlabelled, 3, {0, 40}, {40, 55}, 0.1, "class for every row");
}

}  // namespace sample_weights_test
}  // namespace bilevel::problems
