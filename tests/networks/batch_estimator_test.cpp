#include "training_cases.hpp"

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/outer/solve.hpp>

#include "networks/training/certificate_sampler.hpp"

namespace batch_estimator_test {

using namespace training_cases;
using Vector = Eigen::VectorXf;

/// A small network on a few drawn digits.
struct Batch {
  explicit Batch(const Task& task, Index count = 12)
      : data(load(task)), settings(resolve_options(task, data)) {
    inputs = data.train.inputs.leftCols(count);
    targets = one_hot({data.train.labels.begin(), data.train.labels.begin() + count}, 10).cast<float>();
    estimator = make_batch_estimator(settings);
    estimator->set_batch(inputs.data(), targets.data(), count);
  }
  TrainingData data;
  TrainSettings settings;
  Eigen::MatrixXf inputs, targets;
  std::unique_ptr<BatchEstimator> estimator;
};

Task some_task(Activation activation, Energy energy = Energy::hopfield) {
  Task task = small_task();
  task.rows = 60;
  task.layers = {15};
  task.energy = energy;
  task.activation = activation;
  task.scale = 0.5;
  return task;
}

TEST(BatchEstimator, IsTheKernelBitForBit) {
  for (const Activation activation : {Activation::clip, Activation::tanh}) {
    const Batch b(some_task(activation));
    const Vector theta = b.estimator->initial_theta();
    Propagation<float> propagation(b.settings.architecture, b.settings.propagation);
    Vector gradient(theta.size()), states = Vector::Zero(b.settings.architecture.states() * 12);
    const BatchOutcome outcome = propagation.gradient(theta.data(), b.inputs.data(), b.targets.data(), 12,
                                                      states.data(), gradient.data());
    b.estimator->set_certified(false);
    const Estimate<Vector> e = b.estimator->estimate(theta, {});
    EXPECT_EQ(e.gradient, gradient);
    EXPECT_EQ(e.phi, states);
    EXPECT_EQ(e.outer_value, outcome.cost);
    EXPECT_EQ(e.status, Status::converged);
    EXPECT_EQ(e.certificate.kind, Kind::none);
    EXPECT_EQ(e.certificate.reason, "not computed");
    // Without states, as training asks for it, the numbers are the same.
    Estimate<Vector> into;
    b.estimator->estimate_into(theta, into);
    EXPECT_EQ(into.gradient, gradient);
  }
}

/// The bound holds against the gradient by dense factors in double precision, for every way to a gradient.
TEST(BatchEstimator, TheCertificateHoldsAgainstTheExactGradient) {
  struct Case {
    Energy energy;
    Activation activation;
    const char* estimator;
    Kind kind;
  };
  for (const Case& c : {Case{Energy::hopfield, Activation::clip, "ep-central", Kind::estimated},
                        {Energy::hopfield, Activation::tanh, "ep-central", Kind::estimated},
                        {Energy::hopfield, Activation::tanh, "ep-holomorphic", Kind::estimated},
                        {Energy::hopfield, Activation::tanh, "implicit-cg", Kind::estimated},
                        {Energy::predictive_coding, Activation::tanh, "backpropagation", Kind::estimated},
                        {Energy::resistive, Activation::diode, "ep-central", Kind::estimated}}) {
    Task task = some_task(c.activation, c.energy);
    task.estimator = c.estimator;
    SCOPED_TRACE(fmt::format("{} {} {}", name(c.energy), name(c.activation), c.estimator));
    const Batch b(task);
    const Vector theta = b.estimator->initial_theta();
    const Estimate<Vector> e = b.estimator->estimate(theta, {});
    NetworkProblem problem(b.settings.architecture, {b.inputs.cast<double>(), b.targets.cast<double>()},
                           theta.cast<double>());
    Relaxation relaxation(problem,
                          {.step = b.settings.propagation.free.step, .max_steps = 20000, .tolerance = 1e-13});
    const auto exact = make_estimator<Eigen::VectorXd>("implicit-direct", problem, relaxation)
                           ->estimate(problem.initial_theta(), {});
    ASSERT_TRUE(succeeded(exact.status)) << exact.message;
    const double error = (e.gradient.cast<double>() - exact.gradient).norm();
    EXPECT_EQ(e.certificate.kind, c.kind) << e.certificate.reason;
    EXPECT_LE(error, e.certificate.bound * (1 + 1e-9) + 1e-12) << e.certificate.reason;
    // Not by being useless: most of the bound is the distance itself.
    EXPECT_LE(e.certificate.bound, 1.5 * error + 1e-4 * exact.gradient.norm()) << e.certificate.reason;
    EXPECT_GT(e.cost.seconds_certificate, 0);
  }
}

TEST(BatchEstimator, TheOuterLoopRunsOnIt) {
  Task task = some_task(Activation::tanh);
  task.beta = 0.05;
  task.free_steps = 60;
  task.nudged_steps = 30;
  const Batch b(task);
  b.estimator->set_certified(false);
  const auto optimizer = make_adam({.step = 0.01});
  SolveOptions options;
  options.max_iterations = 20;
  const Summary s = solve<Vector>(*b.estimator, *optimizer, b.estimator->initial_theta(), options);
  ASSERT_GE(s.history.size(), 2U) << s.message;
  EXPECT_LT(s.outer_value, 0.7 * s.history.front().outer_value) << s.message;
}

TEST(BatchEstimator, WithoutABatchItSaysSo) {
  const auto estimator = make_batch_estimator(resolve_options(TrainOptions{}, 5, 9, 2));
  EXPECT_COMPLAINT(estimator->estimate(estimator->initial_theta(), {}), "set_batch");
}

/// Certifying says more and changes nothing.
TEST(Train, CertifiedGradientsAreCountedAndLeaveTheWeightsAlone) {
  Task task = some_task(Activation::clip);
  task.epochs = 2;
  task.batch = 10;
  task.probe = 0;
  const TrainingData data = load(task);
  task.certify_every = -1;
  const TrainedNetwork none = train(data, task);
  EXPECT_EQ(none.certified.count(), 0);
  EXPECT_EQ(none.certified.batches, 12);
  EXPECT_TRUE(std::isnan(none.certified.interval()));
  EXPECT_FALSE(none.last_certificate);
  task.certify_every = 4;
  const TrainedNetwork some = train(data, task);
  EXPECT_EQ(some.theta(), none.theta());
  // Of the steps 0 … 11, six an epoch: 0, 4 and 8.
  ASSERT_EQ(some.epochs.size(), 2U);
  EXPECT_EQ(some.epochs[0].certified.count(), 2);
  EXPECT_EQ(some.epochs[1].certified.count(), 1);
  EXPECT_EQ(some.certified.count(), 3);
  EXPECT_EQ(some.certified.batches, 12);
  EXPECT_EQ(some.certified.interval(), 4);
  EXPECT_EQ(some.certified.rigorous + some.certified.estimated + some.certified.none, 3);
  EXPECT_GT(some.certified.seconds, 0);
  ASSERT_TRUE(some.last_certificate);
  EXPECT_NE(some.last_certificate->reason.find("from the exact gradient"), std::string::npos);
}

TEST(Train, CertifyingTakesATenthOfTheTimeAtMost) {
  Task task = some_task(Activation::clip);
  task.rows = 4000;
  task.layers = {64};
  task.epochs = 80;
  task.probe = 0;
  const TrainingData data = load(task);
  const TrainedNetwork result = train(data, task);
  double trained = 0;
  for (const Epoch& e : result.epochs) trained += e.seconds;
  const CertifiedGradients& c = result.certified;
  std::printf("%ld gradients of %ld certified, %ld given up, in %.3f s of %.2f s\n", c.count(), c.batches,
              c.cut_short, c.seconds, trained);
  EXPECT_GE(c.count() - c.cut_short, 1);
  EXPECT_EQ(c.batches, 80 * 200);
  EXPECT_EQ(c.count(), c.rigorous + c.estimated + c.none);
  EXPECT_GE(c.none, c.cut_short);
  // A loop that is told to stop finishes its step.
  EXPECT_LE(result.certified.seconds, 0.1 * trained + 0.05);
}

/// A warm φ is used where it is one of this batch, and no other is read beyond its end.
TEST(BatchEstimator, AWarmStateOfAnotherSizeIsNoStart) {
  const Batch b(some_task(Activation::tanh));
  b.estimator->set_certified(false);
  const Vector theta = b.estimator->initial_theta();
  const Estimate<Vector> rest = b.estimator->estimate(theta, {});
  for (const Index size : {Index{0}, Index{3}, rest.phi.size() - 1, rest.phi.size() + 40}) {
    const Estimate<Vector> e = b.estimator->estimate(theta, {.phi = Vector::Constant(size, 7)});
    EXPECT_EQ(e.phi, rest.phi) << size;
    EXPECT_EQ(e.gradient, rest.gradient) << size;
  }
  const Estimate<Vector> warm = b.estimator->estimate(theta, {.phi = Vector::Constant(rest.phi.size(), 7)});
  EXPECT_NE(warm.phi, rest.phi);
}

/// Throws when it is told, and notes where the states were.
struct Nervous final : BatchEstimator {
  using BatchEstimator::BatchEstimator;
  BatchOutcome gradient(const Vector&, const float*, const float*, Index, float* states,
                        Vector& out) override {
    seen = states;
    if (afraid) throw InvalidInput("no");
    out.setZero();
    return {};
  }
  bool afraid = true;
  float* seen = nullptr;
};

TEST(BatchEstimator, AnEstimateThatThrowsLeavesNoStatesBehind) {
  const Batch b(some_task(Activation::tanh));
  Nervous estimator(b.settings);
  estimator.set_certified(false);
  estimator.set_batch(b.inputs.data(), b.targets.data(), b.inputs.cols());
  const Vector theta = b.estimator->initial_theta();
  EXPECT_THROW(estimator.estimate(theta, {}), InvalidInput);
  EXPECT_NE(estimator.seen, nullptr);
  estimator.afraid = false;
  Estimate<Vector> e;
  estimator.estimate_into(theta, e);
  EXPECT_EQ(estimator.seen, nullptr) << "states of an estimate that is gone";
}

/// Couplings so strong that there are several minima: the one that the batch's own states lead to counts.
TEST(BatchEstimator, TheReferenceSettlesWhereTheBatchDoes) {
  Task task = some_task(Activation::clip);
  task.scale = 4;
  task.persistent = true;
  task.free_steps = 200;
  const Batch b(task);
  const Vector theta = b.estimator->initial_theta();
  const Index states = b.settings.architecture.states();
  NetworkProblem problem(b.settings.architecture, {b.inputs.cast<double>(), b.targets.cast<double>()},
                         theta.cast<double>());
  Relaxation relaxation(problem, {.max_steps = 20000, .tolerance = 1e-12});
  const Eigen::VectorXd wide = problem.initial_theta(), rest = problem.initial_phi(),
                        full = Eigen::VectorXd::Ones(rest.size());
  const auto from_rest = relaxation.solve(wide, 0, rest), from_full = relaxation.solve(wide, 0, full);
  ASSERT_EQ(from_full.status, Status::converged) << from_full.message;
  ASSERT_GT((from_rest.phi - from_full.phi).norm(), 0.5) << "one minimum: the test says nothing";
  const auto exact = make_estimator<Eigen::VectorXd>("implicit-direct", problem, relaxation)
                         ->estimate(wide, {.phi = from_full.phi});
  ASSERT_LT((exact.phi - from_full.phi).norm(), 1e-9);
  Eigen::MatrixXf own = Eigen::MatrixXf::Ones(states, b.inputs.cols());
  b.estimator->set_batch(b.inputs.data(), b.targets.data(), b.inputs.cols(), own.data());
  Estimate<Vector> e;
  b.estimator->estimate_into(theta, e);
  const double distance = (e.gradient.cast<double>() - exact.gradient).norm();
  const ExactComparison training = b.estimator->compare(theta, e, true);
  EXPECT_NEAR(training.relative_error, distance / exact.gradient.norm(), 1e-6);
  // And behind the interface of estimators, where φ says it.
  own.setOnes();
  b.estimator->set_batch(b.inputs.data(), b.targets.data(), b.inputs.cols());
  const Estimate<Vector> warm =
      b.estimator->estimate(theta, {.phi = Eigen::Map<Vector>(own.data(), own.size())});
  EXPECT_EQ(warm.gradient, e.gradient);
  EXPECT_NEAR(b.estimator->compare(theta, warm, true).relative_error, training.relative_error, 1e-6);
}

/// Where there is no exact gradient there is no bound, and the reason is its own.
TEST(BatchEstimator, WithoutAnExactGradientThereIsNoBound) {
  const Batch b(some_task(Activation::tanh));
  const Vector theta = b.estimator->initial_theta();
  b.estimator->set_certified(false);
  Estimate<Vector> e = b.estimator->estimate(theta, {});
  const StopToken now([] { return true; });
  const ExactComparison cut = b.estimator->compare(theta, e, true, &now);
  EXPECT_EQ(cut.certificate.kind, Kind::none);
  EXPECT_EQ(cut.certificate.verdict, Verdict::untrusted);
  EXPECT_EQ(cut.certificate.bound, std::numeric_limits<double>::infinity());
  EXPECT_EQ(cut.certificate.reason.find("nan"), std::string::npos) << cut.certificate.reason;
  EXPECT_TRUE(std::isnan(cut.cosine) && std::isnan(cut.relative_error));
  // Nor where the gradient itself is none.
  e.gradient[0] = std::numeric_limits<float>::quiet_NaN();
  const ExactComparison none = b.estimator->compare(theta, e, true);
  EXPECT_EQ(none.certificate.kind, Kind::none);
  EXPECT_EQ(none.certificate.bound, std::numeric_limits<double>::infinity());
  EXPECT_EQ(none.certificate.reason, "the gradient is not finite");
}

TEST(BatchEstimator, TellsWhatAnEstimateCost) {
  Task task = some_task(Activation::tanh);
  task.free_steps = 11;
  task.nudged_steps = 5;
  const Batch b(task);
  const Vector theta = b.estimator->initial_theta();
  b.estimator->set_certified(false);
  const Cost cost = b.estimator->estimate(theta, {}).cost;
  // A free phase, two nudged ones, and ∂θE of both.
  EXPECT_EQ(cost.inner_gradients, 11 + 2 * 5 + 2);
  EXPECT_EQ(cost.outer_values, 1);
  EXPECT_EQ(cost.outer_gradients, 2 * 5);
  EXPECT_EQ(cost.hessian_products, 0);
  b.estimator->set_certified(true);
  const Cost certified = b.estimator->estimate(theta, {}).cost;
  EXPECT_GT(certified.hessian_products, 0);
  EXPECT_GT(certified.inner_gradients, cost.inner_gradients);
  EXPECT_EQ(certified.seconds_adjoint, 0);
  task.estimator = "implicit-cg";
  task.nudged_steps = 0;
  const Batch library(task);
  library.estimator->set_certified(false);
  EXPECT_GT(library.estimator->estimate(theta, {}).cost.hessian_products, 0);
}

/// Batches that there was no time for are not left out of the count.
TEST(CertificateSampler, AnAttemptThatTakesTooLongIsCounted) {
  Task task = some_task(Activation::clip);
  task.rows = 200;
  task.layers = {144, 400, 400, 10};
  const Batch b(task, 100);
  const Vector theta = b.estimator->initial_theta();
  Estimate<Vector> e;
  b.estimator->estimate_into(theta, e);
  const StopToken never(nullptr), now([] { return true; });
  CertificateSampler sampler(*b.estimator, 0, never);
  EXPECT_FALSE(sampler.certify(theta, e, 0, 0.1)) << "a tenth of it pays for no attempt";
  const auto attempt = sampler.certify(theta, e, 0, 0.21);
  ASSERT_TRUE(attempt);
  EXPECT_TRUE(attempt->cut_short);
  EXPECT_EQ(attempt->certificate.kind, Kind::none);
  EXPECT_EQ(attempt->certificate.verdict, Verdict::untrusted);
  EXPECT_EQ(attempt->certificate.reason.find("given up after"), 0U) << attempt->certificate.reason;
  CertifiedGradients counted{.batches = 240};
  counted.add(attempt->certificate, attempt->cut_short);
  EXPECT_EQ(counted.count(), 1);
  EXPECT_EQ(counted.cut_short, 1);
  EXPECT_EQ(counted.none, 1);
  EXPECT_EQ(counted.trusted + counted.doubtful + counted.untrusted, 0);
  EXPECT_EQ(counted.interval(), 240);
  // A run that is to end repeats the batch, and this.
  EXPECT_FALSE(CertificateSampler(*b.estimator, 1, now).certify(theta, e, 0, 10));
}

}  // namespace batch_estimator_test
