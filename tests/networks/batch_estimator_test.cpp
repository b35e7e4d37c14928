#include "training_cases.hpp"

#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/outer/solve.hpp>

namespace {

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
  EXPECT_FALSE(none.last_certificate);
  task.certify_every = 4;
  const TrainedNetwork some = train(data, task);
  EXPECT_EQ(some.theta(), none.theta());
  // Of the steps 0 … 11, six an epoch: 0, 4 and 8.
  ASSERT_EQ(some.epochs.size(), 2U);
  EXPECT_EQ(some.epochs[0].certified.count(), 2);
  EXPECT_EQ(some.epochs[1].certified.count(), 1);
  EXPECT_EQ(some.certified.count(), 3);
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
  std::printf("%ld gradients certified in %.3f s of %.2f s\n", result.certified.count(),
              result.certified.seconds, trained);
  EXPECT_GE(result.certified.count(), 1);
  // A loop that is told to stop finishes its step.
  EXPECT_LE(result.certified.seconds, 0.1 * trained + 0.05);
}

}  // namespace
