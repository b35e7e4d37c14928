// The tuning itself: never worse than the grid it starts from, certified, the same every time, and what it
// says about its losses agrees with a computation of its own.

#include <bilevel/models/tune.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>
#include <Eigen/Cholesky>
#include <nlohmann/json.hpp>

#include <bilevel/problems/kernels.hpp>

#include "models/folds.hpp"
#include "scratch.hpp"
#include "task.hpp"

namespace bilevel::models {
namespace tuning_test {

using bilevel::problems::kernels::Loss;

using Mat = Eigen::MatrixXd;

/// Real data; empty where there are none.
std::string data_folder() {
  const char* named = std::getenv("BILEVEL_DATA");
  const std::string path = named ? named : BILEVEL_DATA_DEFAULT;
  return std::filesystem::is_directory(path) ? path : std::string();
}

/// One penalty a feature, of which nothing is believed beforehand, in a box that stays as it is.
Task each_its_own() {
  Task task;
  task.penalty = Penalty::per_feature;
  task.prior_width = bilevel::everywhere;
  task.bounds_given = true;
  return task;
}

Task example() {
  Task task = each_its_own();
  task.example = true;
  return task;
}

/// What holds for every run that ends well.
void expect_good(const Task& task, const Prepared& p, const Tuned& r) {
  EXPECT_EQ(r.summary.status, bilevel::Status::converged) << r.summary.message;
  EXPECT_EQ(r.summary.certificate.verdict, bilevel::Verdict::trusted) << r.summary.certificate.reason;
  EXPECT_LE(r.summary.gradient_norm, task.tolerance_for(false));
  EXPECT_EQ(r.points.size(), static_cast<std::size_t>(task.grid));
  EXPECT_EQ(r.grid_fits, static_cast<long>(task.grid * static_cast<int>(p.folds.size())));
  double least = 1e300;
  for (const GridPoint& point : r.points) {
    least = std::min(least, point.validation_loss);
    EXPECT_GE(point.log_lambda, task.lower);
    EXPECT_LE(point.log_lambda, task.upper);
  }
  EXPECT_NEAR(r.grid.validation_loss, least, 1e-5 * std::abs(least) + 1e-9);
  EXPECT_LE(r.chosen.validation_loss, r.grid.validation_loss);
  ASSERT_EQ(r.chosen.theta.size(), p.penalties.count + p.elastic());
  EXPECT_GE(r.chosen.theta.minCoeff(), task.lower);
  EXPECT_LE(r.chosen.theta.maxCoeff(), task.upper);
  EXPECT_EQ(r.chosen.test.has_value(), p.has_test);
  EXPECT_EQ(r.chosen.validation.rows, p.held_out ? p.validation_rows : p.training_rows);
  EXPECT_GT(r.seconds, 0);
}

/// The features of row i as the file has them.
Vec raw(const Prepared& p, Index i) {
  Vec out = Vec::Zero(static_cast<Index>(p.names.size()));
  p.samples.matrix->for_each(i, [&](Index j, double value) { out[j] = value; });
  return out.cwiseProduct(p.stored_scale) + p.stored_shift;
}

TEST(Tuning, TheExampleShowsItsStructure) {
  const Task task = example();
  const Prepared p = prepare(task);
  const Tuned r = tune(task, p, {});
  expect_good(task, p, r);
  EXPECT_EQ(r.summary.certificate.kind, bilevel::Kind::rigorous);
  EXPECT_LT(r.chosen.validation_loss, 0.95 * r.grid.validation_loss) << "sixty penalties should pay";
  EXPECT_LT(r.chosen.test->loss, r.grid.test->loss);
  double strong = 0, noise = 0;
  int strongs = 0, noises = 0;
  for (std::size_t j = 0; j < p.names.size(); ++j) {
    const double theta = r.chosen.theta[static_cast<Index>(j)];
    if (p.names[j].starts_with("strong")) strong += theta, ++strongs;
    if (p.names[j].starts_with("noise")) noise += theta, ++noises;
  }
  EXPECT_EQ(strongs, 4);
  EXPECT_EQ(noises, 40);
  EXPECT_LT(strong / strongs, noise / noises - 3);

  // The kept model, applied to the rows of the test as they stand in the file.
  double loss = 0, right = 0;
  Index rows = 0;
  for (const auto& [first, last] : p.final.validation)
    for (Index i = first; i < last; ++i, ++rows) {
      const Index d = static_cast<Index>(p.names.size());
      const double margin = raw(p, i).dot(r.chosen.raw.head(d)) + r.chosen.raw[d], y = (*p.samples.labels)[i];
      loss += std::log1p(std::exp(-y * margin));
      right += (margin > 0) == (y > 0);
    }
  EXPECT_NEAR(r.chosen.test->loss, loss / static_cast<double>(rows), 1e-10);
  EXPECT_NEAR(*r.chosen.test->accuracy, right / static_cast<double>(rows), 1e-12);
  EXPECT_EQ(r.chosen.test->rows, rows);
}

TEST(Tuning, TheSameEveryTimeWithAnyNumberOfThreads) {
  Task task = example();
  task.iterations = 12;
  const Prepared p = prepare(task);
  const Tuned first = tune(task, p, {});
  const auto expect_same = [&](const Tuned& r) {
    EXPECT_EQ(r.chosen.theta, first.chosen.theta);
    EXPECT_EQ(r.chosen.raw, first.chosen.raw);
    EXPECT_EQ(r.chosen.validation_loss, first.chosen.validation_loss);
    for (std::size_t k = 0; k < r.points.size(); ++k)
      EXPECT_EQ(r.points[k].validation_loss, first.points[k].validation_loss);
  };
  expect_same(tune(task, prepare(task), {}));
  const int before = bilevel::problems::kernels::threads();
  for (const int threads : {1, 3}) {
    bilevel::problems::kernels::set_threads(threads);
    expect_same(tune(task, p, {}));
  }
  bilevel::problems::kernels::set_threads(before);
  task.seed = 2;
  EXPECT_NE(tune(task, prepare(task), {}).chosen.theta, first.chosen.theta);
}

TEST(Tuning, AnInterruptedRunGoesOnToTheSameBits) {
  Task task = example();
  task.iterations = 15;
  const Prepared p = prepare(task);
  const Vec expected = tune(task, p, {}).chosen.theta;
  const std::string path = scratch("ckpt");
  for (const int stop : {1, 20, 22, 30}) {  // the first 21 reports are those of the grid
    SCOPED_TRACE(stop);
    TuneControl control;
    control.checkpoint = path;
    control.identity = "a run";
    int reports = 0;
    control.progress = [&](const std::string&) { ++reports; };
    control.interrupted = [&] { return reports >= stop; };
    const Tuned cut = tune(task, p, control);
    EXPECT_TRUE(cut.interrupted);
    EXPECT_EQ(std::filesystem::exists(path + ".grid"), stop > 1);
    EXPECT_EQ(std::filesystem::exists(path), stop > 21);
    if (stop <= 21) {
      EXPECT_EQ(cut.points.size(), static_cast<std::size_t>(stop - 1))
          << "the fit that was under way is not kept";
      EXPECT_FALSE(cut.chosen.fitted);
    }
    control.interrupted = [] { return false; };
    control.resume = true;
    control.forget = false;
    const Tuned whole = tune(task, p, control);
    EXPECT_FALSE(whole.interrupted);
    EXPECT_EQ(whole.chosen.theta, expected);
    // Somebody else's run is refused.
    control.identity = "another run";
    EXPECT_THROW(tune(task, p, control), InvalidInput);
    std::filesystem::remove(path);
    std::filesystem::remove(path + ".grid");
  }
}

/// The number of values in a grid's file.
std::size_t points_in(const std::string& path) {
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
  return j.is_discarded() ? 0 : j["run"]["points"].size();
}

TEST(Tuning, AnEndBetweenTheGridAndTheFirstEvaluationStillHasAModel) {
  Task task = example();
  const Prepared p = prepare(task);
  TuneControl control;
  control.checkpoint = scratch("between");
  control.grace = 60;
  int reports = 0;
  control.progress = [&](const std::string&) { ++reports; };
  control.interrupted = [&] { return reports >= task.grid && points_in(control.checkpoint + ".grid") == 21; };
  const Tuned cut = tune(task, p, control);
  EXPECT_TRUE(cut.interrupted);
  EXPECT_EQ(cut.points.size(), 21U);
  EXPECT_EQ(cut.summary.evaluations, 0);
  EXPECT_TRUE(std::filesystem::exists(control.checkpoint + ".grid")) << "it goes on from there";
  ASSERT_TRUE(cut.chosen.fitted);
  EXPECT_EQ(cut.chosen.theta, cut.grid.theta) << "the best single λ";
  EXPECT_TRUE(cut.chosen.test.has_value());
  for (const char* ending : {"", ".grid"}) std::filesystem::remove(control.checkpoint + ending);
}

TEST(Tuning, ATimeLimitAfterTheGridStillHasAModel) {
  Task task = example();
  task.penalty = Penalty::automatic;
  task.seconds = 3;
  const Prepared p = prepare(task);
  TuneControl control;
  control.grace = 60;
  control.progress = [&](const std::string& what) {
    if (what.find("looking closer") != std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(3100));
  };
  const Tuned cut = tune(task, p, control);
  EXPECT_EQ(cut.summary.status, bilevel::Status::time_limit) << cut.summary.message;
  EXPECT_FALSE(cut.interrupted);
  EXPECT_EQ(cut.choice.kind, "single");
  ASSERT_TRUE(cut.chosen.fitted && cut.grid.fitted);
  EXPECT_EQ(cut.chosen.theta, cut.grid.theta);
  EXPECT_TRUE(cut.chosen.test.has_value());
}

TEST(Tuning, ADamagedGridIsNotGoneOnWith) {
  Task task = example();
  const Prepared p = prepare(task);
  TuneControl control;
  control.checkpoint = scratch("grid_only");
  int reports = 0;
  control.progress = [&](const std::string&) { ++reports; };
  control.interrupted = [&] { return reports > 3; };
  tune(task, p, control);
  const std::string path = control.checkpoint + ".grid";
  std::string text;
  {
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_EQ(points_in(path), 3U);
  // A digit of a loss: the text stays a grid, the number becomes another one.
  const std::size_t at = text.find("\"points\":[[") + 16;
  ASSERT_TRUE(text[at] >= '0' && text[at] <= '9') << text.substr(0, at + 20);
  text[at] = text[at] == '9' ? '8' : static_cast<char>(text[at] + 1);
  std::ofstream(path) << text;
  control.resume = true;
  try {
    tune(task, p, control);
    ADD_FAILURE() << "accepted";
  } catch (const InvalidInput& error) {
    EXPECT_NE(std::string(error.what()).find("checksum"), std::string::npos) << error.what();
  }
  std::filesystem::remove(path);
}

/// Data of a known kind as a CSV file, which the next call replaces.
std::string generated(Model model, Index rows, Index features, std::uint64_t seed, bool holes = false) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const std::string path = scratch("generated.csv");
  std::ofstream out(path);
  for (Index j = 0; j < features; ++j) out << "x" << j << ",";
  out << "target\n";
  for (Index i = 0; i < rows; ++i) {
    double margin = 0.2;
    for (Index j = 0; j < features; ++j) {
      const double x = holes && uniform(engine) < 0.8 ? 0 : normal(engine) * (1 + static_cast<double>(j)) + 3;
      out << x << ",";
      if (j < 2) margin += (j ? -0.8 : 0.8) * (x - 3) / (1 + static_cast<double>(j));
    }
    if (model == Model::softmax)
      out << "k" << (margin + normal(engine) > 0.8 ? 2 : margin + normal(engine) > -0.5 ? 1 : 0) << "\n";
    else if (model.classifies())
      out << (uniform(engine) < 1 / (1 + std::exp(-2 * margin)) ? "yes" : "no") << "\n";
    else if (model == Model(Loss::gamma))
      out << std::exp(margin) * std::gamma_distribution<double>(3, 1. / 3)(engine) << "\n";
    else if (model.loss_kind().predicted(1) != 1)  // counts
      out << std::poisson_distribution<int>(std::exp(std::min(2.0, margin)))(engine) << "\n";
    else
      out << 20 + 5 * (margin + 0.5 * normal(engine)) << "\n";
  }
  return path;
}

TEST(Tuning, EveryModelEndsCertified) {
  int number = 0;
  for (const Model model : {Model::ridge, Model::logistic, Model::softmax, Model::poisson, Model::huber,
                            Model::squared_hinge, Model(Loss::gamma), Model(Loss::negative_binomial)})
    for (const Penalty penalty :
         {Penalty::global, Penalty::per_feature, Penalty::per_group, Penalty::per_class}) {
      if (penalty == Penalty::per_class && model != Model::softmax) continue;
      for (const bool sparse : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} sparse {}", name(model), name(penalty), sparse));
        Task task = each_its_own();
        task.data = generated(model, 200, 5, 11, sparse);
        task.model = model;
        task.penalty = penalty;
        task.reading.storage = sparse ? bilevel::data::Storage::sparse : bilevel::data::Storage::dense;
        if (++number % 2) task.validation = "0.3";
        task.folds = 3;
        const Prepared p = prepare(task);
        expect_good(task, p, tune(task, p, {}));
      }
    }
}

/// Mean validation loss of ridge over the folds and its training loss, from the file's own numbers: explicit
/// standardised features, a column of ones, normal equations.
double ridge_by_hand(const Prepared& p, const Vec& theta, double* train = nullptr) {
  const Index d = static_cast<Index>(p.names.size());
  double validation = 0;
  if (train) *train = 0;
  for (const Split& part : p.folds) {
    std::vector<Index> rows, judges;
    for (const auto& [a, b] : part.training)
      for (Index i = a; i < b; ++i) rows.push_back(i);
    for (const auto& [a, b] : part.validation)
      for (Index i = a; i < b; ++i) judges.push_back(i);
    const auto target = [&](Index i) { return (*p.samples.labels)[i] * p.target_scale + p.target_shift; };
    const auto n = static_cast<double>(rows.size());
    Vec mean = Vec::Zero(d), square = Vec::Zero(d);
    for (const Index i : rows) mean += raw(p, i) / n;
    for (const Index i : rows) square += (raw(p, i) - mean).cwiseAbs2() / n;
    const auto row = [&](Index i) {
      Vec z(d + 1);
      z << (raw(p, i) - mean).cwiseQuotient(square.cwiseSqrt()), 1;
      return z;
    };
    Mat h = Mat::Zero(d + 1, d + 1);
    Vec c = Vec::Zero(d + 1);
    for (const Index i : rows) {
      h += row(i) * row(i).transpose() / n;
      c += row(i) * target(i) / n;
    }
    for (Index j = 0; j < d; ++j) h(j, j) += std::exp(theta[p.penalties.of[static_cast<std::size_t>(j)]]);
    const Vec phi = h.ldlt().solve(c);
    const auto loss = [&](const std::vector<Index>& some) {
      double sum = 0;
      for (const Index i : some) sum += 0.5 * std::pow(row(i).dot(phi) - target(i), 2);
      return sum / static_cast<double>(some.size()) / static_cast<double>(p.folds.size());
    };
    validation += loss(judges);
    if (train) *train += loss(rows);
  }
  return validation;
}

TEST(Tuning, RidgeAgreesWithNormalEquationsFoldByFold) {
  for (const bool sparse : {false, true}) {
    Task task = each_its_own();
    task.data = generated(Model::ridge, 90, 6, 5, sparse);
    task.model = Model::ridge;
    task.tolerance = 1e-8;
    task.reading.storage = sparse ? bilevel::data::Storage::sparse : bilevel::data::Storage::dense;
    const Prepared p = prepare(task);
    const Tuned r = tune(task, p, {});
    expect_good(task, p, r);
    for (const Fitted* fitted : {&r.chosen, &r.grid, &r.standard}) {
      double train = 0;
      const Vec theta = fitted == &r.chosen ? fitted->theta : Vec::Constant(6, fitted->theta[0]);
      EXPECT_NEAR(fitted->validation_loss, ridge_by_hand(p, theta, &train), 1e-8);
      EXPECT_NEAR(fitted->train_loss, train, 1e-8);
    }
    for (const GridPoint& point : r.points)
      EXPECT_NEAR(point.validation_loss, ridge_by_hand(p, Vec::Constant(6, point.log_lambda)), 1e-5);
    // The kept model, applied to the test rows as they stand in the file.
    double square = 0;
    for (const auto& [first, last] : p.final.validation)
      for (Index i = first; i < last; ++i) {
        const double target = (*p.samples.labels)[i] * p.target_scale + p.target_shift;
        square += std::pow(raw(p, i).dot(r.chosen.raw.head(6)) + r.chosen.raw[6] - target, 2);
      }
    EXPECT_NEAR(*r.chosen.test->rmse, std::sqrt(square / static_cast<double>(p.test_rows)), 1e-9);
    // The projected gradient, by differences of the whole computation, in units of the target.
    for (Index j = 0; j < 6; ++j) {
      const auto value = [&](double shift) {
        Vec moved = r.chosen.theta;
        moved[j] += shift;
        return ridge_by_hand(p, moved);
      };
      const double slope = (value(1e-3) - value(-1e-3)) / 2e-3, theta = r.chosen.theta[j];
      const auto bound = at_bound(r, theta);
      EXPECT_LE(slope, bound == "lower" ? 1e300 : 1e-5) << p.names[static_cast<std::size_t>(j)];
      EXPECT_GE(slope, bound == "upper" ? -1e300 : -1e-5) << p.names[static_cast<std::size_t>(j)];
    }
  }
}

TEST(Tuning, FurtherStartsNeverHurt) {
  Task task = example();
  task.penalty = Penalty::per_group;
  task.group_separator = '_';
  const Prepared p = prepare(task);
  const double one = tune(task, p, {}).chosen.validation_loss;
  task.starts = {-5, 3};
  EXPECT_LE(tune(task, p, {}).chosen.validation_loss, one + 1e-12);
}

TEST(Tuning, NoStepsAtAllKeepTheGrid) {
  Task task = example();
  task.iterations = 0;
  task.grid = 5;
  const Prepared p = prepare(task);
  const Tuned r = tune(task, p, {});
  EXPECT_EQ(r.summary.status, bilevel::Status::iteration_limit);
  EXPECT_NEAR(r.chosen.validation_loss, r.grid.validation_loss, 1e-12);
}

TEST(Tuning, ManyPenaltiesAndFewJudgesAreWarnedAbout) {
  Task task = each_its_own();
  task.data = generated(Model::ridge, 24, 9, 3);
  task.model = Model::ridge;
  task.test = "0";
  task.validation = "0.3";
  const Prepared p = prepare(task);
  const Tuned r = tune(task, p, {});
  ASSERT_FALSE(r.warnings.empty());
  EXPECT_NE(r.warnings[0].find("TuneOptions.test"), std::string::npos);
  EXPECT_NE(r.warnings[0].find("TuneOptions.folds"), std::string::npos);
}

TEST(Tuning, PenaltiesThatOverfitTheirJudgesAreWarnedAbout) {
  // Labels that hardly depend on thirty features, few rows to judge by, and many to test on.
  const unsigned seed = 7;
  std::mt19937 draw(seed);
  std::normal_distribution<double> normal;
  const auto write = [&](const std::string& name, int rows) {
    const std::string path = scratch(name);
    std::ofstream out(path);
    for (int i = 0; i < rows; ++i) {
      double first = 0;
      for (int j = 0; j < 30; ++j) {
        const double x = normal(draw);
        if (j == 0) first = x;
        out << x << ',';
      }
      out << (0.5 * first + normal(draw) > 0 ? 1 : 0) << '\n';
    }
    return path;
  };
  Task task = each_its_own();
  task.data = write("few.csv", 60);
  task.test = write("many.csv", 4000);
  task.model = Model::logistic;
  task.validation = "0.3";
  const Tuned held = tune(task, prepare(task), {});
  ASSERT_LT(held.chosen.validation_loss, held.grid.validation_loss) << "seed " << seed;
  ASSERT_GT(held.chosen.test->loss, held.grid.test->loss) << "seed " << seed;
  ASSERT_FALSE(held.warnings.empty());
  EXPECT_NE(held.warnings.back().find("overfit"), std::string::npos) << held.warnings.back();
  EXPECT_NE(held.warnings.back().find("TuneOptions.folds = 5"), std::string::npos) << held.warnings.back();

  task.penalty = Penalty::global;
  task.test = scratch("many.csv");
  for (const std::string& warning : tune(task, prepare(task), {}).warnings)
    EXPECT_EQ(warning.find("overfit"), std::string::npos) << warning;
}

TEST(Tuning, ADescentThatStartsOnAPlateauGetsASecondStart) {
  // Where all features together are worth nothing the best single λ is at the upper bound, where the loss is
  // flat; some of them help by themselves all the same.
  int plateaus = 0;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    std::mt19937 draw(seed);
    std::normal_distribution<double> normal;
    const std::string path = scratch("plateau.csv");
    std::ofstream out(path);
    for (int i = 0; i < 60; ++i) {
      for (int j = 0; j < 40; ++j) out << normal(draw) << ',';
      out << normal(draw) << '\n';
    }
    out.close();
    Task task = each_its_own();
    task.data = path;
    task.model = Model::ridge;
    task.test = "0";
    task.lower = -20;
    task.upper = 20;
    const Tuned r = tune(task, prepare(task), {});
    if (r.grid.theta[0] < 15) continue;
    ++plateaus;
    EXPECT_EQ(r.summary.status, bilevel::Status::converged) << "seed " << seed << ": " << r.summary.message;
    EXPECT_GT(r.summary.iterations, 0) << "seed " << seed;
    EXPECT_LT(r.chosen.validation_loss, 0.98 * r.grid.validation_loss) << "seed " << seed;
  }
  EXPECT_GE(plateaus, 1);
}

struct RealSet {
  std::string file, labels;
  Model model;
  long skip;
};

void PrintTo(const RealSet& set, std::ostream* out) {
  *out << set.file << ", " << name(set.model);
}

class OnRealData : public testing::TestWithParam<RealSet> {};

TEST_P(OnRealData, OnePenaltyAFeatureIsNeverWorseThanTheBestSingleOne) {
  const std::string folder = data_folder();
  if (folder.empty()) GTEST_SKIP() << "no data: set BILEVEL_DATA to the folder of the real sets";
  Task task = each_its_own();
  task.data = folder + "/" + GetParam().file;
  if (!GetParam().labels.empty()) task.reading.labels = folder + "/" + GetParam().labels;
  task.reading.skip = GetParam().skip;
  task.model = GetParam().model;
  const Prepared p = prepare(task);
  const Tuned r = tune(task, p, {});
  expect_good(task, p, r);
  // The best single λ of all, found by tuning it, not only that of the grid.
  Task single = task;
  single.penalty = Penalty::global;
  const Prepared whole = prepare(single);
  const Tuned best = tune(single, whole, {});
  expect_good(single, whole, best);
  const double slack = 1e-9 * std::abs(r.grid.validation_loss);
  EXPECT_LE(best.chosen.validation_loss, r.grid.validation_loss + slack);
  EXPECT_LE(r.chosen.validation_loss, best.chosen.validation_loss + slack);
}

INSTANTIATE_TEST_SUITE_P(Tuning, OnRealData,
                         testing::Values(RealSet{"housing/housing_scale", "", Model::ridge, 0},
                                         RealSet{"sklearn/breast_cancer.csv", "", Model::logistic, 1},
                                         RealSet{"sklearn/breast_cancer.csv", "", Model::squared_hinge, 1},
                                         RealSet{"housing/housing_scale", "", Model::lasso, 0},
                                         RealSet{"housing/housing_scale", "", Model::elastic_net, 0},
                                         RealSet{"cpusmall/227_cpu_small.tsv.gz", "", Model::lasso, 0},
                                         RealSet{"cpusmall/227_cpu_small.tsv.gz", "", Model::elastic_net, 0},
                                         RealSet{"sklearn/wine_data.csv", "", Model::softmax, 1},
                                         RealSet{"sklearn/diabetes_data_raw.csv.gz",
                                                 "sklearn/diabetes_target.csv.gz", Model::ridge, 0},
                                         RealSet{"abalone/abalone.data", "", Model::ridge, 0},
                                         RealSet{"abalone/abalone.data", "", Model::poisson, 0},
                                         RealSet{"housing/housing_scale", "", Model::huber, 0}),
                         [](const testing::TestParamInfo<RealSet>& set) {
                           std::string text = set.param.file.substr(set.param.file.rfind('/') + 1);
                           text = text.substr(0, text.find('.')) + "_" + std::string(name(set.param.model));
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

}  // namespace tuning_test
}  // namespace bilevel::models
