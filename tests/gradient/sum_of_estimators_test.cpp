// Several problems that share θ: the sum by hand, the cutting of warm starts, failures, and threads.

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/gradient/sum_of_estimators.hpp>
#include <bilevel/problems/kernels.hpp>
#include <bilevel/problems/ridge.hpp>

#include <cmath>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

namespace bilevel {
namespace sum_of_estimators_test {

using Vec = Eigen::VectorXd;
using problems::Ridge;

/// A problem with all that estimating it takes.
struct Task {
  explicit Task(std::uint64_t seed)
      : problem(Ridge::random({.rows = 40 + 3 * static_cast<Index>(seed),
                               .validation_rows = 20,
                               .features = 6 + static_cast<Index>(seed % 4),
                               .strong = 2,
                               .penalty = problems::Penalty::global,
                               .seed = seed})),
        solver(make_inner_solver<Vec>("lbfgs", problem)),
        estimator(make_estimator<Vec>("implicit-cg", problem, *solver)) {}

  Ridge problem;
  std::unique_ptr<InnerSolver<Vec>> solver;
  std::unique_ptr<Estimator<Vec>> estimator;
};

/// Owned by the tasks; SumOfEstimators wants estimators of its own.
class Lent final : public Estimator<Vec> {
 public:
  explicit Lent(Estimator<Vec>& estimator) : estimator_(estimator) {}
  std::string_view name() const override { return estimator_.name(); }
  Estimate<Vec> estimate(const Vec& theta, const Warm<Vec>& warm) override {
    return estimator_.estimate(theta, warm);
  }
  void set_tolerances(double inner, double adjoint) override { estimator_.set_tolerances(inner, adjoint); }
  void set_outer_tolerance(double tolerance) override { estimator_.set_outer_tolerance(tolerance); }
  Vec initial_phi() const override { return estimator_.initial_phi(); }
  Vec initial_theta() const override { return estimator_.initial_theta(); }

 private:
  Estimator<Vec>& estimator_;
};

std::vector<std::unique_ptr<Task>> make_tasks(int count) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (int k = 1; k <= count; ++k) tasks.push_back(std::make_unique<Task>(static_cast<std::uint64_t>(k)));
  return tasks;
}

SumOfEstimators sum_of(const std::vector<std::unique_ptr<Task>>& tasks, std::vector<double> weights) {
  std::vector<std::unique_ptr<Estimator<Vec>>> lent;
  for (const auto& task : tasks) lent.push_back(std::make_unique<Lent>(*task->estimator));
  return {std::move(lent), std::move(weights)};
}

const std::vector<double> weights{0.5, 0.25, -0.125, 2};

TEST(SumOfEstimators, IsTheWeightedSum) {
  const auto alone = make_tasks(4), joined = make_tasks(4);
  SumOfEstimators sum = sum_of(joined, weights);
  for (const double theta : {-3.0, -1.0, 0.5}) {
    const Vec at = Vec::Constant(1, theta);
    sum.set_tolerances(1e-7, 1e-7);
    const Estimate<Vec> e = sum.estimate(at, {});
    double value = 0, corrected = 0, bound = 0, residual = 0, delta = 0, mu = 1e300;
    Vec gradient = Vec::Zero(1);
    long iterations = 0;
    Cost cost;
    Index place = 0;
    for (std::size_t k = 0; k < alone.size(); ++k) {
      alone[k]->estimator->set_tolerances(1e-7, 1e-7);
      const Estimate<Vec> own = alone[k]->estimator->estimate(at, {});
      value += weights[k] * own.outer_value;
      corrected += weights[k] * own.corrected_value;
      gradient += weights[k] * own.gradient;
      bound += std::abs(weights[k]) * own.certificate.bound;
      residual = std::max(residual, own.certificate.inner_residual);
      delta = std::max(delta, own.certificate.delta);
      mu = std::min(mu, own.certificate.mu);
      iterations += own.inner_iterations;
      cost += own.cost;
      ASSERT_EQ(e.phi.segment(place, own.phi.size()), own.phi) << k;
      ASSERT_EQ(e.pi.segment(place, own.pi.size()), own.pi) << k;
      place += own.phi.size();
      // The closed form, so that the two ways do not merely agree with each other.
      EXPECT_LE((own.gradient - *alone[k]->problem.outer_gradient(at)).norm(), own.certificate.bound);
    }
    EXPECT_EQ(e.phi.size(), place);
    EXPECT_NEAR(e.outer_value, value, 1e-14);
    EXPECT_NEAR(e.corrected_value, corrected, 1e-14);
    EXPECT_NEAR(e.gradient[0], gradient[0], 1e-14);
    EXPECT_GE(e.certificate.bound, bound);
    EXPECT_LE(e.certificate.bound, bound * (1 + 1e-9) + 1e-13);
    EXPECT_EQ(e.certificate.kind, Kind::rigorous);
    EXPECT_EQ(e.certificate.inner_residual, residual);
    EXPECT_EQ(e.certificate.delta, delta);
    EXPECT_EQ(e.certificate.mu, mu);
    EXPECT_EQ(e.inner_iterations, iterations);
    EXPECT_EQ(e.cost.inner_gradients, cost.inner_gradients);
    EXPECT_EQ(e.cost.hessian_products, cost.hessian_products);
    EXPECT_EQ(e.status, Status::converged);
  }
}

Estimate<Vec> made_up(double gradient, Kind kind, double bound) {
  Estimate<Vec> e;
  e.gradient = Vec::Constant(2, gradient);
  e.outer_value = e.corrected_value = gradient;
  e.phi = Vec::Constant(3, gradient);
  e.pi = Vec::Constant(3, -gradient);
  e.status = e.inner_status = e.adjoint_status = Status::converged;
  e.certificate.kind = kind;
  e.certificate.bound = bound;
  e.certificate.inner_residual = e.certificate.adjoint_residual = bound;
  e.certificate.reason = std::string(name(kind));
  return e;
}

TEST(SumOfEstimators, TheWeakestLinkDecides) {
  auto sure = made_up(1, Kind::rigorous, 1e-3), guess = made_up(2, Kind::estimated, 1e-4),
       nothing = made_up(3, Kind::none, INFINITY);
  const Estimate<Vec> both = combine({1, -1}, {sure, guess}, 1e-6);
  EXPECT_EQ(both.certificate.kind, Kind::estimated);
  EXPECT_EQ(both.certificate.reason, "estimated");
  EXPECT_EQ(both.gradient, Vec(Vec::Constant(2, -1)));
  EXPECT_NEAR(both.certificate.bound, 1.1e-3, 1e-12);
  EXPECT_EQ(both.certificate.verdict, Verdict::trusted);
  EXPECT_TRUE(std::isnan(both.certificate.delta)) << "one that is not known makes the largest unknown";

  const Estimate<Vec> hopeless = combine({1, 1, 1}, {sure, nothing, guess}, 1e-6);
  EXPECT_EQ(hopeless.certificate.kind, Kind::none);
  EXPECT_EQ(hopeless.certificate.verdict, Verdict::untrusted);
  EXPECT_EQ(hopeless.certificate.reason, "none");

  // The bounds of two large parts that cancel are judged by what is left.
  const Estimate<Vec> cancelled = combine({1, -1}, {sure, sure}, 1e-6);
  EXPECT_EQ(cancelled.certificate.verdict, Verdict::untrusted);
  EXPECT_EQ(combine({1, -1}, {sure, sure}, 1).certificate.verdict, Verdict::trusted);

  auto failed = guess;
  failed.status = failed.inner_status = Status::iteration_limit;
  failed.message = "ran out of steps";
  const Estimate<Vec> partly = combine({1, 1}, {sure, failed}, 1e-6);
  EXPECT_EQ(partly.status, Status::iteration_limit);
  EXPECT_EQ(partly.inner_status, Status::iteration_limit);
  EXPECT_EQ(partly.adjoint_status, Status::converged);
  EXPECT_EQ(partly.message, "part 2 of 2: ran out of steps");
  EXPECT_NE(partly.certificate.verdict, Verdict::trusted);

  auto broken = sure;
  broken.gradient[1] = NAN;
  EXPECT_EQ(combine({1, 1}, {broken, sure}, 1e-6).status, Status::not_finite);
  EXPECT_EQ(combine({1, 1}, {broken, sure}, 1e-6).certificate.verdict, Verdict::untrusted);
}

/// Remembers what it was given.
class Listening final : public Estimator<Vec> {
 public:
  Listening(Index size, Index thetas = 1) : size_(size), thetas_(thetas) {}
  std::string_view name() const override { return "listening"; }
  Estimate<Vec> estimate(const Vec& theta, const Warm<Vec>& warm) override {
    if (fails) throw std::runtime_error("part " + std::to_string(size_));
    heard = warm;
    Estimate<Vec> e = made_up(static_cast<double>(size_), Kind::rigorous, 0);
    e.gradient = Vec::Constant(theta.size(), 1);
    e.phi = Vec::Constant(size_, static_cast<double>(size_));
    e.pi = -e.phi;
    return e;
  }
  void set_tolerances(double i, double a) override { inner = i, adjoint = a; }
  void set_outer_tolerance(double t) override { outer = t; }
  Vec initial_phi() const override { return Vec::Constant(size_, 0.5 * static_cast<double>(size_)); }
  Vec initial_theta() const override { return Vec::Zero(thetas_); }

  Warm<Vec> heard;
  double inner = 0, adjoint = 0, outer = 0;
  bool fails = false;

 private:
  Index size_, thetas_;
};

struct Choir {
  Choir() {
    std::vector<std::unique_ptr<Estimator<Vec>>> estimators;
    for (const Index size : {3, 1, 4}) {
      auto one = std::make_unique<Listening>(size);
      voices.push_back(one.get());
      estimators.push_back(std::move(one));
    }
    sum = std::make_unique<SumOfEstimators>(std::move(estimators), std::vector<double>{1, 1, 1});
  }
  std::vector<Listening*> voices;
  std::unique_ptr<SumOfEstimators> sum;
};

TEST(SumOfEstimators, CutsWarmStartsAndPassesSettingsOn) {
  Choir choir;
  Vec start(8), expected(8);
  start << 3, 3, 3, 1, 4, 4, 4, 4;
  expected << 1.5, 1.5, 1.5, 0.5, 2, 2, 2, 2;
  EXPECT_EQ(choir.sum->initial_phi(), expected);
  const Vec theta = Vec::Zero(1);
  const Estimate<Vec> first = choir.sum->estimate(theta, {});
  for (const Listening* voice : choir.voices) EXPECT_FALSE(voice->heard.phi || voice->heard.pi);
  EXPECT_EQ(first.phi, start);
  Vec other = Vec::LinSpaced(8, 0, 7);
  choir.sum->estimate(theta, {other, first.pi});
  EXPECT_EQ(*choir.voices[0]->heard.phi, Vec(other.segment(0, 3)));
  EXPECT_EQ(*choir.voices[1]->heard.phi, Vec(other.segment(3, 1)));
  EXPECT_EQ(*choir.voices[2]->heard.phi, Vec(other.segment(4, 4)));
  EXPECT_EQ(*choir.voices[2]->heard.pi, Vec(Vec::Constant(4, -4)));
  // One that does not fit is no start at all; the other still is.
  choir.sum->estimate(theta, {Vec(Vec::Zero(7)), first.pi});
  for (const Listening* voice : choir.voices) {
    EXPECT_FALSE(voice->heard.phi);
    EXPECT_TRUE(voice->heard.pi);
  }
  choir.sum->set_tolerances(1e-3, 1e-4);
  choir.sum->set_outer_tolerance(1e-5);
  for (const Listening* voice : choir.voices) {
    EXPECT_EQ(voice->inner, 1e-3);
    EXPECT_EQ(voice->adjoint, 1e-4);
    EXPECT_EQ(voice->outer, 1e-5);
  }
}

TEST(SumOfEstimators, LetsExceptionsThroughAndGoesOnAfterwards) {
  Choir choir;
  const Vec theta = Vec::Zero(1);
  for (Listening* voice : choir.voices) {
    voice->fails = true;
    EXPECT_THROW(choir.sum->estimate(theta, {}), std::runtime_error);
    voice->fails = false;
  }
  for (Listening* voice : choir.voices) voice->fails = true;
  EXPECT_THROW(choir.sum->estimate(theta, {}), std::runtime_error);
  for (Listening* voice : choir.voices) voice->fails = false;
  EXPECT_EQ(choir.sum->estimate(theta, {}).gradient[0], 3);
}

TEST(SumOfEstimators, RefusesWhatDoesNotFit) {
  const auto make = [](std::vector<Index> thetas, std::vector<double> with) {
    std::vector<std::unique_ptr<Estimator<Vec>>> estimators;
    for (const Index count : thetas) estimators.push_back(std::make_unique<Listening>(2, count));
    SumOfEstimators(std::move(estimators), std::move(with));
  };
  EXPECT_THROW(make({}, {}), InvalidInput);
  EXPECT_THROW(make({1, 1}, {1}), InvalidInput);
  EXPECT_THROW(make({1, 2}, {1, 1}), InvalidInput);
  EXPECT_NO_THROW(make({2, 2}, {1, 1}));
  EXPECT_THROW(combine({1}, {}, 1e-6), InvalidInput);
  EXPECT_THROW(combine({}, {}, 1e-6), InvalidInput);
  std::vector<std::unique_ptr<Estimator<Vec>>> none(1);
  EXPECT_THROW(SumOfEstimators(std::move(none), {1}), InvalidInput);
  const Estimate<Vec> one = Listening(2, 1).estimate(Vec::Zero(1), {}),
                      other = Listening(2, 3).estimate(Vec::Zero(3), {});
  EXPECT_THROW(combine({1, 1}, {one, other}, 1e-6), InvalidInput);
}

TEST(SumOfEstimators, TheSameBitsWithAnyNumberOfThreads) {
  const Vec theta = Vec::Constant(1, -2);
  const int before = problems::kernels::threads();
  std::vector<Estimate<Vec>> found;
  for (const int threads : {1, 2, 3}) {
    problems::kernels::set_threads(threads);
    const auto tasks = make_tasks(4);
    SumOfEstimators sum = sum_of(tasks, weights);
    const Estimate<Vec> first = sum.estimate(theta, {});
    found.push_back(sum.estimate(Vec::Constant(1, -1.5), {first.phi, first.pi}));
  }
  problems::kernels::set_threads(before);
  for (const auto& e : found) {
    EXPECT_EQ(e.gradient, found[0].gradient);
    EXPECT_EQ(e.phi, found[0].phi);
    EXPECT_EQ(e.pi, found[0].pi);
    EXPECT_EQ(e.outer_value, found[0].outer_value);
    EXPECT_EQ(e.certificate.bound, found[0].certificate.bound);
  }
}

}  // namespace sum_of_estimators_test
}  // namespace bilevel
