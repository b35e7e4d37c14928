#include "training_cases.hpp"

#include "networks/training/defaults.hpp"

namespace training_options_test {

using namespace training_cases;

TEST(TrainOptions, LayersAreCompletedByTheData) {
  TrainOptions task;
  const auto layers = [&](const std::vector<Index>& sizes) {
    task.layers = sizes;
    return resolve_options(task, 20, 100, 4).architecture.layers;
  };
  EXPECT_EQ((layers({20, 7, 4})), (std::vector<Index>{20, 7, 4}));
  EXPECT_EQ((layers({7})), (std::vector<Index>{20, 7, 4}));
  EXPECT_COMPLAINT((layers({7, 5})), "the data has 20 features, the first layer 7 units");
  EXPECT_EQ((layers({20, 4})), (std::vector<Index>{20, 4}));
  EXPECT_COMPLAINT((layers({21, 7, 4})), "the data has 20 features, the first layer 21 units");
  EXPECT_COMPLAINT((layers({20, 7, 5})), "the data has 4 classes, the last layer 5 units");
  EXPECT_COMPLAINT((layers({20, 0, 4})), "train.layers = 0 must be sizes of at least 1");
}

TEST(TrainOptions, WhatDoesNotGoTogetherIsRefused) {
  TrainOptions task;
  task.estimator = "ep-holomorphic";
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "clip units are not analytic");
  task.estimator = "backpropagation";
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "is for `energy` predictive-coding");
  task.estimator = "guess";
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "there is no `estimator` guess");
  task.estimator = "";
  task.gain = 2;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "belong to `energy` resistive");
  task = {};
  task.energy = Energy::resistive;
  task.read_out = ReadOut::cross_entropy;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "nudging a circuit");
  task = {};
  task.layer_rates = {1, 2, 3};
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "has 3 factors, and there are 2 layers");
  task = {};
  task.energy = Energy::predictive_coding;
  task.persistent = true;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "`persistent` has no use for");
  task.persistent = false;
  task.momentum = 0.5;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "`momentum` is for `optimizer` sgd");
  task.momentum = -1;
  task.beta = 0.1;
  task.estimator = "backpropagation";
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "`beta` goes with equilibrium propagation");
  task = {};
  task.points = 4;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "`points` are those of `estimator` ep-holomorphic");
  task.points = 3;
  task.weight_decay = -1;
  EXPECT_COMPLAINT(task.validate().throw_if_any(),
                   "train.weight_decay = -1 must be zero or more; train.points = 3 must be even");
  task = {};
  task.decay = 1.5;
  task.noise = -1;
  EXPECT_COMPLAINT(task.validate().throw_if_any(), "train.decay = 1.5 must lie in (0, 1]; train.noise = -1");
}

TEST(TrainOptions, PhasesTooShortToCrossTheNetworkAreRefused) {
  TrainOptions task;
  task.layers = {5, 6, 6, 6, 2};
  task.nudged_steps = 2;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2),
                   "`nudged_steps` 2: the nudge of the outputs would not reach the first of 4 layers");
  task.nudged_steps = 3;
  task.free_steps = 1;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2),
                   "`free_steps` 1: the inputs would not reach the outputs, which lie 4 layers away; with "
                   "`schedule` even-odd that takes 2 steps");
  task.schedule = Schedule::synchronous;
  task.free_steps = 4;
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "with `schedule` synchronous that takes 4 steps");
}

/// So many steps and no fewer: the gradient of the first layer is zero before, and not from then on.
TEST(TrainOptions, TheNudgeCrossesInAsManyStepsAsAreAskedFor) {
  for (const char* energy : {"hopfield", "predictive-coding", "resistive"})
    for (const char* schedule : {"even-odd", "sweep", "synchronous"})
      for (const std::vector<Index>& layers :
           {std::vector<Index>{5, 6, 2}, {5, 6, 6, 2}, {5, 6, 6, 6, 2}, {5, 6, 6, 6, 6, 2}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", energy, schedule, fmt::join(layers, "-")));
        TrainOptions task;
        task.energy = energy_of(energy);
        if (task.energy == Energy::hopfield)
          task.activation = Activation::tanh;  // clipped units may answer to nothing
        task.schedule = schedule_of(schedule);
        task.layers = layers;
        task.free_steps = 2000;  // wholly at rest, so that nothing but the nudge moves a unit
        TrainSettings s = resolve_options(task, 5, 9, 2);
        const auto& a = s.architecture;
        const long steps = steps_to_cross(a, s.propagation.free.schedule, true);
        const Eigen::VectorXd theta = initial_parameters(a, 3);
        const Eigen::MatrixXd inputs = Eigen::MatrixXd::Constant(5, 1, 0.7);
        const Eigen::MatrixXd targets = one_hot({1}, 2);
        const auto first_layer = [&](long nudged) {
          s.propagation.nudged.max_steps = nudged;
          Propagation<double> propagation(a, s.propagation);
          Eigen::VectorXd gradient(theta.size());
          propagation.gradient(theta.data(), inputs.data(), targets.data(), 1, nullptr, gradient.data());
          return gradient.head(a.layer(1).bias).norm();
        };
        const double reached = first_layer(steps);
        EXPECT_GT(reached, 0);
        if (steps > 1) {
          EXPECT_LT(first_layer(steps - 1), 1e-8 * reached);
        }
      }
}

TEST(TrainOptions, WeightsToBeginWithMustFit) {
  TrainOptions task;
  task.layers = {3};
  const Architecture own = resolve_options(task, 5, 9, 2).architecture;
  task.start = SavedNetwork{.architecture = own, .theta = Eigen::VectorXf::Zero(7)};
  EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "`start` has 7 weights, and the network 26");
  // As many weights, and another energy, other units or another read-out.
  task.start->theta = Eigen::VectorXf::Zero(26);
  EXPECT_EQ(resolve_options(task, 5, 9, 2).start, task.start->theta);
  for (const Architecture& other :
       {Architecture{
            .energy = Energy::predictive_coding, .layers = own.layers, .activation = Activation::tanh},
        Architecture{.layers = own.layers, .activation = Activation::tanh},
        Architecture{.layers = own.layers, .read_out = ReadOut::cross_entropy}}) {
    task.start->architecture = other;
    EXPECT_COMPLAINT(resolve_options(task, 5, 9, 2), "hopfield 5-3-2 (clip, squared) is to be trained");
  }
}

}  // namespace training_options_test
