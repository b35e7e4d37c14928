#include "training_cases.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>

#include <bilevel/files/atomic_file.hpp>

#include "networks/training/kept_training.hpp"

namespace stopped_training_test {

using namespace training_cases;

TEST(Train, AStopDuringATestLeavesTimeForTheLastLook) {
  Task task = small_task();
  task.probe = 0;
  task.certify_every = -1;  // which asks whether to stop, as often as there is time for it
  const TrainingData data = load(task);
  const TrainSettings settings = resolve_options(task, data);
  std::atomic<int> calls = 0;
  int after_test = 0;
  TrainControl control;
  control.interrupted = [&] {
    ++calls;
    return false;
  };
  control.callback = [&](const Epoch& e) {
    if (e.epoch == 1) after_test = calls;
    return true;
  };
  train(data, settings, control);
  // The last call before an epoch is over follows its test; those before that are the test's own.
  calls = 0;
  control.interrupted = [&] { return ++calls >= after_test - 1; };
  const TrainedNetwork cut = train(data, settings, control);
  EXPECT_EQ(cut.status, Status::interrupted);
  EXPECT_TRUE(cut.epochs.empty());
  EXPECT_EQ(cut.predicted.size(), static_cast<std::size_t>(data.test.rows()));
}

TEST(Train, AStoppedRunGoesOnToTheSameBits) {
  for (const bool persistent : {false, true}) {
    SCOPED_TRACE(persistent);
    Task task = small_task();
    task.persistent = persistent;
    task.momentum = 0.5;
    task.estimator = "ep-random-sign";
    task.noise = 0.01;
    const TrainingData data = load(task);
    const TrainSettings settings = resolve_options(task, data);
    const TrainedNetwork whole = train(data, settings);
    // Asked in the middle of phases, of tests and of probes; later every time, so that there is an end.
    int stops = 0;
    std::atomic<int> calls = 0;
    TrainControl control{.checkpoint = scratch("run.ckpt"), .forget = false, .identity = "this"};
    control.interrupted = [&] { return ++calls > 150 * (stops + 1); };
    TrainedNetwork parts = train(data, settings, control);
    for (; parts.status == Status::interrupted; ++stops) {
      control.resume = true;
      calls = 0;
      parts = train(data, settings, control);
    }
    EXPECT_GE(stops, 2);
    EXPECT_EQ(parts.theta(), whole.theta());
    ASSERT_EQ(parts.epochs.size(), whole.epochs.size());
    for (std::size_t i = 0; i < whole.epochs.size(); ++i) {
      EXPECT_EQ(parts.epochs[i].train_error, whole.epochs[i].train_error);
      EXPECT_EQ(parts.epochs[i].test_error, whole.epochs[i].test_error);
    }
    control.identity = "another";
    EXPECT_COMPLAINT(train(data, settings, control), "on other data or with another network");
    std::filesystem::remove(control.checkpoint);
  }
}

TEST(Train, ARunThatDivergesKeepsTheLastGoodWeights) {
  Task task = small_task();
  task.energy = Energy::predictive_coding;
  task.optimizer = WeightOptimizer::sgd;
  task.learning_rate = 1e-3;
  task.epochs = 1;
  const TrainingData data = load(task);
  const TrainedNetwork good = train(data, task);
  // The second epoch has a rate that nothing survives.
  task.epochs = 2;
  TrainSettings settings = resolve_options(task, data);
  settings.decay = 1e12;
  TrainControl control{.checkpoint = scratch("diverged.ckpt"), .identity = "this"};
  const TrainedNetwork result = train(data, settings, control);
  EXPECT_EQ(result.status, Status::diverged);
  EXPECT_NE(result.message.find("in epoch 2"), std::string::npos) << result.message;
  EXPECT_EQ(result.theta(), good.theta());
  EXPECT_TRUE(result.outputs.allFinite());
  const KeptTraining kept = read_kept(control.checkpoint, "this");
  EXPECT_EQ(kept.theta, good.theta());
  EXPECT_EQ(kept.epoch, 1);
}

/// What only the last step of an epoch does is seen before the weights count as good.
TEST(Train, AnEpochThatEndsBadlyIsNotKept) {
  Task task = small_task();
  task.activation = Activation::tanh;
  task.read_out = ReadOut::squared;
  task.optimizer = WeightOptimizer::sgd;
  task.batch = 600;
  for (const double rate : {20.0, 1e39}) {
    task.learning_rate = rate;
    const TrainingData data = load(task);
    TrainControl control{.checkpoint = scratch("bad.ckpt"), .identity = "this"};
    const TrainSettings settings = resolve_options(task, data);
    const TrainedNetwork result = train(data, settings, control);
    EXPECT_EQ(result.status, Status::diverged) << rate;
    EXPECT_NE(result.message.find("the weights of the start are kept"), std::string::npos) << result.message;
    EXPECT_EQ(result.remedy.find("`learning_rate`"), 0U) << result.remedy;
    EXPECT_EQ(result.theta(), initial_parameters(settings.architecture, 1, settings.scale).cast<float>());
    EXPECT_EQ(read_kept(control.checkpoint, "this").theta, result.theta());
    std::filesystem::remove(control.checkpoint);
  }
}

TEST(Train, AKeptRunIsNotCutShort) {
  Task task = small_task();
  const TrainingData data = load(task);
  TrainControl control{.checkpoint = scratch("long.ckpt"), .forget = false, .identity = "this"};
  ASSERT_EQ(train(data, task, control).status, Status::converged);
  control.resume = true;
  task.epochs = 2;
  EXPECT_COMPLAINT(train(data, task, control), "it has 3 epochs already, and `epochs` is 2");
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

TEST(Train, ACallbackThatHasSeenEnoughStopsTheRun) {
  const Task task = small_task();
  const TrainingData data = load(task);
  TrainControl control;
  control.callback = [](const Epoch& e) { return e.epoch < 2; };
  const TrainedNetwork result = train(data, task, control);
  EXPECT_EQ(result.status, Status::interrupted);
  EXPECT_EQ(result.message, "stopped after epoch 2");
  EXPECT_EQ(result.epochs.size(), 2U);
}

/// As versions 1 and 2 wrote them: a line of JSON, the numbers, a checksum. And as version 3 did, sealed.
TEST(KeptTraining, FilesOfOlderVersionsAreRefusedByName) {
  const std::string path = write(
      "old.ckpt",
      "{\"format\":\"bilevel-training\",\"batch\":0,\"identity\":\"me\",\"version\":2}\n0123456789abcdef");
  EXPECT_COMPLAINT(read_kept(path, "me"),
                   "it is a bilevel-training of version 2, and this program reads version 4");
  EXPECT_COMPLAINT(read_kept(path, "me"), path);
  const std::string third =
      write("third.ckpt", sealed(FileKind{"bilevel-training", 3}, "{\"identity\":\"me\"}", "12345678"));
  EXPECT_COMPLAINT(read_kept(third, "me"),
                   "it is a bilevel-training of version 3, and this program reads version 4");
}

/// What draws and moves the weights is the run's own; rates, β and numbers of steps may change.
TEST(Train, AKeptRunIsThatOfItsMethodsAndRows) {
  Task task = small_task();
  task.rows = 60;
  task.activation = Activation::tanh;
  task.optimizer = WeightOptimizer::sgd;
  const TrainingData data = load(task);
  const auto identity = [&](auto&& change) {
    Task other = task;
    change(other);
    return run_identity(data, resolve_options(other, data));
  };
  const std::string own = identity([](Task&) {});
  for (const auto& change : std::vector<std::function<void(Task&)>>{
           [](Task& t) { t.estimator = "ep-forward-2"; }, [](Task& t) { t.noise = 0.1; },
           [](Task& t) { t.persistent = true; }, [](Task& t) { t.weight_decay = 0.1; },
           [](Task& t) { t.momentum = 0.5; }, [](Task& t) { t.scale = 2; },
           [](Task& t) { t.optimizer = WeightOptimizer::adam; }, [](Task& t) { t.seed = 2; },
           [&](Task& t) {
             const TrainSettings s = resolve_options(task, data);
             t.start = SavedNetwork{.architecture = s.architecture,
                                    .theta = Eigen::VectorXf::Ones(s.architecture.parameters())};
           }})
    EXPECT_NE(identity(change), own);
  for (const auto& change : std::vector<std::function<void(Task&)>>{
           [](Task& t) { t.learning_rate = 0.7; }, [](Task& t) { t.beta = 0.1; },
           [](Task& t) { t.free_steps = 50; }, [](Task& t) { t.nudged_steps = 50; },
           [](Task& t) { t.epochs = 9; }, [](Task& t) { t.decay = 0.5; }, [](Task& t) { t.probe = 3; }})
    EXPECT_EQ(identity(change), own);
  TrainingData tested = data;
  tested.test.inputs(0, 0) += 1;
  EXPECT_NE(run_identity(tested, resolve_options(task, data)), own);
  // Without an identity of the caller's this is what a kept run must agree with.
  TrainControl control{.checkpoint = scratch("methods.ckpt"), .forget = false};
  ASSERT_EQ(train(data, task, control).status, Status::converged);
  control.resume = true;
  task.epochs = 4;
  EXPECT_EQ(train(data, task, control).epochs.size(), 4U);
  task.weight_decay = 0.1;
  EXPECT_COMPLAINT(train(data, task, control), "with another network, estimator or optimiser");
}

/// A place is looked at before any work, and left as it was.
TEST(Train, WhatAPersonKeepsIsNotOverwritten) {
  Task task = small_task();
  task.rows = 60;
  const TrainingData data = load(task);
  const std::string table = write("table.csv", "a,b\n1,2\n"), place = scratch("twice.ckpt");
  for (const bool resume : {false, true})
    EXPECT_COMPLAINT(train(data, task, {.checkpoint = table, .resume = resume}),
                     "is no checkpoint of bilevel");
  EXPECT_EQ(read_file(table), "a,b\n1,2\n");
  int calls = 0;
  const TrainedNetwork stopped =
      train(data, task, {.checkpoint = place, .interrupted = [&] { return ++calls > 3; }});
  ASSERT_EQ(stopped.status, Status::interrupted);
  EXPECT_COMPLAINT(train(data, task, {.checkpoint = place}), "keeps an unfinished run");
  ASSERT_EQ(train(data, task, {.checkpoint = place, .resume = true}).status, Status::converged);
  EXPECT_FALSE(std::filesystem::exists(place));
}

/// A function that says nothing is as good as none.
TEST(Train, EmptyFunctionsAreNotCalled) {
  Task task = small_task();
  task.rows = 60;
  task.epochs = 1;
  EXPECT_EQ(train(load(task), task, {.progress = {}, .callback = {}, .interrupted = {}}).status,
            Status::converged);
}

TEST(Train, ToResumeOneMustSayWhere) {
  Task task = small_task();
  task.rows = 60;
  const TrainingData data = load(task);
  EXPECT_COMPLAINT(train(data, task, {.resume = true}), "train.resume = true needs a `checkpoint`");
}

}  // namespace stopped_training_test
