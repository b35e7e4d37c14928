// What is said of data, against what was planted in them; and the problems that data pose.

#include <bilevel/models/diagnosis.hpp>

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/data/make_dataset.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/sum_of_estimators.hpp>
#include <bilevel/models/problem.hpp>
#include <bilevel/models/tune.hpp>
#include <bilevel/outer/solve.hpp>

#include "models/folds.hpp"

namespace bilevel::models {
namespace diagnosis_test {

using Mat = Eigen::MatrixXd;
constexpr std::uint64_t seed = 3;

Mat random(Index rows, Index columns) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Mat x(rows, columns);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j) x(i, j) = normal(engine);
  return x;
}

DataFinding finding(const std::vector<DataFinding>& all, const std::string& name) {
  for (const DataFinding& each : all)
    if (each.name == name) return each;
  ADD_FAILURE() << "no finding " << name;
  return all.front();
}

double number_of(const DataFinding& finding, const std::string& name) {
  for (const auto& [key, value] : finding.numbers)
    if (key == name) return value;
  ADD_FAILURE() << "no number " << name;
  return bilevel::unknown;
}

TuneOptions ridge(Penalty penalty) {
  return {.model = Model::ridge, .penalty = penalty, .test = 0};
}

TEST(Diagnosis, NothingIsSaidOfGoodData) {
  const Mat x = random(200, 4);
  const Prepared p =
      prepare(bilevel::data::make_dataset(x, Vec(x.col(0) + x.col(2))), ridge(Penalty::per_feature));
  const auto all = diagnose(p, Vec::Zero(4));
  for (const DataFinding& each : all) EXPECT_TRUE(each.good) << each.name << ": " << each.sentence;
  EXPECT_EQ(all.size(), 5U);
  EXPECT_NEAR(number_of(finding(all, "rows-per-coefficient"), "ratio"), 40, 1e-12);
  EXPECT_EQ(number_of(finding(all, "penalties-told-apart"), "directions"), 4);
}

/// Two columns of correlation r have the eigenvalues 1 ± r.
TEST(Diagnosis, TheConditionNumberIsThatOfTheCorrelations) {
  Mat x = random(400, 2);
  x.rowwise() -= x.colwise().mean();
  const double r = 0.6;
  Vec one = x.col(0).normalized();
  Vec other = (x.col(1) - one * one.dot(x.col(1))).normalized();
  x.col(0) = 100 * one;
  x.col(1) = 5 + 0.01 * (r * one + std::sqrt(1 - r * r) * other).array();
  const Prepared p = prepare(bilevel::data::make_dataset(x, Vec(random(400, 1))), ridge(Penalty::global));
  const DataFinding c = finding(diagnose(p, Vec::Zero(1)), "condition-number");
  EXPECT_NEAR(number_of(c, "condition_number"), std::sqrt((1 + r) / (1 - r)), 1e-9);
}

TEST(Diagnosis, CollinearAndConstantColumnsAreNamed) {
  Mat x = random(100, 6);
  x.col(2) = 3 * x.col(0) - 2 * x.col(1) + Vec::Constant(100, 7);
  x.col(4) = x.col(3) + 0.01 * x.col(4);
  x.col(5).setConstant(4);
  const Prepared p =
      prepare(bilevel::data::make_dataset(x, Vec(random(100, 1)), {"a", "b", "sum", "d", "near", "still"}),
              ridge(Penalty::global));
  const auto all = diagnose(p, Vec::Zero(1));
  const DataFinding c = finding(all, "collinear-columns");
  EXPECT_FALSE(c.good);
  EXPECT_EQ(c.columns, (std::vector<std::string>{"sum", "near"})) << c.sentence;
  EXPECT_NE(c.sentence.find("'sum' is a combination of 'a' and 'b'"), std::string::npos) << c.sentence;
  EXPECT_NE(c.sentence.find("'near' follows from 'd' with R² 0.999"), std::string::npos) << c.sentence;
  EXPECT_NEAR(number_of(c, "sum"), 1, 1e-12);
  EXPECT_FALSE(finding(all, "condition-number").good);
  EXPECT_EQ(finding(all, "constant-columns").columns, std::vector<std::string>{"still"});
}

TEST(Diagnosis, SeparableClassesAreFoundWithTheirDirection) {
  const Mat x = random(120, 5);
  const auto classes = [&](auto margin) {
    std::vector<std::string> labels;
    for (Index i = 0; i < x.rows(); ++i) labels.push_back(margin(i) > 0 ? "yes" : "no");
    return labels;
  };
  const auto look = [&](const std::vector<std::string>& labels, const Mat& rows) {
    const Prepared p =
        prepare(bilevel::data::make_dataset(rows, labels), {.penalty = Penalty::global, .test = 0});
    return finding(diagnose(p, Vec::Zero(1)), "separable-classes");
  };
  const DataFinding alone = look(classes([&](Index i) { return x(i, 2); }), x);
  EXPECT_FALSE(alone.good);
  EXPECT_EQ(alone.columns, std::vector<std::string>{"x3"}) << alone.sentence;
  // Rows near the border are taken away from it: a margin of 0.3 stays.
  Mat apart = x;
  for (Index i = 0; i < x.rows(); ++i) apart(i, 0) += x(i, 0) + x(i, 1) > 0 ? 0.3 : -0.3;
  const DataFinding direction = look(classes([&](Index i) { return x(i, 0) + x(i, 1); }), apart);
  EXPECT_FALSE(direction.good) << direction.sentence;
  ASSERT_GE(direction.columns.size(), 2U);
  EXPECT_TRUE((direction.columns[0] == "x1" && direction.columns[1] == "x2") ||
              (direction.columns[0] == "x2" && direction.columns[1] == "x1"))
      << direction.sentence;
  const Vec noise = random(240, 1).col(0).tail(120);
  const DataFinding mixed = look(classes([&](Index i) { return x(i, 0) + 2 * noise[i]; }), x);
  EXPECT_TRUE(mixed.good) << mixed.sentence;
  EXPECT_GT(number_of(mixed, "training_rows_on_the_wrong_side"), 0);
  // Three classes in three corners.
  Mat corners = 0.1 * x;
  std::vector<std::string> three;
  for (Index i = 0; i < x.rows(); ++i) {
    corners(i, i % 3) += 5;
    three.push_back(std::string(1, static_cast<char>('a' + i % 3)));
  }
  EXPECT_FALSE(look(three, corners).good);
}

TEST(Diagnosis, PenaltiesOfTheSameColumnCannotBeToldApart) {
  Mat x = random(150, 4);
  x.col(3) = 2 * x.col(1);
  const Prepared p = prepare(
      bilevel::data::make_dataset(x, Vec(x.col(0) + x.col(1) + 0.5 * random(300, 1).col(0).tail(150))),
      ridge(Penalty::per_feature));
  const DataFinding f = finding(diagnose(p, Vec::Constant(4, -1)), "penalties-told-apart");
  EXPECT_FALSE(f.good);
  EXPECT_EQ(f.columns, (std::vector<std::string>{"x2", "x4"})) << f.sentence;
  EXPECT_EQ(number_of(f, "directions"), 3);
  EXPECT_NE(f.sentence.find("'x2' and 'x4' act alike"), std::string::npos) << f.sentence;
}

TEST(Diagnosis, FewRowsForManyCoefficientsAreSaid) {
  const Mat x = random(30, 40);
  const Prepared p = prepare(bilevel::data::make_dataset(x, Vec(x.col(0))), ridge(Penalty::global));
  const auto all = diagnose(p, Vec::Zero(1));
  EXPECT_FALSE(finding(all, "rows-per-coefficient").good);
  EXPECT_FALSE(finding(all, "condition-number").good);
}

using Labels = std::vector<std::string>;

DataFinding separable(const Mat& x, const Labels& labels, Vec weights = {}) {
  auto data = bilevel::data::make_dataset(x, labels);
  data.weights = std::move(weights);
  const Prepared p = prepare(std::move(data), {.penalty = Penalty::global, .test = 0});
  return finding(diagnose(p, Vec::Zero(1)), "separable-classes");
}

/// The gap between the classes is that of neighbours in 1e5 rows: no fit sees it, a threshold does.
TEST(Diagnosis, AThinGapOfOneFeatureIsFound) {
  const Mat x = random(100000, 2);
  Labels labels;
  for (Index i = 0; i < x.rows(); ++i) labels.push_back(x(i, 1) > 0.3 ? "yes" : "no");
  const DataFinding f = separable(x, labels);
  EXPECT_FALSE(f.good);
  EXPECT_EQ(f.columns, Labels{"x2"}) << f.sentence;
  EXPECT_NE(f.sentence.find("'x2' alone"), std::string::npos) << f.sentence;
}

TEST(Diagnosis, ADummyOfOneClassIsQuasiCompleteSeparation) {
  Mat x = random(200, 3);
  const Vec noise = random(400, 1).col(0).tail(200);
  Labels two, three;
  x.col(1).setZero();
  Index told = 0;
  for (Index i = 0; i < x.rows(); ++i) {
    const bool yes = x(i, 0) + 2 * noise[i] > 0;
    two.push_back(yes ? "yes" : "no");
    three.push_back(i % 3 == 0 ? "a" : yes ? "b" : "c");
    if (yes && i % 5 == 0) {
      x(i, 1) = 1;
      ++told;
    }
  }
  const DataFinding f = separable(x, two);
  EXPECT_FALSE(f.good);
  EXPECT_EQ(f.columns, Labels{"x2"}) << f.sentence;
  EXPECT_NE(f.sentence.find(fmt::format("class 'yes' from the other in {} training rows", told)),
            std::string::npos)
      << f.sentence;
  EXPECT_NE(f.sentence.find("all but those where it is 0 (quasi-complete"), std::string::npos) << f.sentence;
  EXPECT_NE(f.sentence.find("no direction was found"), std::string::npos) << f.sentence;
  // One class against the rest, also where the column is sparse.
  for (Index i = 0; i < x.rows(); ++i) x(i, 2) = i % 3 == 0 && i % 4 == 0 ? 2 : 0;
  const DataFinding of_three = separable(x.rightCols(1).eval(), three);
  EXPECT_NE(of_three.sentence.find("'x1' alone tells class 'a' from the others in 17 training rows"),
            std::string::npos)
      << of_three.sentence;
}

TEST(Diagnosis, RowsOfWeightZeroAreNotAsked) {
  Mat x = random(120, 2);
  Labels labels;
  Vec weights = Vec::Ones(120);
  for (Index i = 0; i < x.rows(); ++i) {
    const bool yes = x(i, 0) > 0;
    weights[i] = i % 10 == 0 ? 0 : 1;
    labels.push_back(yes == (i % 10 != 0) ? "yes" : "no");
  }
  EXPECT_TRUE(separable(x, labels).good);
  const DataFinding f = separable(x, labels, weights);
  EXPECT_FALSE(f.good);
  EXPECT_EQ(f.columns, Labels{"x1"}) << f.sentence;
}

/// Without standardisation constants stay among the features: they have no correlation, and are named.
TEST(Diagnosis, ConstantsThatAreKeptAreNamedToo) {
  Mat x = random(80, 4);
  x.col(0).setConstant(0.1);
  x.col(2).setConstant(-7e5);
  TuneOptions options = ridge(Penalty::global);
  for (const bool intercept : {true, false}) {
    options.standardize = false;
    options.intercept = intercept;
    const Prepared p = prepare(bilevel::data::make_dataset(x, Vec(x.col(1))), options);
    const auto all = diagnose(p, Vec::Zero(1));
    EXPECT_EQ(finding(all, "constant-columns").columns, (Labels{"x1", "x3"}));
    EXPECT_TRUE(finding(all, "collinear-columns").good) << finding(all, "collinear-columns").sentence;
    EXPECT_LT(number_of(finding(all, "condition-number"), "condition_number"), 2);
  }
}

/// A row of weight 2 is two rows.
TEST(Diagnosis, WeightsCountInCorrelationsAndRows) {
  const Mat x = random(60, 3);
  Mat twice(90, 3);
  twice << x, x.topRows(30);
  const Vec y = random(90, 1).col(0);
  auto weighted = bilevel::data::make_dataset(x, Vec(y.head(60)));
  weighted.weights = Vec::Ones(60);
  weighted.weights.head(30).setConstant(2);
  const auto all = diagnose(prepare(std::move(weighted), ridge(Penalty::global)), Vec::Zero(1));
  const auto repeated =
      diagnose(prepare(bilevel::data::make_dataset(twice, y), ridge(Penalty::global)), Vec::Zero(1));
  EXPECT_NEAR(number_of(finding(all, "condition-number"), "condition_number"),
              number_of(finding(repeated, "condition-number"), "condition_number"), 1e-9);
  EXPECT_NEAR(number_of(finding(all, "rows-per-coefficient"), "rows"), 90.0 * 90 / (30 * 4 + 30), 1e-9);
}

TEST(Diagnosis, RowsOfTheRarestClassCount) {
  const Mat x = random(200, 3);
  Labels labels;
  for (Index i = 0; i < x.rows(); ++i) labels.push_back(i % 10 == 0 ? "rare" : "often");
  const Prepared p = prepare(bilevel::data::make_dataset(x, labels), {.penalty = Penalty::global, .test = 0});
  const DataFinding f = finding(diagnose(p, Vec::Zero(1)), "rows-per-coefficient");
  EXPECT_FALSE(f.good) << f.sentence;
  EXPECT_NEAR(number_of(f, "ratio"), 20.0 / 4, 1e-12);
  EXPECT_EQ(f.sentence.find("not be determined"), std::string::npos) << f.sentence;
}

TEST(Diagnosis, MoreColumnsThanRowsAreSaidAndNotNamed) {
  const Mat x = random(30, 40);
  const Prepared p = prepare(bilevel::data::make_dataset(x, Vec(x.col(0))), ridge(Penalty::global));
  const DataFinding f = finding(diagnose(p, Vec::Zero(1)), "collinear-columns");
  EXPECT_FALSE(f.good);
  EXPECT_TRUE(f.columns.empty());
  EXPECT_NE(f.sentence.find("30 training rows cannot tell 40 columns apart"), std::string::npos)
      << f.sentence;
}

TEST(Diagnosis, WhatCostsTooMuchIsSaidToBeLeftOut) {
  const Mat x = random(100, 4);
  Labels labels;
  for (Index i = 0; i < x.rows(); ++i) labels.push_back(i % 3 == 0 ? "yes" : "no");
  const Prepared p =
      prepare(bilevel::data::make_dataset(x, labels), {.penalty = Penalty::per_feature, .test = 0});
  const auto all = diagnose(p, Vec::Zero(4), {.affordable = 100});
  for (const char* each :
       {"condition-number", "collinear-columns", "separable-classes", "penalties-told-apart"}) {
    const DataFinding f = finding(all, each);
    EXPECT_FALSE(f.looked_at || f.good) << each;
    EXPECT_EQ(f.sentence.rfind("not looked at: ", 0), 0U) << f.sentence;
  }
  const Mat wide = random(40, 2001);
  const Prepared w =
      prepare(bilevel::data::make_dataset(wide, Vec(wide.col(0))), ridge(Penalty::per_feature));
  for (const DataFinding& f : diagnose(w, Vec::Zero(2001)))
    EXPECT_EQ(f.looked_at, f.name == "rows-per-coefficient" || f.name == "constant-columns") << f.sentence;
  const bilevel::StopToken stop([] { return true; });
  const auto stopped = diagnose(p, Vec::Zero(4), {.stop = &stop});
  EXPECT_EQ(stopped.size(), all.size());
  EXPECT_FALSE(finding(stopped, "separable-classes").looked_at);
  EXPECT_THROW(diagnose(p, Vec::Zero(3)), InvalidInput);
  EXPECT_THROW(diagnose(p, Vec::Zero(4), {.affordable = 0}), InvalidInput);
}

/// A fit that comes to nothing says nothing of the penalties.
TEST(Diagnosis, AFailedFitIsNoFindingAboutPenalties) {
  const Mat x = random(100, 3);
  const Prepared p = prepare(bilevel::data::make_dataset(x, Vec(x.col(0))), ridge(Penalty::per_feature));
  const DataFinding f = finding(diagnose(p, Vec::Constant(3, 1000)), "penalties-told-apart");
  EXPECT_FALSE(f.looked_at) << f.sentence;
  EXPECT_EQ(f.sentence.find("move no validation loss"), std::string::npos) << f.sentence;
}

/// The first validation rows are copies of one: what a random part of all rows says is another thing.
TEST(Diagnosis, ValidationRowsAreDrawnAtRandom) {
  const Mat x = random(6200, 2);
  Mat judging = x.topRows(6000);
  const Vec y = x.col(0) + 0.5 * x.col(1) + random(12400, 1).col(0).tail(6200);
  Vec target = y.head(6000);
  for (Index i = 1; i < 5000; ++i) {
    judging.row(i) = judging.row(0);
    target[i] = target[0];
  }
  TuningData data(bilevel::data::make_dataset(x.bottomRows(200), Vec(y.tail(200))));
  data.validation = bilevel::data::make_dataset(judging, target);
  const Prepared p = prepare(std::move(data), ridge(Penalty::per_feature));
  const DataFinding f = finding(diagnose(p, Vec::Constant(2, -1)), "penalties-told-apart");
  EXPECT_TRUE(f.good) << f.sentence;
}

/// Every estimator sees what tune sees: value and gradient of the folds' mean are those of its own estimator.
TEST(DataProblem, IsWhatTuneSolves) {
  const Mat x = random(90, 3);
  for (const bool held_out : {false, true}) {
    TuneOptions options = ridge(Penalty::per_feature);
    options.folds = 3;
    if (held_out) options.validation = 0.3;
    const Prepared p = prepare(
        bilevel::data::make_dataset(x, Vec(x.col(0) + 0.5 * random(180, 1).col(0).tail(90))), options);
    const Vec theta = (Vec(3) << -1, 0, 1).finished();
    Folds folds(p);
    const Family family = family_of(p, "per-feature", p.penalties, p.hyperparameters);
    const auto own = folds.estimator(family);
    own->set_tolerances(1e-12, 1e-12);
    const auto expected = own->estimate(theta, {});
    auto problems = make_problems(p);
    ASSERT_EQ(problems.size(), held_out ? 1U : 3U);
    std::vector<std::unique_ptr<bilevel::InnerSolver<Vec>>> inner;
    for (const char* method : {"exact", "implicit-cg", "ep-central"}) {
      std::vector<std::unique_ptr<bilevel::Estimator<Vec>>> estimators;
      for (auto& problem : problems) {
        inner.push_back(bilevel::make_inner_solver<Vec>("newton", *problem));
        estimators.push_back(bilevel::make_estimator<Vec>(method, *problem, *inner.back()));
      }
      const std::vector<double> weights(problems.size(), 1.0 / static_cast<double>(problems.size()));
      bilevel::SumOfEstimators together(std::move(estimators), weights);
      together.set_tolerances(1e-12, 1e-12);
      const auto estimate = together.estimate(theta, {});
      EXPECT_NEAR(estimate.outer_value, expected.outer_value, 1e-10) << method;
      EXPECT_LE((estimate.gradient - expected.gradient).norm(),
                (std::string_view(method) == "ep-central" ? 1e-5 : 1e-9))
          << method;
    }
  }
  EXPECT_THROW(make_problem(bilevel::data::make_dataset(x, Vec(x.col(0))), {}), InvalidInput);
  TuneOptions held = ridge(Penalty::global);
  held.validation = 0.25;
  EXPECT_EQ(make_problem(bilevel::data::make_dataset(x, Vec(x.col(0))), held)->initial_theta().size(), 1);
  TuneOptions lasso;
  lasso.model = Model::lasso;
  EXPECT_THROW(make_problems(prepare(bilevel::data::make_dataset(x, Vec(x.col(0))), lasso)), InvalidInput);
}

/// The prior of many penalties, and the box, are those of tune: its optimum is where this descent ends.
TEST(DataProblem, WithItsPriorEndsWhereTuneDoes) {
  const Mat x = random(120, 3);
  const auto data = bilevel::data::make_dataset(x, Vec(x.col(0) + random(240, 1).col(0).tail(120)));
  for (const Model model : {Model::ridge, Model::lasso}) {
    SCOPED_TRACE(name(model));
    TuneOptions options = ridge(Penalty::per_feature);
    options.model = model;
    options.folds = 3;
    const Prepared p = prepare(data, options);
    const Tuned tuned = tune(p, options);
    Posed posed = pose(p, options);
    ASSERT_EQ(posed.folds.size(), 3U);
    ASSERT_TRUE(tuned.choice.precision);
    EXPECT_NEAR(posed.prior.precision * p.target_scale * p.target_scale, *tuned.choice.precision,
                1e-9 * *tuned.choice.precision);
    std::vector<std::unique_ptr<bilevel::InnerSolver<Vec>>> inner;
    std::vector<std::unique_ptr<bilevel::Estimator<Vec>>> estimators;
    for (PosedFold& fold : posed.folds) {
      inner.push_back(fold.inner ? std::move(fold.inner)
                                 : bilevel::make_inner_solver<Vec>("newton", *fold.problem));
      estimators.push_back(make_estimator(fold.problem ? "implicit-direct" : "implicit-cg-preconditioned",
                                          fold, *inner.back()));
    }
    const auto mean = with_prior(
        std::make_unique<bilevel::SumOfEstimators>(std::move(estimators), std::vector<double>(3, 1.0 / 3)),
        posed.prior);
    bilevel::SolveOptions how;
    how.gradient_tolerance = 1e-9;
    how.box = {Vec::Constant(3, posed.lower), Vec::Constant(3, posed.upper)};
    const auto optimizer = bilevel::make_optimizer("lbfgs", 0);
    const bilevel::Summary s = bilevel::solve<Vec>(*mean, *optimizer, posed.start, how);
    EXPECT_LE(s.outer_value, tuned.summary.outer_value + 1e-9);
    EXPECT_LE((s.theta - tuned.summary.theta).norm(), 1e-3) << s.message;
  }
  TuneOptions automatic;
  EXPECT_THROW(pose(prepare(data, automatic), automatic), InvalidInput);
}

/// Near the optimum the gradient is small, and its two parts, of the data and of the prior, are not: the
/// verdict is on the whole.
TEST(DataProblem, WithItsPriorIsJudgedAsAWhole) {
  const Mat x = random(120, 8), noise = random(240, 1);
  TuneOptions options = ridge(Penalty::per_feature);
  options.validation = 0.3;
  const Prepared p = prepare(
      bilevel::data::make_dataset(x, Vec(x.col(0) + 0.3 * x.col(1) + noise.col(0).tail(120))), options);
  const Tuned tuned = tune(p, options);
  Posed posed = pose(p, options);
  const auto inner = bilevel::make_inner_solver<Vec>("newton", *posed.folds[0].problem);
  const auto whole = with_prior(make_estimator("implicit-cg", posed.folds[0], *inner), posed.prior);
  whole->set_tolerances(1e-3, 0.1);
  whole->set_outer_tolerance(1e-9);
  const bilevel::Estimate<Vec> e = whole->estimate(tuned.summary.theta, {});
  ASSERT_GT(e.certificate.bound, 0.1 * e.gradient.norm());
  EXPECT_NE(e.certificate.verdict, bilevel::Verdict::trusted);
}

/// What lasso cannot serve is refused with a reason; the others agree with the dense reference.
TEST(DataProblem, LassoIsAnEquilibrium) {
  const Mat x = random(90, 4);
  TuneOptions options = ridge(Penalty::per_feature);
  options.model = Model::elastic_net;
  options.validation = 0.3;
  options.prior_width = bilevel::everywhere;
  const Prepared p = prepare(
      bilevel::data::make_dataset(x, Vec(300 * x.col(0) + 100 * random(180, 1).col(0).tail(90))), options);
  Posed posed = pose(p, options);
  PosedFold& fold = posed.folds.front();
  ASSERT_EQ(posed.start.size(), 5);
  const auto gradient = [&](const char* method) {
    const auto estimator = make_estimator(method, fold, *fold.inner);
    estimator->set_tolerances(1e-12, 1e-12);
    return estimator->estimate(posed.start, {});
  };
  const auto exact = gradient("exact");
  EXPECT_GT(exact.gradient.norm(), 1e-3);
  for (const char* method : {"implicit-cg", "implicit-direct", "implicit-cg-preconditioned"})
    EXPECT_LE((gradient(method).gradient - exact.gradient).norm(), 1e-8 * exact.gradient.norm()) << method;
  EXPECT_LE((gradient("finite-difference").gradient - exact.gradient).norm(), 1e-4 * exact.gradient.norm());
  EXPECT_THROW(gradient("ep-central"), InvalidInput);
}

}  // namespace diagnosis_test
}  // namespace bilevel::models
