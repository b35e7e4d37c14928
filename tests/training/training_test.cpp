#include "training/trainer.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "refusal.hpp"
#include "scratch.hpp"
#include "training/defaults.hpp"
#include "training/kept_training.hpp"
#include "training/network_file.hpp"
#include "training/weights.hpp"

namespace {

using namespace training;
using bilevel::Status;

#define EXPECT_COMPLAINT(act, part) \
  EXPECT_NE(refusal([&] { act; }).find(part), std::string::npos) << refusal([&] { act; })

TrainTask small_task() {
  TrainTask task;
  task.rows = 600;
  task.epochs = 3;
  task.layers = "40";
  return task;
}

Settings settings_of(const TrainTask& task, const TrainData& data) {
  return settle_task(task, data.features(), data.train.rows(), static_cast<Index>(data.classes.size()),
                     data.feature_size());
}

TEST(TrainTask, LayersAreCompletedByTheData) {
  TrainTask task;
  const auto layers = [&](const std::string& text) {
    task.layers = text;
    return settle_task(task, 20, 100, 4).architecture.layers;
  };
  EXPECT_EQ(layers("20-7-4"), (std::vector<Index>{20, 7, 4}));
  EXPECT_EQ(layers("7"), (std::vector<Index>{20, 7, 4}));
  EXPECT_COMPLAINT(layers("7-5"), "the data has 20 features, the first layer 7 units");
  EXPECT_EQ(layers("20-4"), (std::vector<Index>{20, 4}));
  EXPECT_COMPLAINT(layers("21-7-4"), "the data has 20 features, the first layer 21 units");
  EXPECT_COMPLAINT(layers("20-7-5"), "the data has 4 classes, the last layer 5 units");
  for (const char* bad : {"20-", "-4", "a", "20--4", "0", "20-7x-4"})
    EXPECT_COMPLAINT(layers(bad), "joined by '-'");
}

TEST(TrainTask, WhatDoesNotGoTogetherIsRefused) {
  TrainTask task;
  task.estimator = "ep-holomorphic";
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "clip units are not analytic");
  task.estimator = "backpropagation";
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "is for --energy predictive-coding");
  task.estimator = "guess";
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "there is no --estimator guess");
  task.estimator = "";
  task.gain = 2;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "belong to --energy resistive");
  task = {};
  task.energy = "resistive";
  task.read_out = "cross-entropy";
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "nudging a circuit");
  task = {};
  task.layer_rates = {1, 2, 3};
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "has 3 factors, and there are 2 layers");
  task = {};
  task.energy = "predictive-coding";
  task.persistent = true;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "--persistent has no use for");
  task.persistent = false;
  task.momentum = 0.5;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "--momentum is for --optimizer sgd");
  task.momentum = -1;
  task.beta = 0.1;
  task.estimator = "backpropagation";
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "--beta goes with equilibrium propagation");
  task = {};
  task.points = 4;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "--points are those of --estimator ep-holomorphic");
  task.points = 3;
  task.weight_decay = -1;
  EXPECT_COMPLAINT(task.validate(), "--weight-decay -1 must be zero or more; --points 3 must be even");
  task = {};
  task.decay = 1.5;
  task.noise = -1;
  EXPECT_COMPLAINT(task.validate(), "--decay 1.5 must lie in (0, 1]; --noise -1");
}

TEST(Load, CsvWithTheLabelLastAndNoHeader) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += fmt::format("{},{},{}\n", i, i * i % 7, i % 3 == 0 ? 10 : i % 3);
  TrainTask task;
  task.data = write("plain.csv", text);
  const TrainData data = load(task);
  EXPECT_EQ(data.features(), 2);
  EXPECT_EQ(data.train.rows() + data.test.rows(), 50);
  EXPECT_EQ(data.test.rows(), 10);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"1", "2", "10"}));
  // Standardised by the training rows.
  EXPECT_NEAR(data.train.inputs.row(0).mean(), 0, 1e-6);
  EXPECT_NEAR(data.train.inputs.row(0).squaredNorm() / static_cast<float>(data.train.rows()), 1, 1e-5);
}

TEST(Load, ComplaintsNameTheFileAndTheRow) {
  TrainTask task;
  task.data = write("train.csv", "1,2,a\n3,4,b\n5,6,a\n7,8,b\n");
  task.test = write("test.csv", "1,2,a\n3,4,c\n");
  EXPECT_COMPLAINT(load(task), "test.csv");
  task.test = "1.5";
  EXPECT_COMPLAINT(load(task), "--test 1.5 must be a file or a share between 0 and 1");
  task.test = "";
  task.data = write("numbers.csv", "1,2,0.5\n3,4,0.7\n");
  EXPECT_COMPLAINT(load(task), "row 1 has the label 0.5; labels are classes");
  task.data = write("one.csv", "1,2,3\n3,4,3\n");
  EXPECT_COMPLAINT(load(task), "there is nothing to tell apart");
  std::filesystem::create_directories(scratch("empty"));
  task.data = scratch("empty");
  EXPECT_COMPLAINT(load(task), "there is no train-images-idx3-ubyte");
}

TEST(Train, EveryEnergyLearnsDrawnDigits) {
  for (const char* energy : {"hopfield", "predictive-coding", "resistive"}) {
    SCOPED_TRACE(energy);
    TrainTask task;
    task.rows = 2000;
    task.energy = energy;
    task.layers = "128";
    task.epochs = 8;
    task.probe = 8;
    if (task.energy == "predictive-coding") {
      task.activation = "tanh";
      task.batch = 20;
      task.learning_rate = 0.003;
    }
    const TrainData data = load(task);
    const TrainResult result = train(settings_of(task, data), data, {});
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
      TrainTask task;
      task.rows = 2000;
      task.energy = c.energy;
      task.activation = c.activation;
      task.layers = "144";
      for (int i = 0; i < hidden; ++i) task.layers += "-48";
      task.layers += "-10";
      task.epochs = 3 * hidden;
      task.probe = 0;
      const TrainData data = load(task);
      const TrainResult result = train(settings_of(task, data), data, {});
      ASSERT_EQ(result.status, Status::converged) << result.message;
      std::printf("%s %s, %d hidden layers: test error %.1f %% (seed %d)\n", c.energy, c.activation, hidden,
                  100 * result.epochs.back().test_error, static_cast<int>(task.seed));
      EXPECT_LT(result.epochs.back().test_error, hidden == 2 ? c.most_of_two : c.most_of_four)
          << c.energy << ' ' << c.activation << ' ' << hidden;
    }
}

TEST(TrainTask, PhasesTooShortToCrossTheNetworkAreRefused) {
  TrainTask task;
  task.layers = "5-6-6-6-2";
  task.nudged_steps = 2;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2),
                   "--nudged-steps 2: the nudge of the outputs would not reach the first of 4 layers");
  task.nudged_steps = 3;
  task.free_steps = 1;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2),
                   "--free-steps 1: the inputs would not reach the outputs, which lie 4 layers away; with "
                   "--schedule even-odd that takes 2 steps");
  task.schedule = "synchronous";
  task.free_steps = 4;
  EXPECT_COMPLAINT(settle_task(task, 5, 9, 2), "with --schedule synchronous that takes 4 steps");
}

/// So many steps and no fewer: the gradient of the first layer is zero before, and not from then on.
TEST(TrainTask, TheNudgeCrossesInAsManyStepsAsAreAskedFor) {
  for (const char* energy : {"hopfield", "predictive-coding", "resistive"})
    for (const char* schedule : {"even-odd", "sweep", "synchronous"})
      for (const char* layers : {"5-6-2", "5-6-6-2", "5-6-6-6-2", "5-6-6-6-6-2"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", energy, schedule, layers));
        TrainTask task;
        task.energy = energy;
        if (task.energy == "hopfield") task.activation = "tanh";  // clipped units may answer to nothing
        task.schedule = schedule;
        task.layers = layers;
        task.free_steps = 2000;  // wholly at rest, so that nothing but the nudge moves a unit
        Settings s = settle_task(task, 5, 9, 2);
        const auto& a = s.architecture;
        const long steps = steps_to_cross(a, s.propagation.free.schedule, true);
        const Eigen::VectorXd theta = bilevel::networks::initial_parameters(a, 3);
        const Eigen::MatrixXd inputs = Eigen::MatrixXd::Constant(5, 1, 0.7);
        const Eigen::MatrixXd targets = bilevel::networks::one_hot({1}, 2);
        const auto first_layer = [&](long nudged) {
          s.propagation.nudged.max_steps = nudged;
          bilevel::networks::Propagation<double> propagation(a, s.propagation);
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
    TrainTask task;
    task.energy = energy;
    task.activation = activation;
    task.estimator = estimator;
    task.rows = 200;
    task.layers = "12";
    task.epochs = 2;
    task.batch = 20;
    task.scale = 0.5;
    if (task.estimator.starts_with("ep-")) task.beta = 0.01;
    task.free_steps = 300;  // what is left to go is divided by β
    if (task.estimator.starts_with("ep-")) task.nudged_steps = 60;
    const TrainData data = load(task);
    const TrainResult result = train(settings_of(task, data), data, {});
    EXPECT_EQ(result.status, Status::converged) << result.message;
    EXPECT_LT(result.epochs.back().train_cost, result.epochs.front().train_cost);
    ASSERT_TRUE(result.probe);
    // A diode that opens or closes within the nudge counts by half.
    EXPECT_GT(result.probe->cosine, task.energy == "resistive" ? 0.99 : 0.999);
  }
}

TEST(Train, AStopDuringATestLeavesTimeForTheLastLook) {
  TrainTask task = small_task();
  task.probe = 0;
  const TrainData data = load(task);
  const Settings settings = settings_of(task, data);
  std::atomic<int> calls = 0;
  int after_test = 0;
  TrainControl control;
  control.interrupted = [&] {
    ++calls;
    return false;
  };
  control.on_epoch = [&](const Epoch& e) {
    if (e.epoch == 1) after_test = calls;
  };
  train(settings, data, control);
  // The last call before an epoch is over follows its test; those before that are the test's own.
  calls = 0;
  control.interrupted = [&] { return ++calls >= after_test - 1; };
  const TrainResult cut = train(settings, data, control);
  EXPECT_EQ(cut.status, Status::interrupted);
  EXPECT_TRUE(cut.epochs.empty());
  EXPECT_EQ(cut.predicted.size(), static_cast<std::size_t>(data.test.rows()));
}

TEST(Train, AStoppedRunGoesOnToTheSameBits) {
  for (const bool persistent : {false, true}) {
    SCOPED_TRACE(persistent);
    TrainTask task = small_task();
    task.persistent = persistent;
    task.momentum = 0.5;
    task.estimator = "ep-random-sign";
    task.noise = 0.01;
    const TrainData data = load(task);
    const Settings settings = settings_of(task, data);
    const TrainResult whole = train(settings, data, {});
    // Asked in the middle of phases, of tests and of probes; later every time, so that there is an end.
    int stops = 0;
    std::atomic<int> calls = 0;
    TrainControl control{.checkpoint = scratch("run.ckpt"), .identity = "this"};
    control.interrupted = [&] { return ++calls > 150 * (stops + 1); };
    TrainResult parts = train(settings, data, control);
    for (; parts.status == Status::interrupted; ++stops) {
      control.resume = true;
      calls = 0;
      parts = train(settings, data, control);
    }
    EXPECT_GE(stops, 2);
    EXPECT_EQ(parts.theta, whole.theta);
    ASSERT_EQ(parts.epochs.size(), whole.epochs.size());
    for (std::size_t i = 0; i < whole.epochs.size(); ++i) {
      EXPECT_EQ(parts.epochs[i].train_error, whole.epochs[i].train_error);
      EXPECT_EQ(parts.epochs[i].test_error, whole.epochs[i].test_error);
    }
    control.identity = "another";
    EXPECT_COMPLAINT(train(settings, data, control), "on other data or with another network");
  }
}

TEST(Train, ARunThatDivergesKeepsTheLastGoodWeights) {
  TrainTask task = small_task();
  task.energy = "predictive-coding";
  task.optimizer = "sgd";
  task.learning_rate = 1e-3;
  task.epochs = 1;
  const TrainData data = load(task);
  const TrainResult good = train(settings_of(task, data), data, {});
  // The second epoch has a rate that nothing survives.
  task.epochs = 2;
  Settings settings = settings_of(task, data);
  settings.decay = 1e12;
  TrainControl control{.checkpoint = scratch("diverged.ckpt"), .identity = "this"};
  const TrainResult result = train(settings, data, control);
  EXPECT_EQ(result.status, Status::diverged);
  EXPECT_NE(result.message.find("in epoch 2"), std::string::npos) << result.message;
  EXPECT_EQ(result.theta, good.theta);
  EXPECT_TRUE(result.outputs.allFinite());
  const KeptTraining kept = read_kept(control.checkpoint, "this");
  EXPECT_EQ(kept.theta, good.theta);
  EXPECT_EQ(kept.epoch, 1);
}

TEST(Train, SaysThatNothingWasLearned) {
  TrainTask task = small_task();
  task.learning_rate = 30;
  const TrainData data = load(task);
  const TrainResult result = train(settings_of(task, data), data, {});
  ASSERT_EQ(result.status, Status::converged) << result.message;
  ASSERT_FALSE(result.warnings.empty());
  EXPECT_NE(result.warnings[0].find("learned nothing"), std::string::npos);
}

/// What only the last step of an epoch does is seen before the weights count as good.
TEST(Train, AnEpochThatEndsBadlyIsNotKept) {
  TrainTask task = small_task();
  task.activation = "tanh";
  task.read_out = "squared";
  task.optimizer = "sgd";
  task.batch = 600;
  for (const double rate : {20.0, 1e39}) {
    task.learning_rate = rate;
    const TrainData data = load(task);
    TrainControl control{.checkpoint = scratch("bad.ckpt"), .identity = "this"};
    const Settings settings = settings_of(task, data);
    const TrainResult result = train(settings, data, control);
    EXPECT_EQ(result.status, Status::diverged) << rate;
    EXPECT_NE(result.message.find("the weights of the start are kept"), std::string::npos) << result.message;
    EXPECT_EQ(result.remedy.find("--learning-rate"), 0U) << result.remedy;
    EXPECT_EQ(result.theta,
              bilevel::networks::initial_parameters(settings.architecture, 1, settings.scale).cast<float>());
    EXPECT_EQ(read_kept(control.checkpoint, "this").theta, result.theta);
  }
}

/// Few units are held weakly: the default nudge minds it, a stronger one is told.
TEST(Train, ANudgeThatOutweighsAnOutputSaysSo) {
  TrainTask task = small_task();
  task.energy = "resistive";
  task.layers = "6";
  task.epochs = 1;
  const TrainData data = load(task);
  EXPECT_EQ(train(settings_of(task, data), data, {}).status, Status::converged);
  task.beta = 3;
  const TrainResult result = train(settings_of(task, data), data, {});
  EXPECT_EQ(result.status, Status::diverged);
  EXPECT_NE(result.message.find("a negative nudge outweighs an output by"), std::string::npos)
      << result.message;
  EXPECT_EQ(result.remedy.find("--beta "), 0U) << result.remedy;
}

TEST(Train, AKeptRunIsNotCutShort) {
  TrainTask task = small_task();
  const TrainData data = load(task);
  TrainControl control{.checkpoint = scratch("long.ckpt"), .identity = "this"};
  ASSERT_EQ(train(settings_of(task, data), data, control).status, Status::converged);
  control.resume = true;
  task.epochs = 2;
  EXPECT_COMPLAINT(train(settings_of(task, data), data, control),
                   "it has 3 epochs already, and --epochs is 2");
}

TEST(KeptTraining, DamageIsNoticed) {
  KeptTraining kept;
  kept.theta = Eigen::VectorXf::LinSpaced(100, 0, 1);
  kept.epochs.resize(2);
  kept.epoch = 2;
  const std::string path = scratch("kept");
  ASSERT_EQ(write_kept(path, "me", kept), "");
  EXPECT_EQ(read_kept(path, "me").theta, kept.theta);
  EXPECT_EQ(read_kept(path, "me").epochs.size(), 2U);
  std::string text;
  {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (std::size_t cut = 0; cut < text.size(); cut += 37)
    EXPECT_NE(refusal([&] { read_kept(write("cut", text.substr(0, cut)), "me"); }), "accepted") << cut;
  for (const std::size_t at : {text.size() - 50, text.find("\"batch\":0") + 8}) {
    std::string flipped = text;
    flipped[at] ^= 1;
    EXPECT_COMPLAINT(read_kept(write("flipped", flipped), "me"), "damaged");
  }
}

TEST(NetworkFile, ComesBackAsItWas) {
  TrainTask task = small_task();
  const Settings settings = settle_task(task, 20, 100, 4);
  SavedNetwork saved{settings,
                     bilevel::networks::initial_parameters(settings.architecture, 3).cast<float>(),
                     {"a", "b", "c", "d"},
                     Eigen::VectorXd::Random(20),
                     Eigen::VectorXd::Random(20),
                     {},
                     {}};
  const std::string text = network_text(saved, "0"), path = write("net.json", text);
  const SavedNetwork back = read_network(path);
  EXPECT_EQ(back.theta, saved.theta);
  EXPECT_EQ(back.settings.architecture.layers, settings.architecture.layers);
  EXPECT_EQ(back.shift, saved.shift);
  for (std::size_t cut = 0; cut + 2 < text.size(); cut += 211)
    EXPECT_NE(refusal([&] { read_network(write("cut.json", text.substr(0, cut))); }), "accepted") << cut;
  EXPECT_COMPLAINT(read_network(scratch("none.json")), "written by bilevel train --save");
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string changed = text;
    changed.replace(changed.find(what), what.size(), by);
    return write("with.json", changed);
  };
  EXPECT_COMPLAINT(read_network(with("\"free_steps\": ", "\"free_steps\": 9999999")),
                   "free_steps, and 100000 are the most");
  EXPECT_COMPLAINT(read_network(with("\"free_steps\": ", "\"free_steps\": 0.5e")), "whole number");
  // 2³² − 16: products of such sizes wrap around to those of the weights.
  EXPECT_COMPLAINT(read_network(with("  20,\n", "  20,\n  4611686018427387904,\n")), "ten million");
}

TEST(NetworkFile, ColumnsMustFitTheFirstLayer) {
  TrainTask task = small_task();
  task.data = write("columns.csv", "a,b,c,label\n1,2,3,x\n2,1,3,y\n3,1,2,x\n1,3,2,y\n2,2,1,x\n");
  task.rows = 0;
  task.layers = "4";
  const TrainData data = load(task);
  const Settings settings = settings_of(task, data);
  const SavedNetwork saved{
      settings,     bilevel::networks::initial_parameters(settings.architecture, 3).cast<float>(),
      data.classes, data.shift,
      data.factor,  {},
      data.schema};
  const std::string text = network_text(saved, "0");
  EXPECT_EQ(read_network(write("whole.json", text)).schema.columns.size(), 4U);
  nlohmann::ordered_json j = nlohmann::ordered_json::parse(text);
  j["schema"]["columns"].erase(1);
  EXPECT_COMPLAINT(read_network(write("less.json", j.dump())), "there must be 3");
  bilevel::data::Dataset two;
  two.x = bilevel::data::DenseRows(bilevel::data::DenseRows::Ones(5, 2));
  EXPECT_COMPLAINT(outputs_of(saved, two), "has 2 features, the network takes 3");
}

TEST(Load, QuantitiesAreNoClasses) {
  // 200 whole numbers, hardly one of them twice, as a sum of money or a score is.
  std::string text = "a,score\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("{},{}\n", i % 13, 25 + (i * 37) % 200);
  TrainTask task;
  task.data = write("scores.csv", text);
  EXPECT_COMPLAINT(load(task), "a quantity rather than classes");
  EXPECT_COMPLAINT(load(task), "--categorical 'score'");
  task.reading.categorical = {"score"};
  EXPECT_EQ(load(task).classes.size(), 200U) << "said to be classes";
  task.reading.categorical = {};
  const auto numbers = [](const std::string& name, int rows, int count, int step) {
    std::string table = "a,kind\n";
    for (int i = 0; i < rows; ++i) table += fmt::format("{},{}\n", i % 13, step * (i % count));
    return write(name, table);
  };
  // As many rows a class as classes have.
  for (const int count : {20, 21, 50}) {
    task.data = numbers("kinds.csv", 300, count, 1);
    const TrainData data = load(task);
    EXPECT_EQ(data.classes.size(), static_cast<std::size_t>(count));
    const bool said = std::any_of(data.notes.begin(), data.notes.end(), [](const std::string& note) {
      return note.find("taken as a class") != std::string::npos;
    });
    EXPECT_EQ(said, count > 20) << count;
  }
  // Per cent of something: many rows each.
  task.data = numbers("percent.csv", 6000, 56, 1);
  EXPECT_COMPLAINT(load(task), "--categorical 'kind' takes each number as a class");
  task.reading.categorical = {"kind"};
  EXPECT_EQ(load(task).classes.size(), 56U);
}

TEST(Load, NumbersOfALibsvmFileAreClassesWhereNoneIsLeftOut) {
  const auto file = [](int rows, int count, int step) {
    std::string text;
    for (int i = 0; i < rows; ++i) text += fmt::format("{} 1:{} 2:1\n", 1 + step * (i % count), i % 13);
    return write("numbers.svm", text);
  };
  TrainTask task;
  task.data = file(105 * 60, 105, 1);
  const TrainData data = load(task);
  EXPECT_EQ(data.classes.size(), 105U);
  ASSERT_FALSE(data.notes.empty());
  EXPECT_NE(data.notes.back().find("105 different numbers from 1 to 105"), std::string::npos)
      << data.notes.back();
  task.data = file(105 * 60, 105, 2);
  EXPECT_COMPLAINT(load(task), "a quantity rather than classes");
  EXPECT_COMPLAINT(load(task), "--labels FILE");
  task.data = file(6000, 1000, 1);
  EXPECT_COMPLAINT(load(task), "a quantity rather than classes");
  // Words for them, in a file of their own.
  std::string words;
  for (int i = 0; i < 6000; ++i) words += fmt::format("kind {}\n", i % 1000);
  task.reading.labels = write("words.txt", words);
  EXPECT_EQ(load(task).classes.size(), 1000U);
}

TEST(Load, MissingCellsGetTheMeansOfTheTrainingRows) {
  TrainTask task;
  task.data = write("holes.csv", "1,2,a\n3,,b\n5,6,a\n,8,b\n");
  task.test = write("holes_test.csv", ",,a\n3,4,b\n");
  task.scaling = "none";
  task.reading.header = bilevel::data::Header::no;
  EXPECT_NE(refusal([&] { load(task); }), "accepted");
  task.reading.missing = bilevel::data::Missing::mean;
  const TrainData data = load(task);
  EXPECT_EQ(data.train.inputs(1, 1), 16.0f / 3);
  EXPECT_EQ(data.train.inputs(0, 3), 3);
  EXPECT_EQ(data.test.inputs.col(0), (Eigen::Vector2f{3, 16.0f / 3}));
}

TEST(NetworkFile, SaysOfRowsWhatTrainingSaid) {
  std::string text = "size,colour,kind\n", rows = "kind,colour,size\n";
  for (int i = 0; i < 120; ++i) {
    const char* const colour = i % 2 == 0 ? "red" : "blue";
    const char* const kind = (i % 2 == 0) == (i % 7 < 3) ? "this" : "that";
    text += fmt::format("{},{},{}\n", i % 7, colour, kind);
    rows += fmt::format("{},{},{}\n", kind, colour, i % 7);
  }
  TrainTask task;
  task.data = write("kinds.csv", text);
  task.test = write("rows.csv", rows);  // the same rows, the columns in another order
  task.layers = "16";
  task.epochs = 5;
  task.probe = 0;
  const TrainData data = load(task);
  const TrainResult result = train(settings_of(task, data), data, {});
  const std::string path =
      write("kinds.json", network_text({settings_of(task, data), result.theta, data.classes, data.shift,
                                        data.factor, data.imputed, data.schema},
                                       "0"));
  EXPECT_TRUE(is_network(path));
  EXPECT_FALSE(is_network(task.data));
  const SavedNetwork back = read_network(path);
  bilevel::data::ReadOptions reading;
  reading.target_optional = true;
  const auto again = bilevel::data::read(task.test, reading, &back.schema);
  EXPECT_EQ(outputs_of(back, again), result.outputs);
}

/// With noise on everything that a layer receives: the difference of two phases is divided by β, and the
/// noise with it.
TEST(Train, NoiseStopsSmallNudgesAndNotLargeOnes) {
  const auto error = [](const char* estimator, double beta, double noise) {
    TrainTask task;
    task.rows = 2000;
    task.layers = "64";
    task.activation = "tanh";
    task.read_out = "squared";
    task.batch = 20;
    task.free_steps = 20;
    task.scale = 0.5;
    task.estimator = estimator;
    task.beta = beta;
    task.noise = noise;
    task.epochs = 10;
    task.decay = 0.75;
    task.nudged_steps = 6;
    task.optimizer = "adam";
    task.learning_rate = 0.005;
    task.probe = 0;
    const TrainData data = load(task);
    const TrainResult result = train(settings_of(task, data), data, {});
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

/// Weights that no gradient holds shrink by 1 − rate·λ a step; biases stay.
TEST(Weights, DecayShrinksWeightsAlone) {
  for (const char* optimizer : {"sgd", "adam"}) {
    TrainTask task;
    task.layers = "7";
    task.optimizer = optimizer;
    task.learning_rate = 0.5;
    task.weight_decay = 0.2;
    const Settings s = settle_task(task, 5, 9, 3);
    const Eigen::VectorXf start = Eigen::VectorXf::Ones(s.architecture.parameters());
    Weights weights(s, start);
    for (int i = 0; i < 3; ++i) weights.step(Eigen::VectorXf::Zero(start.size()), 0.5);
    for (Index k = 1; k <= 2; ++k) {
      const auto p = s.architecture.layer(k);
      const double rate = 0.5 * s.learning_rates[static_cast<std::size_t>(k - 1)];
      EXPECT_NEAR(weights.theta()[p.weights], std::pow(1 - 0.2 * rate, 3), 1e-6);
      EXPECT_EQ(weights.theta()[p.bias], 1);
    }
  }
}

/// Steps with centred gradients are those of W in tᵀWt, t = s − m: what units in their middle receive moves
/// by the biases' own step alone.
TEST(Weights, CentredStepsAreThoseOfCentredCouplings) {
  TrainTask task;
  task.layers = "5-7-6-3";
  Settings s = settle_task(task, 5, 9, 3);
  ASSERT_TRUE(s.centred);
  s.optimizer = "sgd";
  s.learning_rates.assign(3, 0.1);
  const auto& a = s.architecture;
  const Eigen::VectorXf start = Eigen::VectorXf::Random(a.parameters()),
                        gradient = Eigen::VectorXf::Random(a.parameters());
  Weights weights(s, start);
  weights.step(gradient, 1);
  const auto matrix = [&](const Eigen::VectorXf& of, Index k) -> Matrix {
    const auto p = a.layer(k);
    return Eigen::Map<const Matrix>(of.data() + p.weights, p.units, p.inputs);
  };
  const auto bias = [&](const Eigen::VectorXf& of, Index k) -> Eigen::VectorXf {
    return of.segment(a.layer(k).bias, a.layer(k).units);
  };
  const Eigen::VectorXf& end = weights.theta();
  for (Index k = 1; k <= 3; ++k) {
    const float own = k < 3 ? 0.5f : 0;
    Matrix expected = matrix(gradient, k);
    if (k > 1) {
      expected.colwise() -= 0.5f * bias(gradient, k);
      expected.rowwise() -= own * bias(gradient, k - 1).transpose();
    }
    EXPECT_LT((matrix(start, k) - 0.1f * expected - matrix(end, k)).norm(), 1e-5f) << k;
    const auto at_the_middle = [&](const Eigen::VectorXf& theta) -> Eigen::VectorXf {
      Eigen::VectorXf sum = bias(theta, k);
      if (k > 1) sum += 0.5f * matrix(theta, k).rowwise().sum();
      if (k < 2) sum += 0.5f * matrix(theta, k + 1).colwise().sum().transpose();
      return sum;
    };
    EXPECT_LT((at_the_middle(start) - 0.1f * bias(gradient, k) - at_the_middle(end)).norm(), 1e-5f) << k;
  }
}

TEST(Train, Mnist) {
  const char* const set = std::getenv("BILEVEL_DATA");
  const std::string folder = std::string(set && *set ? set : BILEVEL_DATA_DEFAULT) + "/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no data at " << folder;
  TrainTask task;
  task.data = folder;
  task.rows = 10000;
  task.layers = "784-256-10";
  task.epochs = 3;
  task.probe = 8;
  const TrainData data = load(task);
  EXPECT_EQ(data.features(), 784);
  EXPECT_EQ(data.test.rows(), 10000);
  const TrainResult result = train(settings_of(task, data), data, {});
  EXPECT_LE(result.epochs.back().test_error, 0.065);
}

}  // namespace
