// Multilayer perceptrons on data: tuned, kept, predicted with, posed; and what makes no sense for them.

#include <bilevel/models/tune.hpp>

#include <atomic>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/data/make_dataset.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/sum_of_estimators.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/models/diagnosis.hpp>
#include <bilevel/models/problem.hpp>

#include "models/folds.hpp"
#include "models/leaves_saddles.hpp"
#include "refusal.hpp"
#include "scratch.hpp"

namespace bilevel::models {
namespace network_test {

using Mat = Eigen::MatrixXd;

Mat features(Index rows, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  return Mat::NullaryExpr(rows, 4, [&] { return 3 + 2 * normal(engine); });
}

/// No linear model knows x₀x₁.
Vec target(const Mat& x, double noise = 0.1) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  return Vec::NullaryExpr(x.rows(), [&](Index i) {
    return 10 + (x(i, 0) - 3) * (x(i, 1) - 3) + 2 * std::sin(x(i, 2)) + noise * normal(engine);
  });
}

data::Dataset regression(Index rows = 200, std::uint64_t seed = 1) {
  const Mat x = features(rows, seed);
  return data::make_dataset(x, target(x));
}

TuneOptions network(Penalty penalty = Penalty::per_layer) {
  TuneOptions options;
  options.model = Model::mlp;
  options.layers = {6};
  options.penalty = penalty;
  options.validation = 0.3;
  options.lower = -9;
  options.upper = 1;
  options.grid = 6;
  return options;
}

/// What W·σ(…) gives, written out, from the saved parameters alone.
double by_hand(const SavedModel& m, const Vec& x) {
  const Index d = x.size(), units = m.layers[0];
  double sum = m.coefficients[m.coefficients.size() - 1];
  for (Index h = 0; h < units; ++h) {
    double z = m.coefficients[d * units + h];
    for (Index j = 0; j < d; ++j) z += x[j] * m.coefficients[j * units + h];
    sum += std::tanh(z) * m.coefficients[(d + 1) * units + h];
  }
  return sum;
}

TEST(NetworkTuning, LearnsWhatNoLinearModelCanAndIsKept) {
  TuneOptions options = network();
  options.bounds_given = true;
  const Tuned tuned = tune(regression(), options);
  EXPECT_EQ(tuned.summary.status, Status::converged) << tuned.summary.message;
  EXPECT_EQ(tuned.summary.certificate.verdict, Verdict::trusted) << tuned.summary.certificate.reason;
  EXPECT_LE(tuned.chosen.validation_loss, tuned.grid.validation_loss);
  TuneOptions linear;
  linear.model = Model::ridge;
  const Tuned ridge = tune(regression(), linear);
  EXPECT_GT(*tuned.chosen.test->r2, 0.8);
  EXPECT_LT(*ridge.chosen.test->r2, 0.4);

  const Mat x = features(50, 9);
  const Vec said = tuned.predict(x).values;
  EXPECT_LT((said - target(x, 0)).norm(), 0.5 * (target(x, 0).array() - 10).matrix().norm());
  for (Index i = 0; i < x.rows(); ++i) EXPECT_NEAR(said[i], by_hand(tuned.model, x.row(i)), 1e-10);
  const std::string path = scratch("network.json");
  tuned.save(path);
  const SavedModel again = SavedModel::load(path);
  EXPECT_EQ(again.layers, (std::vector<Index>{6}));
  EXPECT_EQ(again.predict(x).values, said);
  EXPECT_EQ(again.text(), tuned.model.text());
}

TEST(NetworkTuning, LossesAreThoseOfThePredictions) {
  // Rows for the test that are known from outside.
  TuningData data(regression());
  const Mat x = features(80, 33);
  data.test = data::make_dataset(x, target(x));
  TuneOptions options = network(Penalty::global);
  options.bounds_given = true;
  const Tuned tuned = tune(data, options);
  const Vec said = tuned.predict(x).values;
  EXPECT_NEAR(tuned.chosen.test->loss, 0.5 * (said - target(x)).squaredNorm() / 80,
              1e-10 * tuned.chosen.test->loss);
}

TEST(NetworkTuning, ClassesSparseRowsAndWeights) {
  Mat x = features(240, 3);
  x = (x.array() > 5).select(x, 0.0);
  std::vector<std::string> labels;
  for (Index i = 0; i < x.rows(); ++i)
    labels.push_back((x(i, 0) > 0) == (x(i, 1) > 0) ? "same" : x(i, 2) > 0 ? "third" : "other");
  data::Dataset table = data::make_dataset(x, labels);
  table.weights = Vec::Ones(x.rows());
  table.weights.head(20).setConstant(2);
  TuneOptions options = network(Penalty::per_feature);
  options.validation = {};
  options.folds = 3;
  options.iterations = 30;
  const Prepared p = prepare(table, options);
  EXPECT_TRUE(p.samples.matrix->sparse());
  const Tuned tuned = tune(p, options);
  EXPECT_TRUE(tuned.chosen.fitted);
  EXPECT_GT(*tuned.chosen.test->accuracy, 0.9);
  EXPECT_LE(tuned.chosen.validation_loss, tuned.grid.validation_loss);
  const Predictions said = tuned.predict(x);
  EXPECT_EQ(said.probabilities.cols(), 3);
  EXPECT_LT((said.probabilities.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-12);
}

/// The mean of folds with its prior against differences of order four of values alone.
TEST(NetworkTuning, GradientOfAllFoldsAgreesWithDifferences) {
  TuneOptions options = network(Penalty::per_feature);
  options.validation = {};
  options.folds = 3;
  const Prepared p = prepare(regression(90), options);
  const Posed posed = pose(p, options);
  ASSERT_GT(posed.prior.precision, 0);
  Folds folds(p);
  Family family = family_of(p, "per-feature", p.penalties, p.hyperparameters);
  family.prior = posed.prior;
  const auto estimator = folds.estimator(family);
  estimator->set_tolerances(1e-12, 1e-12);
  const Vec theta = Vec::LinSpaced(posed.start.size(), -4, -3);
  const Estimate<Vec> e = estimator->estimate(theta, {});
  EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
  const std::vector<Vec> states = folds.apart(e.phi);
  Vec differences(theta.size());
  constexpr double step = 1e-3;
  for (Index j = 0; j < theta.size(); ++j) {
    const auto at = [&](double shift) {
      Vec moved = theta;
      moved[j] += shift * step;
      return folds.value(folds.settle(moved, states, 1e-13, false)) + posed.prior.value(moved);
    };
    differences[j] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
  }
  EXPECT_LE((e.gradient - differences).norm(), 1e-7 * e.gradient.norm()) << e.gradient.transpose() << "\n"
                                                                         << differences.transpose();
}

TEST(NetworkTuning, PenaltiesAreThoseAskedFor) {
  TuneOptions options = network();
  options.layers = {3, 2};
  const auto penalties = [&](Penalty penalty) {
    options.penalty = penalty;
    return prepare(regression(), options);
  };
  // 4·3 + 3 and 3·2 + 2 weights and biases, and 2 weights.
  const Index parameters = 4 * 3 + 3 + 3 * 2 + 2 + 2;
  const Prepared layers = penalties(Penalty::per_layer);
  EXPECT_EQ(layers.hyperparameters, (std::vector<std::string>{"layer 1", "layer 2", "layer 3"}));
  EXPECT_EQ(std::count(layers.penalties.of.begin(), layers.penalties.of.end(), 1), 3 * 2 + 2);
  for (const auto& [penalty, count] :
       {std::pair{Penalty::global, Index{1}}, std::pair{Penalty::per_layer, Index{3}},
        std::pair{Penalty::per_feature, Index{4 + 1 + 2}}, std::pair{Penalty::per_parameter, parameters}}) {
    const Prepared p = penalties(penalty);
    EXPECT_EQ(p.penalties.count, count) << name(penalty);
    EXPECT_EQ(static_cast<Index>(p.hyperparameters.size()), count) << name(penalty);
    EXPECT_EQ(static_cast<Index>(p.penalties.of.size()), parameters) << name(penalty);
  }
}

TEST(NetworkTuning, AutoAsksLayersThenFeatures) {
  TuneOptions options = network(Penalty::automatic);
  options.bounds_given = true;
  const Tuned tuned = tune(regression(), options);
  ASSERT_GE(tuned.choice.answers.size(), 2u);
  EXPECT_NE(tuned.choice.answers[0].find("Do features want different penalties?"), std::string::npos);
  EXPECT_NE(tuned.choice.answers[1].find("Do layers want different penalties?"), std::string::npos);
  EXPECT_LE(tuned.chosen.validation_loss, tuned.grid.validation_loss);
  EXPECT_EQ(tuned.chosen.names.size(), static_cast<std::size_t>(tuned.chosen.log_lambda.size()));
}

/// Where there is nothing to learn nothing is gained by penalties of layers, and none are kept.
TEST(NetworkTuning, LayersThatGainNothingAreNotKept) {
  TuneOptions options = network(Penalty::automatic);
  options.bounds_given = true;
  const Mat x = features(200, 1);
  std::mt19937_64 engine(8);
  std::normal_distribution<double> normal;
  const Vec noise = Vec::NullaryExpr(x.rows(), [&] { return normal(engine); });
  const Tuned tuned = tune(data::make_dataset(x, noise), options);
  EXPECT_NE(fmt::format("{}", fmt::join(tuned.choice.answers, "; ")).find(": not kept"), std::string::npos);
  EXPECT_NE(tuned.choice.kind, "per-layer");
}

/// Of the many minima the descent follows the one that the grid has found, not that of other weights.
TEST(NetworkTuning, ADescentBeginsWhereTheGridEnded) {
  TuneOptions options = network();
  options.bounds_given = true;
  const Tuned tuned = tune(regression(), options);
  ASSERT_FALSE(tuned.summary.history.empty());
  EXPECT_NEAR(tuned.summary.history.front().outer_value * tuned.loss_scale, tuned.grid.validation_loss,
              1e-3 * tuned.grid.validation_loss);
}

TEST(NetworkTuning, TheFamilyOfLayersHasTheirNames) {
  const Prepared p = prepare(regression(), network(Penalty::automatic));
  const Family family = layers_family(p);
  EXPECT_EQ(family.kind, "per-layer");
  EXPECT_EQ(family.names, (std::vector<std::string>{"layer 1", "layer 2"}));
  EXPECT_EQ(family.final.count, 2);
  // Reported is one number for each penalty of the map that was prepared.
  EXPECT_EQ(reported_penalties(p, family, Vec::Constant(2, -3.0)).size(), 2);
}

/// With all weights zero only the last bias has a gradient: whoever follows gradients stays. x₀x₁ is worth
/// leaving for.
TEST(NetworkTuning, FitsLeaveTheSaddleOfZeroWeights) {
  const Prepared p = prepare(regression(), network(Penalty::global));
  const auto model = make_perceptron(p, p.folds.front());
  const Vec theta = Vec::Constant(1, -6.0);
  model->adopt_units(theta);
  const Vec zero = Vec::Zero(model->initial_phi().size());
  const auto least = [&](const Vec& phi) {
    std::unique_ptr<Curvature<Vec>> curvature;
    model->linearise(phi, theta, 0, curvature);
    Mat hessian(phi.size(), phi.size());
    Vec column(phi.size());
    for (Index k = 0; k < phi.size(); ++k) {
      curvature->times(Vec::Unit(phi.size(), k), column);
      hessian.col(k) = column;
    }
    return Eigen::SelfAdjointEigenSolver<Mat>(hessian).eigenvalues()[0];
  };

  const auto stays = make_inner_solver<Vec>("trust-region", *model);
  stays->set_tolerance(1e-9);
  const Solution<Vec> held = stays->solve(theta, 0, zero);
  ASSERT_EQ(held.status, Status::converged) << held.message;
  EXPECT_EQ(held.phi.head(zero.size() - 1).norm(), 0);
  ASSERT_LT(least(held.phi), -1e-3);
  const auto estimator = make_estimator<Vec>("implicit-cg", *model, *stays, {});
  const Certificate certificate = estimator->estimate(theta, {.phi = zero, .pi = {}}).certificate;
  EXPECT_EQ(certificate.kind, Kind::none);
  EXPECT_EQ(certificate.verdict, Verdict::untrusted);
  const std::string said = "not positive definite: smallest eigenvalue ";
  const std::size_t place = certificate.reason.find(said);
  ASSERT_NE(place, std::string::npos) << certificate.reason;
  EXPECT_NEAR(std::stod(certificate.reason.substr(place + said.size())), least(held.phi),
              1e-3 * std::abs(least(held.phi)));

  LeavesSaddles leaves(*model);
  leaves.set_tolerance(1e-9);
  const Solution<Vec> left = leaves.solve(theta, 0, zero);
  EXPECT_EQ(left.status, Status::converged) << left.message;
  EXPECT_NE(left.message.find("a saddle was left"), std::string::npos) << left.message;
  EXPECT_LT(left.value, 0.9 * held.value);
  EXPECT_GT(least(left.phi), 0);
}

/// The grid goes on while the loss falls, and not for long once it rises: weak penalties take the longest.
TEST(NetworkTuning, AGridThatOnlyRisesEnds) {
  TuneOptions options = network(Penalty::global);
  options.bounds_given = true;
  options.lower = -20;
  options.upper = 4;
  options.grid = 25;
  options.iterations = 0;
  const Mat x = features(200, 1);
  const Tuned tuned = tune(data::make_dataset(x, target(x, 2)), options);  // so noisy that weak penalties do harm
  ASSERT_LT(tuned.points.size(), 25u);
  ASSERT_GT(tuned.points.size(), 4u);
  double least = everywhere;
  for (const GridPoint& point : tuned.points) least = std::min(least, point.validation_loss);
  EXPECT_LT(least, 0.5 * tuned.points.front().validation_loss);
  for (std::size_t k = tuned.points.size() - 3; k < tuned.points.size(); ++k)
    EXPECT_GT(tuned.points[k].validation_loss, least);
  EXPECT_FALSE(tuned.interrupted);
  EXPECT_TRUE(tuned.chosen.fitted);
}

/// Killed on the grid and taken up: the same digits, though units by curvature had been adopted before.
TEST(NetworkTuning, ARunThatIsTakenUpHasTheDigitsOfOneThatWasNotCut) {
  TuneOptions options = network(Penalty::global);
  options.iterations = 2;
  const Tuned whole = tune(regression(), options);
  for (const int after : {2, 5}) {
    SCOPED_TRACE(after);
    const std::string path = scratch("network.ckpt"), last = fmt::format("one λ for all: {} of", after);
    kept_run(path, options).forget();
    std::atomic<bool> cut = false;
    TuneControl control{.checkpoint = path};
    control.progress = [&](const std::string& line) {
      if (line.find(last) != line.npos) cut = true;
    };
    control.interrupted = [&] { return cut.load(); };
    EXPECT_TRUE(tune(regression(), options, control).interrupted);
    const Tuned resumed = tune(regression(), options, {.checkpoint = path, .resume = true});
    ASSERT_EQ(resumed.points.size(), whole.points.size());
    for (std::size_t k = 0; k < whole.points.size(); ++k)
      EXPECT_EQ(resumed.points[k].validation_loss, whole.points[k].validation_loss) << k;
    EXPECT_EQ(resumed.summary.theta, whole.summary.theta);
    EXPECT_EQ(resumed.chosen.coefficients, whole.chosen.coefficients);
  }
}

TEST(NetworkTuning, WhoeverEndsItHearsWhatWasAsked) {
  bool asked = false;
  TuneControl control;
  control.progress = [&](std::string_view line) {
    asked = asked || line.find("do layers want different penalties?: step") != line.npos;
  };
  control.interrupted = [&] { return asked; };
  const Tuned tuned = tune(regression(), network(Penalty::automatic), control);
  EXPECT_TRUE(tuned.interrupted);
  EXPECT_EQ(tuned.reached, "after the single λ, while asking: do layers want different penalties?");
  EXPECT_NE(tuned.summary.message.find("it was asking: do layers"), std::string::npos)
      << tuned.summary.message;
}

TEST(NetworkTuning, DiagnosisLooksAtWhatMakesSense) {
  const TuneOptions options = network();
  const Prepared p = prepare(regression(), options);
  const auto findings = diagnose(p, Vec::Constant(2, -4.0));
  const auto of = [&](const std::string& name) {
    return *std::find_if(findings.begin(), findings.end(),
                         [&](const DataFinding& f) { return f.name == name; });
  };
  EXPECT_EQ(of("rows-per-coefficient").numbers[1].second, 4 * 6 + 6 + 6 + 1);
  EXPECT_TRUE(of("penalties-told-apart").looked_at) << of("penalties-told-apart").sentence;
}

TEST(NetworkTuning, WhatMakesNoSenseIsRefused) {
  const auto refused = [](TuneOptions options, const char* text) {
    EXPECT_NE(refusal([&] { prepare(regression(), options); }).find(text), std::string::npos)
        << refusal([&] { prepare(regression(), options); });
  };
  TuneOptions options = network();
  options.layers = {4, 0};
  refused(options, "TuneOptions.layers = 4-0 must be sizes");
  options = network();
  options.model = Model::ridge;
  options.penalty = Penalty::global;
  refused(options, "TuneOptions.layers = 6 is for TuneOptions.model = mlp");
  options = TuneOptions{.model = Model::ridge, .penalty = Penalty::per_parameter};
  refused(options, "per-parameter is for TuneOptions.model = mlp");
  options = network();
  options.last_layer = Model::lasso;
  refused(options, "TuneOptions.last_layer = lasso must be ridge, logistic or softmax");
  options = network(Penalty::per_class);
  refused(options, "per-class is for softmax");
  options = network();
  options.layers = {4'000'000};
  refused(options, "is a network of 24000001 parameters, more than 20000000");
}

}  // namespace network_test
}  // namespace bilevel::models
