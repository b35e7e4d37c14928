#include "training_cases.hpp"

#include <filesystem>

namespace train_test {

using namespace training_cases;

TEST(Train, EveryEnergyLearnsDrawnDigits) {
  for (const char* energy : {"hopfield", "predictive-coding", "resistive"}) {
    SCOPED_TRACE(energy);
    Task task;
    task.rows = 2000;
    task.energy = energy_of(energy);
    task.layers = {128};
    task.epochs = 8;
    task.probe = 8;
    if (task.energy == Energy::predictive_coding) {
      task.activation = Activation::tanh;
      task.batch = 20;
      task.learning_rate = 0.003;
    }
    const TrainingData data = load(task);
    const TrainedNetwork result = train(data, task);
    EXPECT_EQ(result.status, Status::converged) << result.message;
    ASSERT_EQ(result.epochs.size(), 8U);
    EXPECT_LT(result.epochs.back().test_error, 0.12);
    EXPECT_LT(result.epochs.back().train_error, 0.5 * result.epochs.front().train_error);
    EXPECT_TRUE(result.warnings.empty()) << result.warnings[0];
    // The default schedules never raise the energy.
    ASSERT_FALSE(result.traces.empty());
    for (const Trace& trace : result.traces)
      for (std::size_t i = 1; i < trace.energy.size(); ++i)
        EXPECT_LE(trace.energy[i], trace.energy[i - 1] + 1e-9 * std::abs(trace.energy[i]) + 1e-20)
            << "β " << trace.beta << ", step " << i;
  }
}

/// Nothing is chosen but the sizes: rates, steps, gains and first weights follow from the depth. Guessing is
/// wrong on 90 %; six epochs are a beginning.
TEST(Train, DeepNetworksLearnAtTheirDefaults) {
  struct Case {
    const char *energy, *activation;
    double most_of_two, most_of_four;  // test errors with so many hidden layers
  };
  // Errors differ by several points from one BLAS kernel to the next.
  for (const Case& c : {Case{"hopfield", "clip", 0.15, 0.26},
                        {"hopfield", "sigmoid", 0.33, 0.42},
                        {"hopfield", "tanh", 0.32, 0.4},
                        {"predictive-coding", "sigmoid", 0.2, 0.2},
                        {"resistive", "diode", 0.15, 0.3}})
    for (const int hidden : {2, 4}) {
      Task task;
      task.rows = 2000;
      task.energy = energy_of(c.energy);
      task.activation = activation_of(c.activation);
      task.layers = {144};
      for (int i = 0; i < hidden; ++i) task.layers.push_back(48);
      task.layers.push_back(10);
      task.epochs = 3 * hidden;
      task.probe = 0;
      const TrainingData data = load(task);
      const TrainedNetwork result = train(data, task);
      ASSERT_EQ(result.status, Status::converged) << result.message;
      std::printf("%s %s, %d hidden layers: test error %.1f %% (seed %d)\n", c.energy, c.activation, hidden,
                  100 * result.epochs.back().test_error, static_cast<int>(task.seed));
      EXPECT_LT(result.epochs.back().test_error, hidden == 2 ? c.most_of_two : c.most_of_four)
          << c.energy << ' ' << c.activation << ' ' << hidden;
    }
}

TEST(Train, EveryEstimatorFollowsTheExactGradient) {
  for (const auto& [energy, activation, estimator] : {std::array{"hopfield", "tanh", "ep-holomorphic"},
                                                      {"hopfield", "tanh", "implicit-cg"},
                                                      {"hopfield", "clip", "implicit-cg"},
                                                      {"hopfield", "tanh", "implicit-neumann"},
                                                      {"predictive-coding", "tanh", "backpropagation"},
                                                      {"predictive-coding", "sigmoid", "ep-central"},
                                                      {"hopfield", "tanh", "ep-random-sign"},
                                                      {"hopfield", "tanh", "ep-forward-3"},
                                                      {"resistive", "diode", "ep-central"}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", energy, activation, estimator));
    Task task;
    task.energy = energy_of(energy);
    task.activation = activation_of(activation);
    task.estimator = estimator;
    task.rows = 200;
    task.layers = {12};
    task.epochs = 2;
    task.batch = 20;
    task.scale = 0.5;
    if (task.estimator.starts_with("ep-")) task.beta = 0.01;
    task.free_steps = 300;  // what is left to go is divided by β
    if (task.estimator.starts_with("ep-")) task.nudged_steps = 60;
    const TrainingData data = load(task);
    const TrainedNetwork result = train(data, task);
    EXPECT_EQ(result.status, Status::converged) << result.message;
    EXPECT_LT(result.epochs.back().train_cost, result.epochs.front().train_cost);
    ASSERT_TRUE(result.probe);
    // A diode that opens or closes within the nudge counts by half.
    EXPECT_GT(result.probe->cosine, task.energy == Energy::resistive ? 0.99 : 0.999);
  }
}

TEST(Train, SaysThatNothingWasLearned) {
  Task task = small_task();
  task.learning_rate = 30;
  const TrainingData data = load(task);
  const TrainedNetwork result = train(data, task);
  ASSERT_EQ(result.status, Status::converged) << result.message;
  ASSERT_FALSE(result.warnings.empty());
  EXPECT_NE(result.warnings[0].find("learned nothing"), std::string::npos);
}

/// Few units are held weakly: the default nudge minds it, a stronger one is told.
TEST(Train, ANudgeThatOutweighsAnOutputSaysSo) {
  Task task = small_task();
  task.energy = Energy::resistive;
  task.layers = {6};
  task.epochs = 1;
  const TrainingData data = load(task);
  EXPECT_EQ(train(data, task).status, Status::converged);
  task.beta = 3;
  const TrainedNetwork result = train(data, task);
  EXPECT_EQ(result.status, Status::diverged);
  EXPECT_NE(result.message.find("a negative nudge outweighs an output by"), std::string::npos)
      << result.message;
  EXPECT_EQ(result.remedy.find("`beta` "), 0U) << result.remedy;
}

/// With noise on everything that a layer receives: the difference of two phases is divided by β, and the
/// noise with it.
TEST(Train, NoiseStopsSmallNudgesAndNotLargeOnes) {
  const auto error = [](const char* estimator, double beta, double noise) {
    Task task;
    task.rows = 2000;
    task.layers = {64};
    task.activation = Activation::tanh;
    task.read_out = ReadOut::squared;
    task.batch = 20;
    task.free_steps = 20;
    task.scale = 0.5;
    task.estimator = estimator;
    task.beta = beta;
    task.noise = noise;
    task.epochs = 10;
    task.decay = 0.75;
    task.nudged_steps = 6;
    task.optimizer = WeightOptimizer::adam;
    task.learning_rate = 0.005;
    task.probe = 0;
    const TrainingData data = load(task);
    const TrainedNetwork result = train(data, task);
    return result.status == Status::converged ? result.epochs.back().train_error : 1.0;
  };
  const double small = error("ep-forward-2", 0.01, 0.05), central = error("ep-central", 0.4, 0.05),
               holomorphic = error("ep-holomorphic", 0.4, 0.05), quiet = error("ep-forward-2", 0.01, 0);
  std::printf(
      "train errors: one-sided 0.01 %.3f (without noise %.3f), central 0.4 %.3f, holomorphic 0.4 %.3f\n",
      small, quiet, central, holomorphic);
  EXPECT_LT(quiet, 0.25);
  EXPECT_LT(central, 0.35);
  EXPECT_LT(holomorphic, 0.4);
  EXPECT_GT(small, 0.75);
}

TEST(Train, Mnist) {
  const char* const set = std::getenv("BILEVEL_DATA");
  const std::string folder = std::string(set && *set ? set : BILEVEL_DATA_DEFAULT) + "/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no data at " << folder;
  Task task;
  task.data = folder;
  task.rows = 10000;
  task.layers = {784, 256, 10};
  task.epochs = 3;
  task.probe = 8;
  const TrainingData data = load(task);
  EXPECT_EQ(data.features(), 784);
  EXPECT_EQ(data.test.rows(), 10000);
  const TrainedNetwork result = train(data, task);
  EXPECT_LE(result.epochs.back().test_error, 0.065);
}

}  // namespace train_test
