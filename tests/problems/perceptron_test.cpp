// Perceptrons against linear models, which they are without hidden layers, against differences, and against
// differences of the whole solve.

#include <bilevel/problems/perceptron.hpp>

#include <random>

#include <gtest/gtest.h>

#include <bilevel/gradient/in_units.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problem/check.hpp>
#include <bilevel/problems/kernels.hpp>
#include <bilevel/problems/penalised_model.hpp>

#include "random_matrix.hpp"

namespace bilevel::problems {
namespace perceptron_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using kernels::Loss;

struct Case {
  Loss loss = Loss::squared;
  Index outputs = 1;
  std::vector<Index> hidden = {4};
  Activation activation = Activation::tanh;
  bool sparse = false, weights = false, offsets = false, standardise = true, intercept = true;
  std::uint64_t seed = 1;
  Index features = 5, rows = 70;
};

/// Rows 0 … 39 and 60 … 69 train, the others judge.
struct Data {
  explicit Data(const Case& c) : shape{c.features, c.hidden, c.outputs, c.activation} {
    std::mt19937_64 engine(c.seed);
    std::normal_distribution<double> normal;
    const Eigen::MatrixXd x = random_matrix(c.seed, c.rows, c.features);
    ModelMatrix::RowMajor kept = x;
    if (c.sparse) kept = (kept.array() > 0.3).select(kept, 0.0);
    samples.matrix = c.sparse ? std::make_shared<const ModelMatrix>(ModelMatrix::Sparse(kept.sparseView()))
                              : std::make_shared<const ModelMatrix>(kept);
    Vec labels(c.rows);
    std::vector<int> classes;
    for (Index i = 0; i < c.rows; ++i) {
      const double score = kept(i, 0) * kept(i, 1) + std::sin(2 * kept(i, 2)) + 0.3 * normal(engine);
      labels[i] = c.loss == Loss::squared    ? score
                  : c.loss == Loss::logistic ? (score > 0 ? 1 : -1)
                                             : std::floor(std::exp(score));
      classes.push_back(static_cast<int>(std::abs(static_cast<long>(std::floor(2 * score)))) %
                        static_cast<int>(std::max<Index>(c.outputs, 2)));
    }
    samples.labels = std::make_shared<const Vec>(labels);
    samples.classes = std::make_shared<const std::vector<int>>(classes);
    if (c.weights)
      samples.weights = std::make_shared<const Vec>(Vec::NullaryExpr(
          c.rows, [&](Index i) { return i % 7 == 0 ? 0.0 : 0.5 + std::abs(normal(engine)); }));
    if (c.offsets) samples.offsets = std::make_shared<const Vec>(0.3 * random_matrix(c.seed + 1, c.rows, 1));
    standardisation = Standardisation::none(c.features);
    if (c.standardise) {
      standardisation.shift = 0.2 * random_matrix(c.seed + 2, c.features, 1);
      standardisation.inverse_scale = random_matrix(c.seed + 3, c.features, 1).cwiseAbs().array() + 0.5;
    }
  }
  Perceptron model(const Case& c, PenaltyMap map) const {
    return Perceptron(shape, c.loss, samples, {{0, 40}, {60, 70}}, {{40, 60}}, standardisation,
                      std::move(map), c.intercept, c.seed);
  }

  PerceptronShape shape;
  Samples samples;
  Standardisation standardisation;
};

/// As many penalties as there are layers.
PenaltyMap per_layer(const PerceptronShape& shape) {
  PenaltyMap map{{}, shape.layers(), {}, {}};
  for (Index k = 0, layer = 0; k < shape.penalised(); ++k) {
    if (layer + 1 < shape.layers() && k == shape.place(layer + 1)) ++layer;
    map.of.push_back(layer);
  }
  return map;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {},
      {.hidden = {6, 3}, .activation = Activation::softplus, .offsets = true, .seed = 2},
      {.loss = Loss::logistic, .sparse = true, .weights = true, .seed = 3},
      {.loss = Loss::logistic, .hidden = {3}, .activation = Activation::softplus, .offsets = true, .seed = 4},
      {.outputs = 4, .hidden = {5}, .weights = true, .seed = 5},
      {.outputs = 3, .hidden = {4, 4, 3}, .sparse = true, .intercept = false, .seed = 6},
      {.outputs = 3, .hidden = {7}, .standardise = false, .seed = 7},
  };
  return all;
}

TEST(Perceptron, DerivativesAgreeWithDifferences) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.seed);
    Data data(c);
    Perceptron model = data.model(c, per_layer(data.shape));
    const Vec theta = random_matrix(c.seed, model.penalties().thetas(), 1).array() - 2;
    model.adopt_units(theta);
    const Vec phi = model.initial_phi() + 0.3 * random_matrix(c.seed + 9, model.initial_phi().size(), 1);
    const CheckReport report = check_derivatives<Vec>(model, phi, theta, {.seed = c.seed});
    EXPECT_TRUE(report.passed()) << report.table();
    for (const char* check : {"hessian-difference", "cross-difference", "nudged"})
      EXPECT_TRUE(report.find(check)) << check;
  }
}

Mat dense_hessian(Perceptron& model, const Vec& psi, const Vec& theta) {
  std::unique_ptr<Curvature<Vec>> curvature;
  model.linearise(psi, theta, 0, curvature);
  Mat hessian(psi.size(), psi.size());
  Vec column(psi.size());
  for (Index k = 0; k < psi.size(); ++k) {
    curvature->times(Vec::Unit(psi.size(), k), column);
    hessian.col(k) = column;
  }
  return hessian;
}

/// In units by Kronecker factors derivatives are derivatives, φ comes back, and what bounds say of χ holds.
TEST(Perceptron, UnitsByItsCurvatureChangeNothingElse) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.seed);
    Data data(c);
    Perceptron model = data.model(c, per_layer(data.shape));
    const Vec theta = random_matrix(c.seed, model.penalties().thetas(), 1).array() - 2;
    Vec phi = model.initial_phi();
    model.to_true(phi);
    phi += 0.3 * random_matrix(c.seed + 9, phi.size(), 1);
    const double value = [&] {
      Vec own = phi;
      model.to_own(own);
      return model.inner(own, theta, {});
    }();
    model.adopt_units(theta, phi);
    Vec psi = phi;
    model.to_own(psi);
    EXPECT_NEAR(model.inner(psi, theta, {}), value, 1e-12 * std::abs(value));
    Vec again = psi;
    model.to_true(again);
    EXPECT_LE((again - phi).norm(), 1e-12 * phi.norm());
    const CheckReport report = check_derivatives<Vec>(model, psi, theta, {.seed = c.seed});
    EXPECT_TRUE(report.passed()) << report.table();

    std::unique_ptr<Curvature<Vec>> here, there;
    model.linearise(psi, theta, 0, here);
    const Vec step = 0.1 * random_matrix(c.seed + 10, phi.size(), 1);
    model.linearise(psi + step, theta, 0, there);
    Mat cross(phi.size(), theta.size()), moved = cross;
    Vec column(phi.size());
    for (Index k = 0; k < theta.size(); ++k) {
      here->cross_apply(Vec::Unit(theta.size(), k), column);
      cross.col(k) = column;
      there->cross_apply(Vec::Unit(theta.size(), k), column);
      moved.col(k) = column;
    }
    const auto norm = [](const Mat& m) { return m.jacobiSvd().singularValues()[0]; };
    EXPECT_LE(norm(cross), here->cross_norm());
    EXPECT_LE(norm(moved - cross), model.constants(theta, psi, 1).cross_lipschitz * step.norm());
    EXPECT_LE(norm(moved), model.constants(theta, psi, step.norm()).cross_norm);
  }
}

/// Of squared errors without hidden layers the factors are the Hessian itself: nothing is left to solve.
TEST(Perceptron, UnitsByItsCurvatureMakeTheHessianOfALinearModelOne) {
  for (const Case& c :
       {Case{.hidden = {}, .weights = true, .offsets = true, .seed = 31},
        Case{.hidden = {}, .sparse = true, .seed = 32}, Case{.hidden = {}, .intercept = false, .seed = 33}}) {
    SCOPED_TRACE(c.seed);
    Data data(c);
    Perceptron model = data.model(c, PenaltyMap::per_feature(c.features, 1));
    const Vec theta = random_matrix(c.seed, c.features, 1);
    const Vec phi = model.initial_phi();
    model.adopt_units(theta, phi);
    const Mat hessian = dense_hessian(model, phi, theta);
    EXPECT_LE((hessian - Mat::Identity(phi.size(), phi.size())).norm(), 1e-5) << hessian;
  }
}

/// Of a network they take most of its condition away.
TEST(Perceptron, UnitsByItsCurvatureAreWorthTheirPrice) {
  Case c{.outputs = 3, .hidden = {8}, .seed = 41, .features = 12, .rows = 300};
  Data data(c);
  Perceptron model(data.shape, c.loss, data.samples, {{0, 200}}, {{200, 300}}, data.standardisation,
                   per_layer(data.shape));
  const Vec theta = Vec::Constant(model.penalties().thetas(), -6);
  const auto solver = make_inner_solver<Vec>("trust-region", model);
  model.adopt_units(theta);
  Vec phi = solver->solve(theta, 0, model.initial_phi()).phi;
  const auto condition = [&](const Vec& psi) {
    const Vec values =
        Eigen::SelfAdjointEigenSolver<Mat>(dense_hessian(model, psi, theta)).eigenvalues().cwiseAbs();
    return values.maxCoeff() / values.minCoeff();
  };
  const double before = condition(phi);
  model.to_true(phi);
  model.adopt_units(theta, phi);
  Vec psi = phi;
  model.to_own(psi);
  EXPECT_LT(condition(psi), 0.5 * before) << before;
}

/// Several chunks of rows, dense and sparse.
TEST(Perceptron, GivesTheSameBitsByAnyNumberOfThreads) {
  for (const Case& c :
       {Case{.outputs = 3, .hidden = {40, 9}, .seed = 21, .features = 60, .rows = 900},
        Case{.outputs = 3, .hidden = {40}, .sparse = true, .seed = 22, .features = 60, .rows = 900}}) {
    SCOPED_TRACE(c.seed);
    Data data(c);
    Perceptron model(data.shape, c.loss, data.samples, {{0, 700}}, {{700, 900}}, data.standardisation,
                     per_layer(data.shape));
    const Vec theta = model.initial_theta(), phi = model.initial_phi(), v = random_matrix(3, phi.size(), 1);
    std::unique_ptr<Curvature<Vec>> curvature;
    Vec gradient = phi, by_theta = theta, product = phi;
    const auto everything = [&] {
      const double value = model.inner(phi, theta, {&gradient, &by_theta});
      model.linearise(phi, theta, 0.5, curvature);
      curvature->times(v, product);
      curvature->cross_times(v, by_theta);
      return value + model.outer(phi, theta, {});
    };
    const int before = kernels::threads();
    kernels::set_threads(1);
    const double value = everything();
    const Vec first_gradient = gradient, first_product = product;
    kernels::set_threads(4);
    EXPECT_EQ(everything(), value);
    EXPECT_EQ(gradient, first_gradient);
    EXPECT_EQ(product, first_product);
    kernels::set_threads(before);
  }
}

/// Without hidden layers: the same values, gradients and products.
TEST(Perceptron, IsALinearModelWithoutHiddenLayers) {
  for (const Case& c : {Case{.hidden = {}, .weights = true, .offsets = true, .seed = 11},
                        Case{.loss = Loss::logistic, .hidden = {}, .sparse = true, .seed = 12},
                        Case{.outputs = 4, .hidden = {}, .intercept = false, .seed = 13}}) {
    SCOPED_TRACE(c.seed);
    Data data(c);
    const PenaltyMap map = PenaltyMap::per_feature(c.features, c.outputs);
    Perceptron model = data.model(c, map);
    const auto loss = [&](std::vector<RowRange> ranges) {
      return c.outputs > 1 ? make_softmax_loss(c.outputs, data.samples, std::move(ranges))
                           : make_scalar_loss(c.loss, data.samples, std::move(ranges));
    };
    PenalisedModel linear(loss({{0, 40}, {60, 70}}), loss({{40, 60}}), data.standardisation, map,
                          c.intercept);
    const Vec theta = random_matrix(c.seed, c.features, 1);
    model.adopt_units(theta);
    linear.adopt_units(theta);
    const Vec phi = random_matrix(c.seed + 1, model.units().size(), 1);
    const Vec own = phi.cwiseQuotient(model.units()), its = phi.cwiseQuotient(linear.units());
    Vec g(phi.size()), h(phi.size()), by_theta(theta.size()), its_by_theta(theta.size());
    const auto true_units = [](const Vec& gradient, const Vec& units) {
      return gradient.cwiseQuotient(units);
    };
    EXPECT_NEAR(model.inner(own, theta, {&g, &by_theta}), linear.inner(its, theta, {&h, &its_by_theta}),
                1e-13);
    EXPECT_LE((true_units(g, model.units()) - true_units(h, linear.units())).norm(), 1e-13);
    EXPECT_LE((by_theta - its_by_theta).norm(), 1e-13 * by_theta.norm());
    EXPECT_NEAR(model.outer(own, theta, {&g}), linear.outer(its, theta, {&h}), 1e-13);
    EXPECT_LE((true_units(g, model.units()) - true_units(h, linear.units())).norm(), 1e-13);
    std::unique_ptr<Curvature<Vec>> curvature, its_curvature;
    model.linearise(own, theta, 0.7, curvature);
    linear.linearise(its, theta, 0.7, its_curvature);
    const Vec v = random_matrix(c.seed + 2, phi.size(), 1);
    curvature->times(v.cwiseQuotient(model.units()), g);
    its_curvature->times(v.cwiseQuotient(linear.units()), h);
    EXPECT_LE((true_units(g, model.units()) - true_units(h, linear.units())).norm(), 1e-12);
  }
}

double settled_outer(Perceptron& model, const Vec& theta, const Vec& near) {
  model.adopt_units(theta);
  const auto solver = make_inner_solver<Vec>("trust-region", model);
  solver->set_tolerance(1e-13);
  const auto solution = solver->solve(theta, 0, near.cwiseQuotient(model.units()));
  EXPECT_LE(solution.residual_norm, 1e-11) << solution.message;
  return model.outer(solution.phi, theta, {});
}

/// Every element of the outer gradient against differences of order four of solves to the last digit.
TEST(Perceptron, GradientAgreesWithDifferencesOfTheWholeSolve) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.seed);
    Data data(c);
    Perceptron model = data.model(c, per_layer(data.shape));
    const auto solver = make_inner_solver<Vec>("trust-region", model);
    auto made = make_estimator<Vec>("implicit-cg", model, *solver, {});
    InUnits<Vec> estimator(std::move(made), model);
    estimator.set_tolerances(1e-13, 1e-13);
    const Vec theta = Vec::LinSpaced(model.penalties().thetas(), -3.5, -2.5);
    const Estimate<Vec> e = estimator.estimate(theta, {});
    ASSERT_TRUE(succeeded(e.inner_status) || e.inner_status == Status::stalled) << e.message;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
    Vec differences(theta.size());
    const double step = 3e-4;
    for (Index j = 0; j < theta.size(); ++j) {
      const auto at = [&](double shift) {
        Vec moved = theta;
        moved[j] += shift * step;
        return settled_outer(model, moved, e.phi);
      };
      differences[j] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
    }
    EXPECT_LE((e.gradient - differences).norm(), 1e-8 * std::max(1e-2, e.gradient.norm()))
        << e.gradient.transpose() << "\n"
        << differences.transpose() << "\n"
        << e.message;
  }
}

}  // namespace perceptron_test
}  // namespace bilevel::problems
