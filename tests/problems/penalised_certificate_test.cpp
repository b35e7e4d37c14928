// What the certificates of penalised models rest on, and whether their bounds hold: against gradients in long
// double, wherever the inner solver stops.

#include "penalised_cases.hpp"

#include <map>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <Eigen/Eigenvalues>

namespace bilevel::problems {
namespace penalised_certificate_test {

using namespace cases;
using cases::Family;
using cases::Settings;

TEST(PenalisedCertificate, LeastEigenvalueIsALowerBound) {
  double closest = 0;
  for (std::uint64_t seed = 1; seed <= 800; ++seed) {
    Settings s{.family = family_of(seed),
               .sparse = seed / 8 % 2 == 1,
               .weights = seed / 12 % 2 == 1,
               .intercept = seed / 24 % 4 != 0,
               .standardise = seed % 7 != 0,
               .rows = 24,
               .features = 3,
               .far = seed % 3 == 0 ? 3.0 : 0.0,
               .seed = seed};
    SCOPED_TRACE(s.text());
    Data data(s);
    const auto model = data.model();
    const Vec theta = gaussian(data.map.count, data.engine, 3);
    model->adopt_units(seed % 2 ? theta : Vec(gaussian(data.map.count, data.engine, 2)));
    const Index n = model->initial_phi().size();
    std::unique_ptr<Curvature<Vec>> curvature;
    model->linearise(gaussian(n, data.engine, seed % 5 == 0 ? 3.0 : 0.5), theta, 0, curvature);
    const double claimed = curvature->least_eigenvalue();
    Mat dense(n, n);
    for (Index k = 0; k < n; ++k) {
      Vec column(n);
      curvature->times(Vec::Unit(n, k), column);
      dense.col(k) = column;
    }
    const Vec eigenvalues = dense.selfadjointView<Eigen::Lower>().eigenvalues();
    EXPECT_LE(claimed, eigenvalues[0] + 1e-13 * eigenvalues[n - 1]);
    EXPECT_GE(claimed, 0);
    const Constants c = model->constants(theta, Vec(Vec::Zero(n)), everywhere);
    if (!s.intercept) {
      EXPECT_LE(c.mu, eigenvalues[0] * (1 + 1e-12) + 1e-14 * eigenvalues[n - 1]);
    } else {
      EXPECT_FALSE(c.mu > 0) << "a free intercept has no strong convexity everywhere";
    }
    closest = std::max(closest, claimed / eigenvalues[0]);
  }
  EXPECT_GT(closest, 0.5) << "a bound that is never approached says nothing";
  RecordProperty("closest", std::to_string(closest));
}

TEST(PenalisedCertificate, RoundingBoundsAreNeverViolated) {
  std::map<std::string, double> closest;
  for (std::uint64_t seed = 1; seed <= 560; ++seed) {
    Settings s{.family = static_cast<Family>(seed % 7),  // one output, so that φ has the reference's layout
               .sparse = seed / 8 % 2 == 1,
               .weights = seed / 12 % 2 == 1,
               .offsets = seed / 2 % 4 == 1,
               .folds = seed / 3 % 2 == 1,
               .rows = 6 + static_cast<Index>(seed * 7 % (seed % 10 == 0 ? 3000 : 300)),
               .features = 3,
               .far = seed % 3 == 0 ? 50.0 : 0.0,
               .seed = seed};
    SCOPED_TRACE(s.text());
    Data data(s);
    // Data without noise: slopes vanish where it has settled, and rounding is all there is.
    const bool clean = s.family == Family::squared && seed / 7 % 2 == 0;
    if (clean) data.y = data.x * gaussian(3, data.engine);
    const Reference reference(data);
    const auto model = data.model();
    const Vec theta = gaussian(data.map.count, data.engine, 2).array() - (clean ? 40 : 3);
    model->adopt_units(theta);
    // At random, and where it has settled, so that the residual is nothing but rounding.
    Vec phi = gaussian(4, data.engine, std::pow(10.0, static_cast<double>(seed % 4) - 3));
    if (clean || seed % 2) phi = reference.settle(theta).cast<double>();
    const Vec psi = phi.cwiseQuotient(model->units());
    const LongVec exact_phi = psi.cast<Real>().cwiseProduct(model->units().cast<Real>());
    const LongVec units = model->units().cast<Real>();
    const Vec pi = gaussian(4, data.engine, std::pow(10.0, static_cast<double>(seed % 5) - 2));
    const Rounding bound = model->rounding(psi, theta, pi);
    LongVec truth, outer_truth;
    LongMat hessian;
    reference.inner(exact_phi, theta, &truth, &hessian);
    reference.loss(data.validation, exact_phi, &outer_truth, nullptr);
    const LongMat in_units = units.asDiagonal() * hessian * units.asDiagonal();
    const auto look = [&](const char* what, double error, double claimed) {
      EXPECT_LE(error, claimed) << what;
      double& most = closest[what];
      most = std::max(most, error / claimed);
    };
    Vec residual(4), outer(4), product(4), cross(data.map.count);
    model->residual(psi, theta, residual);
    look("residual", apart(residual, truth.cwiseProduct(units)), bound.residual);
    model->outer(psi, theta, {.phi = &outer});
    const LongVec adjoint = outer_truth.cwiseProduct(units) - in_units * pi.cast<Real>();
    std::unique_ptr<Curvature<Vec>> curvature;
    model->linearise(psi, theta, 0, curvature);
    curvature->times(pi, product);
    look("adjoint", apart(outer - product, adjoint), bound.adjoint);
    Mat dense;
    ASSERT_TRUE(curvature->dense(dense));
    look("curvature", static_cast<double>((dense.cast<Real>() - in_units).norm()) / 2, bound.curvature);
    curvature->cross_times(pi, cross);
    const LongVec each =
        reference.penalties(theta).cwiseProduct(exact_phi).cwiseProduct(units).cwiseProduct(pi.cast<Real>());
    LongVec expected = LongVec::Zero(data.map.count);
    for (Index k = 0; k < 3; ++k) expected[data.map.of[static_cast<std::size_t>(k)]] += each[k];
    look("gradient", apart(cross, expected), bound.gradient);
  }
  for (const auto& [what, most] : closest) {
    EXPECT_GT(most, 1e-4) << what << ": a bound that is never approached says nothing";
    RecordProperty(what, fmt::format("{:.2g}", most));
  }
}

/// H(φ′) against exp(∓R‖φ′ − φ‖)·H(φ), and H^(−1/2)χ, at random points of a ball.
TEST(PenalisedCertificate, DecayAndEnergyHoldOnTheBall) {
  double closest_decay = 0, closest_energy = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Family family = family_of(seed);
    Settings s{.family = family,
               .map = family == Family::softmax && seed / 8 % 2 ? Map::per_class
                      : seed % 4 == 3                           ? Map::per_group
                                                                : Map::per_feature,
               .weights = seed / 12 % 2 == 1,
               .intercept = seed / 24 % 3 != 0,
               .rows = 15,
               .features = 3,
               .seed = seed};
    SCOPED_TRACE(s.text());
    Data data(s);
    const auto model = data.model();
    const Vec theta = gaussian(data.map.thetas(), data.engine, 2);
    model->adopt_units(seed % 2 ? theta : Vec(gaussian(data.map.thetas(), data.engine)));
    const Index n = model->initial_phi().size();
    const Vec center = gaussian(n, data.engine, 0.5);
    const double radius = std::pow(10.0, -static_cast<double>(seed % 4));
    const Constants c = model->constants(theta, center, radius);
    const auto hessian = [&](const Vec& at, double beta) {
      std::unique_ptr<Curvature<Vec>> curvature;
      model->linearise(at, theta, beta, curvature);
      Mat out(n, n);
      Vec column(n);
      for (Index k = 0; k < n; ++k) {
        curvature->times(Vec::Unit(n, k), column);
        out.col(k) = column;
      }
      return out;
    };
    const auto least = [](const Mat& m) -> double {
      return m.selfadjointView<Eigen::Lower>().eigenvalues()[0];
    };
    const Mat here = hessian(center, 0), outer_here = hessian(center, 1) - here;
    const double size = here.norm() + outer_here.norm();
    for (int draw = 0; draw < 8; ++draw) {
      Vec step = gaussian(n, data.engine);
      step *= radius * (draw % 2 ? 1 : 0.5) * (1 - 1e-12) / step.norm();
      const Mat there = hessian(center + step, 0), outer_there = hessian(center + step, 1) - there;
      if (!std::isnan(c.curvature_decay)) {
        const double kept = std::exp(-c.curvature_decay * step.norm());
        EXPECT_GE(least(there - kept * here), -1e-12 * size);
        closest_decay = std::max(closest_decay, -least(there - here) / ((1 - kept) * here.norm() + 1e-9));
      }
      if (!std::isnan(c.outer_decay)) {
        const double grown = std::exp(c.outer_decay * step.norm());  // with the rounding errors of outer_here
        EXPECT_GE(least(grown * outer_here - outer_there), -(1e-12 + 1e-15 * grown) * size);
      }
      std::unique_ptr<Curvature<Vec>> curvature;
      model->linearise(center + step, theta, 0, curvature);
      Mat cross(n, theta.size());
      Vec column(n);
      for (Index k = 0; k < theta.size(); ++k) {
        curvature->cross_apply(Vec::Unit(theta.size(), k), column);
        cross.col(k) = column;
      }
      const Mat energy = cross.transpose() * there.ldlt().solve(cross);
      const double met = std::sqrt(energy.selfadjointView<Eigen::Lower>().eigenvalues()[theta.size() - 1]);
      // A matrix that is nearly singular (Huber without a curved sample) says nothing in this arithmetic.
      if (least(there) < 1e-9 * size) continue;
      EXPECT_LE(met, c.cross_energy * (1 + 1e-9));
      closest_energy = std::max(closest_energy, met / c.cross_energy);
    }
  }
  EXPECT_GT(closest_decay, 0.01);
  EXPECT_GT(closest_energy, 0.3);
  RecordProperty("decay", fmt::format("{:.2g}", closest_decay));
  RecordProperty("energy", fmt::format("{:.2g}", closest_energy));
}

TEST(PenalisedCertificate, RigorousBoundsHoldHoweverEarlyTheInnerSolverStops) {
  int rigorous[8] = {}, all[8] = {};
  double closest = 0;
  for (std::uint64_t seed = 1; seed <= 1600; ++seed) {
    const Family family = family_of(seed);
    Settings s{.family = family,
               .map = family == Family::softmax && seed / 12 % 2 ? Map::per_class
                      : seed % 5 == 3                            ? Map::global
                      : seed % 5 == 1                            ? Map::spread
                                                                 : Map::per_feature,
               .sparse = seed / 8 % 2 == 1,
               .weights = seed / 2 % 4 == 1,
               .offsets = family != Family::softmax && seed / 3 % 3 == 1,
               .intercept = seed / 24 % 3 != 1,
               .folds = seed / 12 % 2 == 1,
               .rows = 18,
               .features = 2 + static_cast<Index>(seed % 3),
               .seed = seed};
    SCOPED_TRACE(s.text());
    Data data(s);
    const Reference reference(data);
    const auto model = data.model();
    const Vec theta = gaussian(data.map.thetas(), data.engine, 1.5).array() - 1;
    const LongVec phi = reference.settle(theta), truth = reference.gradient(phi, theta);
    for (const double tolerance : {1e-2, 1e-3, 1e-4, 1e-6, 1e-8}) {
      for (const char* inner : {"lbfgs", "nesterov"}) {
        const Estimate<Vec> e =
            estimate(*model, theta, tolerance, inner, seed % 2 ? "implicit-cg" : "implicit-direct");
        ++all[static_cast<int>(family)];
        if (e.certificate.kind != Kind::rigorous) continue;
        ++rigorous[static_cast<int>(family)];
        const double error = apart(e.gradient, truth);
        EXPECT_LE(error, e.certificate.bound) << tolerance << " " << inner << " " << e.certificate.reason;
        closest = std::max(closest, error / e.certificate.bound);
        const LongVec reached = whole(*model, e.phi);
        // δ is a distance in the model's units.
        if (data.outputs == 1) {
          const LongVec moved = (reached - phi).head(e.phi.size());
          EXPECT_LE(static_cast<double>(moved.cwiseQuotient(model->units().cast<Real>()).norm()),
                    e.certificate.delta * (1 + 1e-9) + 1e-15);
        }
        if (!kinked(family)) continue;
        // Nobody changes sides between φ̂ and φ*, nor could within δ.
        Data::each_row(data.training, [&](Index i) {
          if (s.weights && data.w[i] == 0) return;
          const auto side = [&](const LongVec& at) {
            const Real m = reference.margins(i, at)[0];
            return family == Family::huber ? std::abs(m - data.y[i]) - threshold : 1 - data.y[i] * m;
          };
          EXPECT_GT(side(reached) * side(phi), 0) << i;
          const LongVec in_units = reference.rows()
                                       .row(i)
                                       .transpose()
                                       .head(e.phi.size())
                                       .cwiseProduct(model->units().cast<Real>());
          EXPECT_GT(std::abs(side(reached)), in_units.norm() * e.certificate.delta) << i;
        });
      }
    }
  }
  for (int k = 0; k < 8; ++k) {
    RecordProperty(fmt::format("rigorous_{}", k), fmt::format("{} of {}", rigorous[k], all[k]));
    EXPECT_GE(rigorous[k] * 4, all[k])
        << "family " << k << ": rigorous in " << rigorous[k] << " of " << all[k];
  }
  EXPECT_GT(closest, 1e-3) << "a bound that is never approached says nothing";
  RecordProperty("closest", std::to_string(closest));
}

// Where no matrix is factored, as beyond a thousand coefficients, the answer of the gradient to the residuals
// says how far it is off, and the proven bound, which is safe, need not be of use.
TEST(PenalisedCertificate, WhereNothingIsFactoredTheMeasuredAnswerIsAboveTheErrorAndOfUse) {
  int draws = 0, measured = 0, trusted = 0, below = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Settings s{.family = seed % 2 ? Family::logistic : Family::poisson,
               .map = seed % 3 == 0 ? Map::global : Map::per_feature,
               .sparse = seed / 2 % 2 == 1,
               .rows = 20,
               .features = 12,
               .seed = seed};
    SCOPED_TRACE(s.text());
    Data data(s);
    const Reference reference(data);
    const auto model = data.model();
    const Vec theta = gaussian(data.map.count, data.engine, 2).array() - 5;
    const LongVec truth = reference.gradient(reference.settle(theta), theta);
    for (const double tolerance : {1e-4, 1e-6, 1e-9}) {
      EstimatorOptions options;
      options.certificate.dense_limit = options.certificate.factor_limit = 1;
      const Estimate<Vec> e = estimate(*model, theta, tolerance, "lbfgs", "implicit-cg", options);
      const double error = apart(e.gradient, truth);
      ++draws;
      trusted += e.certificate.verdict == Verdict::trusted;
      if (e.certificate.reason.find("answer of the gradient") == std::string::npos) continue;
      ++measured;
      EXPECT_EQ(e.certificate.kind, Kind::estimated);
      below += error > e.certificate.bound;
    }
  }
  RecordProperty("measured", fmt::format("{} of {}, {} trusted", measured, draws, trusted));
  EXPECT_GE(measured, 20) << "of " << draws;
  EXPECT_EQ(below, 0) << "of " << measured << " (seeds 1 to 60)";
  EXPECT_GE(trusted * 10, draws * 9);
}

TEST(PenalisedCertificate, ASampleOnAKinkTakesTheRigourAway) {
  int plants = 0, refused = 0;
  for (const Family family : {Family::huber, Family::squared_hinge})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      Settings s{.family = family, .offsets = true, .rows = 45, .features = 3, .seed = seed};
      SCOPED_TRACE(s.text());
      Data data(s);
      const Vec theta = gaussian(3, data.engine);
      // A sample beyond the kink has a slope that does not depend on how far beyond: moved to the kink's
      // edge, it leaves φ* where it is.
      LongVec phi = Reference(data).settle(theta);
      Index planted = -1;
      Data::each_row(data.training, [&](Index i) {
        const Real m = Reference(data).margins(i, phi)[0], r = m - data.y[i];
        const bool beyond = family == Family::huber ? std::abs(r) > threshold : data.y[i] * m > 1;
        if (!beyond || planted >= 0) return;
        planted = i;
        const Real wanted = family == Family::huber
                                ? data.y[i] + std::copysign(Real(threshold) * (1 + 1e-9L), r)
                                : data.y[i] * (1 + 1e-9L);
        data.o[i] += static_cast<double>(wanted - m);
      });
      if (planted < 0) continue;
      ++plants;
      const Reference reference(data);
      LongVec residual;
      reference.inner(phi, theta, &residual, nullptr);
      ASSERT_LE(static_cast<double>(residual.norm()), 1e-12);
      const auto model = data.model();
      for (const double tolerance : {1e-3, 1e-6}) {
        const Estimate<Vec> e = estimate(*model, theta, tolerance, "lbfgs");
        EXPECT_FALSE(e.certificate.kind == Kind::rigorous && e.certificate.delta > 1e-8) << tolerance;
        refused += e.certificate.kind != Kind::rigorous;
      }
      // With the sample taken far away again, the same model is certified without doubt.
      data.o[planted] +=
          family == Family::huber
              ? std::copysign(2.0, static_cast<double>(reference.margins(planted, phi)[0]) - data.y[planted])
              : 2 * data.y[planted];
      EXPECT_EQ(estimate(*data.model(), theta, 1e-10).certificate.kind, Kind::rigorous);
    }
  EXPECT_GE(plants, 30);
  EXPECT_GE(refused, 2 * plants - 4);
}

/// Features far from zero and shifted back: sums of the formed matrix cancel, those of products do not, and
/// the dense reference must not take the first for the second.
TEST(PenalisedCertificate, TheDenseReferenceHoldsWhereTheFormedMatrixCancels) {
  using LongMat = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
  constexpr Index n = 60, all = 90, d = 3;
  constexpr double far = 1e6, log_lambda = -2;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    ModelMatrix::RowMajor x(all, d);
    Vec y(all);
    for (Index i = 0; i < all; ++i) {
      for (Index j = 0; j < d; ++j) x(i, j) = far + normal(engine);
      y[i] = x(i, 0) - far + normal(engine);
    }
    const Vec shift = x.topRows(n).colwise().mean();
    Samples samples;
    samples.matrix = std::make_shared<ModelMatrix>(x);
    samples.labels = std::make_shared<Vec>(y);
    // Huber's loss where no row is beyond its threshold: squares, without their constant Hessian.
    PenalisedModel model(make_scalar_loss(kernels::Loss::huber, samples, {{0, n}}, 1e3),
                         make_scalar_loss(kernels::Loss::huber, samples, {{n, all}}, 1e3),
                         Standardisation{shift, Vec::Ones(d)}, PenaltyMap::per_feature(d, 1));
    const Vec theta = Vec::Constant(d, log_lambda);
    const auto inner = make_inner_solver<Vec>("newton", model, {.gradient_tolerance = 1e-11});
    const auto e =
        make_estimator<Vec>("exact", static_cast<Problem<Vec>&>(model), *inner)->estimate(theta, {});
    const Real lambda = std::exp(static_cast<Real>(log_lambda));
    LongMat z(all, d + 1);
    z.leftCols(d) = x.cast<Real>().rowwise() - shift.cast<Real>().transpose();
    z.col(d).setOnes();
    const LongMat training = z.topRows(n), validation = z.bottomRows(all - n);
    LongMat h = training.transpose() * training / static_cast<Real>(n);
    h.diagonal().head(d).array() += lambda;
    const Eigen::FullPivLU<LongMat> factor(h);
    const LongVec target = y.cast<Real>(),
                  phi = factor.solve(training.transpose() * target.head(n) / static_cast<Real>(n)),
                  pi = factor.solve(validation.transpose() * (validation * phi - target.tail(all - n)) /
                                    static_cast<Real>(all - n));
    const LongVec truth = -lambda * phi.head(d).cwiseProduct(pi.head(d));
    EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
    EXPECT_LE(static_cast<double>((e.gradient.cast<Real>() - truth).norm()), e.certificate.bound);
  }
}

}  // namespace penalised_certificate_test
}  // namespace bilevel::problems
