// What is said of data, against what was planted in them; and the problems that data pose.

#include <bilevel/models/diagnosis.hpp>

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/data/make_dataset.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/sum_of_estimators.hpp>
#include <bilevel/models/problem.hpp>

#include "models/folds.hpp"

namespace bilevel::models {
namespace {

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

const DataFinding& finding(const std::vector<DataFinding>& all, const std::string& name) {
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
  const DataFinding& c = finding(all, "collinear-columns");
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

}  // namespace
}  // namespace bilevel::models
