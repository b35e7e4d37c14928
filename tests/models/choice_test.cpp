// How penalties are chosen: the score test against its definition, the prior, the adaptive family, and what
// the whole procedure answers on data whose truth is known.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "models/folds.hpp"
#include "models/score_test.hpp"
#include "scratch.hpp"
#include "task.hpp"

namespace bilevel::models {
namespace {

using Mat = Eigen::MatrixXd;

/// `strong` of the features carry all of the signal, in shares that fall slowly; the others carry none.
struct Truth {
  Index rows = 200, features = 20, strong = 3;
  Model model = Model::ridge;
  double noise = 1;
  unsigned seed = 5;
  bool weights = false;
  double level = 0;  // of log counts

  std::string write(const std::string& file) const {
    std::mt19937_64 draw(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const std::string path = scratch(file);
    std::ofstream out(path);
    for (Index j = 0; j < features; ++j) out << "x" << j << ",";
    out << (weights ? "w," : "") << "target\n";
    for (Index i = 0; i < rows; ++i) {
      double margin = 0;
      for (Index j = 0; j < features; ++j) {
        const double x = normal(draw);
        out << x << ",";
        if (j < strong) margin += (j % 2 ? -1.0 : 1.0) * x;
      }
      if (weights) out << 0.5 + uniform(draw) << ",";
      margin = 1.5 * margin / std::sqrt(static_cast<double>(strong));
      if (model == Model::softmax)
        out << "k" << (margin + noise * normal(draw) > 1 ? 2 : margin + noise * normal(draw) > -1 ? 1 : 0);
      else if (model.classifies())
        out << (uniform(draw) < 1 / (1 + std::exp(-margin / noise)) ? "yes" : "no");
      else if (model == Model::poisson)
        out << std::poisson_distribution<int>(std::exp(level + 0.5 * margin))(draw);
      else
        out << margin + noise * normal(draw);
      out << "\n";
    }
    return path;
  }
};

Task task_of(const Truth& truth, const std::string& file = "truth.csv") {
  Task task;
  task.data = truth.write(file);
  task.model = truth.model;
  if (truth.weights) task.reading.weights = "w";
  return task;
}

TEST(Choice, TailOfChiSquareAgreesWithItsClosedForms) {
  for (const double x : {1e-3, 0.3, 1.0, 2.5, 7.0, 30.0, 90.0}) {
    EXPECT_NEAR(chi_square_tail(x, 1), std::erfc(std::sqrt(x / 2)), 1e-14);
    EXPECT_NEAR(chi_square_tail(x, 2) / std::exp(-x / 2), 1, 1e-12);
    EXPECT_NEAR(chi_square_tail(x, 6) / (std::exp(-x / 2) * (1 + x / 2 + x * x / 8)), 1, 1e-12);
    // Q(a + 1, z) = Q(a, z) + zᵃe^(−z)/Γ(a + 1), whatever a is.
    const double nu = 3.7, a = nu / 2, z = x / 2;
    EXPECT_NEAR(chi_square_tail(x, nu + 2),
                chi_square_tail(x, nu) + std::exp(a * std::log(z) - z - std::lgamma(a + 1)), 1e-14);
  }
  EXPECT_EQ(chi_square_tail(0, 3), 1);
}

/// The score test from its definition: hypergradients of rows by differences of whole solves.
TEST(Choice, ScoreTestIsWhatItsDefinitionSays) {
  for (const Model model : {Model::ridge, Model::logistic, Model::softmax, Model::poisson, Model::huber,
                            Model::lasso, Model::elastic_net})
    for (const bool held_out : {false, true}) {
      SCOPED_TRACE(fmt::format("{} held out {}", name(model), held_out));
      Truth truth{.rows = 60, .features = 5, .strong = 2, .model = model};
      truth.weights = held_out;
      Task task = task_of(truth);
      task.penalty = Penalty::per_feature;
      task.test = "0";
      if (held_out) task.validation = "0.4";
      task.folds = 3;
      const Prepared p = prepare(task);
      Folds folds(p);
      const Vec theta = Vec::Constant(p.penalties.count + p.elastic(), -3.0);
      const auto at = [&](const Vec& where) { return folds.settle(where, {}, 1e-12, false); };
      const auto settled = at(theta);
      const Index parts = p.penalties.count;
      // Row by row, in the units that are worked in.
      const double scale2 = p.target_scale * p.target_scale;
      const auto losses = [&](const Vec& where) {
        const std::vector<double> each = folds.judged(at(where)).losses();
        return Vec(Eigen::Map<const Vec>(each.data(), static_cast<Index>(each.size())) / scale2);
      };
      const Index n = losses(theta).size();
      Mat c(parts, n);
      for (Index j = 0; j < parts; ++j) {
        const double h = 1e-3;
        Vec up = theta, down = theta, up2 = theta, down2 = theta;
        up[j] += h, down[j] -= h, up2[j] += 2 * h, down2[j] -= 2 * h;
        c.row(j) = (8 * (losses(up) - losses(down)) - (losses(up2) - losses(down2))) / (12 * h);
      }
      c.rowwise() -= Eigen::RowVectorXd(c.colwise().mean());
      Vec omega(n);
      Index place = 0;
      for (const auto& own : folds.row_weights()) {
        double total = 0;
        for (const double w : own) total += w;
        for (const double w : own) omega[place++] = w / total / static_cast<double>(folds.count());
      }
      const Vec g = c * omega;
      const Mat apart = (c.colwise() - g) * omega.asDiagonal();
      const Mat j = apart * apart.transpose();
      const double rho = g.squaredNorm() / j.trace(), nu = std::pow(j.trace(), 2) / j.squaredNorm();

      const auto rows = folds.row_hypergradients(theta, settled);
      const Score exact = score_test(rows, folds.row_weights(), parts, 1);
      EXPECT_NEAR(exact.rho, rho, 1e-5 * rho);
      EXPECT_NEAR(exact.nu, nu, 1e-5 * nu);
      EXPECT_NEAR(exact.p, chi_square_tail(rho * nu, nu), 1e-5);
      // By random mixtures of rows, as for models too large to be asked row by row: the mean over seeds.
      double trace = 0, square = 0;
      const int seeds = 40;
      for (int seed = 1; seed <= seeds; ++seed) {
        const Score mixed = score_test(rows, folds.row_weights(), parts, static_cast<unsigned>(seed), 0);
        trace += g.squaredNorm() / mixed.rho / seeds;
        square += 1 / mixed.nu / seeds;
      }
      EXPECT_NEAR(trace / j.trace(), 1, 0.08);
      EXPECT_NEAR(square * nu, 1, 0.15);
    }
}

TEST(Choice, ScaleOfTheLossMakesItALikelihood) {
  const auto scale = [](const Truth& truth) {
    Task task = task_of(truth);
    task.penalty = Penalty::global;
    const Prepared p = prepare(task);
    Folds folds(p);
    const auto settled = folds.settle(Vec::Constant(1, -6.0), {}, 1e-10, false);
    const double s = folds.likelihood_scale(settled) * p.target_scale * p.target_scale;
    return std::pair(s, folds.value(settled) * p.target_scale * p.target_scale);
  };
  // Squared errors: the variance of the noise. Likelihoods: one, but for the noise of the estimate.
  const auto [squared, loss] = scale({.rows = 2000, .noise = 0.7});
  EXPECT_NEAR(squared, 2 * loss, 1e-9 * loss);
  EXPECT_NEAR(squared, 0.49, 0.04);
  EXPECT_EQ(scale({.model = Model::logistic}).first, 1);
  EXPECT_NEAR(scale({.rows = 8000, .features = 4, .model = Model::poisson}).first, 1, 0.06);
}

/// A table of the margins' own making, as a closed form: the gradient of the whole objective vanishes.
TEST(Choice, ThePriorIsPartOfWhatIsMinimised) {
  Task task = task_of({.rows = 80, .features = 6, .strong = 2});
  task.penalty = Penalty::per_feature;
  task.tolerance = 1e-9;
  const Prepared p = prepare(task);
  const Tuned r = tune(task, p, {});
  EXPECT_EQ(r.choice.kind, "per-feature");
  ASSERT_EQ(r.summary.status, bilevel::Status::converged) << r.summary.message;
  EXPECT_EQ(r.summary.certificate.kind, bilevel::Kind::rigorous);
  ASSERT_TRUE(r.choice.precision);
  // s/(nω²) with the variance of the held-out residuals for s; folds count alike, not rows.
  EXPECT_NEAR(*r.choice.precision, 2 * r.grid.validation_loss / (80 * 0.8 * 0.25), 2e-3 * *r.choice.precision);
  Folds folds(p);
  const auto objective = [&](const Vec& theta) {
    const double value = folds.value(folds.settle(theta, {}, 1e-13, false)) * r.loss_scale;
    return value + 0.5 * *r.choice.precision * (theta.array() - r.grid.theta[0]).square().sum();
  };
  const Vec theta = r.chosen.theta;
  EXPECT_NEAR(objective(theta), r.summary.outer_value * r.loss_scale, 1e-10);
  for (Index j = 0; j < theta.size(); ++j) {
    const auto value = [&](double step) {
      Vec moved = theta;
      moved[j] += step;
      return objective(moved);
    };
    const double h = 1e-2;
    EXPECT_NEAR((8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h), 0, 2e-8);
  }
  // Narrow, it leaves one λ; without it the penalties run apart.
  const auto spread = [&](double width) {
    task.prior_width = width;
    const Vec found = tune(task, p, {}).chosen.theta;
    return found.maxCoeff() - found.minCoeff();
  };
  const double narrow = spread(1e-3), usual = theta.maxCoeff() - theta.minCoeff(), none = spread(bilevel::everywhere);
  EXPECT_LT(narrow, 1e-3);
  EXPECT_LT(narrow, usual);
  EXPECT_LT(usual, none);
}

TEST(Choice, FindsUselessColumnsAndKeepsOneLambdaWhereNothingDiffers) {
  // Few strong features among many useless ones: adaptive penalties, and better on rows that took no part.
  for (const Model model : {Model::ridge, Model::logistic, Model::softmax, Model::poisson, Model::huber,
                            Model::squared_hinge}) {
    SCOPED_TRACE(name(model));
    Truth truth{.rows = 250, .features = 60, .strong = 3, .model = model};
    Task task = task_of(truth);
    truth.rows = 2000, truth.seed = 99;
    task.test = truth.write("unseen.csv");
    const Prepared p = prepare(task);
    const Tuned r = tune(task, p, {});
    EXPECT_EQ(r.choice.kind, "adaptive");
    ASSERT_TRUE(r.choice.gain && r.choice.gain_error && r.choice.gamma && r.choice.score);
    EXPECT_GT(*r.choice.gain, *r.choice.gain_error);
    EXPECT_LT(r.chosen.test->loss, r.grid.test->loss);
    EXPECT_EQ(r.summary.certificate.verdict, bilevel::Verdict::trusted) << r.summary.message;
    ASSERT_EQ(r.chosen.log_lambda.size(), 60);
    EXPECT_LT(r.chosen.log_lambda.head(3).maxCoeff(), r.chosen.log_lambda.tail(57).mean());
    EXPECT_EQ(r.chosen.theta.size(), 2);
  }
  // In a box that a person gave every penalty stays in it, those of single folds too.
  Task boxed = task_of({.rows = 250, .features = 60, .strong = 3});
  // However narrow it is; 1e-12 is rounding.
  boxed.bounds_given = true;
  for (const double width : {3.0, 1.0, 0.2}) {
    boxed.lower = -width, boxed.upper = width;
    const Tuned kept = tune(boxed, prepare(boxed), {});
    if (width == 3) {
      EXPECT_EQ(kept.choice.kind, "adaptive");
    }
    EXPECT_GE(kept.chosen.log_lambda.minCoeff(), -width - 1e-12);
    EXPECT_LE(kept.chosen.log_lambda.maxCoeff(), width + 1e-12);
  }
  // All features alike: one λ, that of the grid, in most of the draws.
  int single = 0, same = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Task task = task_of({.rows = 200, .features = 8, .strong = 8, .seed = seed});
    const Tuned r = tune(task, prepare(task), {});
    single += r.choice.kind == "single";
    same += r.choice.kind == "single" && r.chosen.theta == r.grid.theta && r.chosen.test->loss == r.grid.test->loss;
  }
  EXPECT_GE(single, 6);
  EXPECT_GE(same, single - 1);
}

TEST(Choice, OneLambdaIsLookedForBetweenTheValuesOfTheGridWhereManyRowsJudge) {
  Task task = task_of({.rows = 1500, .features = 8, .strong = 8});
  const Tuned r = tune(task, prepare(task), {});
  ASSERT_EQ(r.choice.kind, "single");
  EXPECT_NE(r.chosen.theta[0], r.grid.theta[0]);
  EXPECT_LT(r.chosen.validation_loss, r.grid.validation_loss);
  EXPECT_EQ(r.summary.theta, r.chosen.theta) << "the certificate is of what is kept";
  EXPECT_EQ(r.summary.certificate.verdict, bilevel::Verdict::trusted);
  // A box that a person gave holds for it too.
  task.lower = r.grid.theta[0], task.upper = r.grid.theta[0] + 4, task.bounds_given = true;
  const Tuned boxed = tune(task, prepare(task), {});
  EXPECT_GE(boxed.summary.theta[0], task.lower);
}

TEST(Choice, AGainIsAGainWhereLossesAreBelowZero) {
  Task task = task_of({.rows = 250, .features = 60, .strong = 3, .model = Model::poisson, .level = 2});
  const Tuned r = tune(task, prepare(task), {});
  ASSERT_LT(r.grid.validation_loss, 0);
  ASSERT_EQ(r.choice.kind, "adaptive");
  EXPECT_GT(*r.choice.gain_error, 0);
  EXPECT_GT(*r.choice.gain, *r.choice.gain_error);
  EXPECT_NE(r.choice.answers[1].find("held-out loss -"), std::string::npos) << r.choice.answers[1];
}

TEST(Choice, TheKeptModelHasSizesOfTheKindThatTheFoldsJudgedBy) {
  Task task = task_of({.rows = 60, .features = 5, .strong = 2, .model = Model::lasso});
  const Prepared p = prepare(task);
  const Index n = 5;
  const Vec phi = (Vec(n + 1) << 1, -0.5, 2, 0, 0.1, 7).finished();
  const std::vector<Vec> all(p.folds.size() + 1, phi);
  // The strongest penalty leaves the intercept alone, which is zero in some folds and in others not.
  std::vector<Vec> alone(all.size(), Vec::Zero(n + 1));
  alone[0][n] = 0.3;
  const double rms = std::sqrt(phi.head(n).squaredNorm() / n);
  const Vec expected = -(phi.head(n).cwiseAbs() / rms).cwiseMax(0.02).array().log();
  const Family nothing_stands = adaptive_family(p, all, alone);
  EXPECT_TRUE(nothing_stands.final.slope.isApprox(expected, 1e-14));
  for (const auto& fold : nothing_stands.folds) EXPECT_EQ(fold.slope, nothing_stands.final.slope);
  for (Vec& each : alone) each.setOnes();
  const Family stands = adaptive_family(p, all, alone);
  EXPECT_TRUE(stands.final.slope.isApprox(0.5 * expected, 1e-14)) << "alone, all features are of one size";
  for (const auto& fold : stands.folds) EXPECT_EQ(fold.slope, stands.final.slope);
}

TEST(Choice, AnEndIsObeyedBeforeAFoldBegins) {
  for (const Model model : {Model::ridge, Model::lasso}) {
    Task task = task_of({.model = model});
    const Prepared p = prepare(task);
    Folds folds(p);
    const Vec theta = Vec::Constant(p.penalties.count, -3.0);
    const bilevel::StopToken stop([] { return true; }, 0);
    folds.obey(&stop);
    const auto settled = folds.settle(theta, {}, 1e-10, true);
    EXPECT_TRUE(Folds::cut_short(settled));
    for (const auto& each : settled) EXPECT_GT(each.phi.size(), 0);
  }
}

TEST(Choice, TheLowerEndOfTheBoxIsLoweredWhereThatHelps) {
  // Hardly any noise: every penalty is too much.
  Task task = task_of({.rows = 120, .features = 4, .strong = 4, .noise = 1e-6});
  task.penalty = Penalty::global;
  const Prepared p = prepare(task);
  const Tuned r = tune(task, p, {});
  EXPECT_LT(r.lower, -11);
  EXPECT_GT(r.points.size(), 21U);
  EXPECT_EQ(r.summary.certificate.verdict, bilevel::Verdict::trusted);
  task.bounds_given = true;
  const Tuned kept = tune(task, p, {});
  EXPECT_EQ(kept.lower, -10);
  EXPECT_EQ(kept.points.size(), 21U);
  EXPECT_LT(r.chosen.validation_loss, 0.5 * kept.chosen.validation_loss);
  ASSERT_FALSE(kept.warnings.empty());
  EXPECT_NE(kept.warnings[0].find("TuneOptions.lower"), std::string::npos) << kept.warnings[0];
}

TEST(Choice, AnInterruptedLoweringGoesOnToTheSameBits) {
  // Classes that can be told apart: the strong features want none of a penalty that the useless ones need.
  Task task = task_of({.rows = 60, .features = 10, .strong = 3, .model = Model::logistic, .noise = 0.1});
  task.penalty = Penalty::per_feature;
  task.prior_width = bilevel::everywhere;
  const Prepared p = prepare(task);
  const Tuned expected = tune(task, p, {});
  ASSERT_LT(expected.lower, expected.points.back().log_lambda) << "lowered after the grid";
  TuneControl control;
  control.checkpoint = scratch("wide.ckpt");
  control.identity = "a run";
  control.interrupted = [&] { return std::filesystem::exists(control.checkpoint + ".wide1"); };
  const Tuned cut = tune(task, p, control);
  EXPECT_TRUE(cut.interrupted);
  EXPECT_EQ(cut.summary.status, bilevel::Status::interrupted);
  control.interrupted = [] { return false; };
  control.resume = true;
  const Tuned whole = tune(task, p, control);
  EXPECT_FALSE(whole.interrupted);
  EXPECT_EQ(whole.chosen.theta, expected.chosen.theta);
  kept_run(control.checkpoint, task).forget();
}

TEST(Choice, AnInterruptedChoiceGoesOnToTheSameBits) {
  Task task = task_of({.rows = 120, .features = 12, .strong = 2});
  const Prepared p = prepare(task);
  int all = 0;
  TuneControl counting;
  counting.progress = [&](const std::string&) { ++all; };
  const Tuned expected = tune(task, p, counting);
  const std::string path = scratch("choice.ckpt");
  ASSERT_GT(all, 24);
  for (int stop = 19; stop < all; stop += 2) {
    SCOPED_TRACE(stop);
    TuneControl control;
    control.checkpoint = path;
    control.identity = "a run";
    int reports = 0;
    control.progress = [&](const std::string&) { ++reports; };
    control.interrupted = [&] { return reports >= stop; };
    const Tuned cut = tune(task, p, control);
    if (cut.interrupted) {
      EXPECT_TRUE(std::filesystem::exists(path + ".grid"));
      EXPECT_TRUE(!cut.reached.empty() || cut.chosen.theta.size() > 0);
    }
    control.interrupted = [] { return false; };
    control.resume = true;
    const Tuned whole = tune(task, p, control);
    EXPECT_FALSE(whole.interrupted);
    EXPECT_EQ(whole.choice.kind, expected.choice.kind);
    EXPECT_EQ(whole.chosen.theta, expected.chosen.theta);
    EXPECT_EQ(whole.chosen.raw, expected.chosen.raw);
    EXPECT_FALSE(kept_run(path, task).exists()) << "a run that is over is not kept";
  }
}

}  // namespace
}  // namespace bilevel::models
