// What the options of `tune` and `clean` refuse, before any work, each by its name; and what a control does.

#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "scratch.hpp"
#include "table.hpp"

namespace bilevel::models {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

std::string all(const Violations& violations) {
  return fmt::format("{}", fmt::join(violations.texts(), "; "));
}

TEST(Options, WhatContradictsItselfOrWouldChangeNothingIsRefused) {
  const std::vector<std::pair<TuneOptions, std::string>> wrong{
      {{.model = Model::ridge, .loss_parameter = 2},
       "TuneOptions.loss_parameter = 2 is for models whose loss"},
      {{.model = Model::softmax, .loss_parameter = 2}, "TuneOptions.loss_parameter"},
      {{.model = Model::huber, .loss_parameter = not_a_number}, "TuneOptions.loss_parameter"},
      {{.penalty = Penalty::global, .groups = {{"a", "g"}}}, "TuneOptions.groups"},
      {{.penalty = Penalty::per_feature, .group_separator = '_'}, "TuneOptions.group_separator = '_' is for"},
      {{.groups = {{"a", "g"}}, .group_separator = '_'}, "give one of the two"},
      {{.penalty = Penalty::global, .prior_width = 1}, "TuneOptions.prior_width = 1 is for many penalties"},
      {{.starts = {11}}, "TuneOptions.starts = 11 must lie within the bounds -10 and 10"},
      {{.starts = {not_a_number}}, "TuneOptions.starts"},
      {{.seconds = -1}, "TuneOptions.seconds = -1"},
      {{.seconds = not_a_number}, "TuneOptions.seconds"},
      {{.lower = -301}, "TuneOptions.lower = -301"},
      {{.upper = 301}, "TuneOptions.upper = 301"},
  };
  for (const auto& [options, expected] : wrong)
    EXPECT_NE(all(options.validate()).find(expected), std::string::npos) << expected << "\n"
                                                                         << all(options.validate());
  EXPECT_EQ(all(TuneOptions{}.validate()), "");
  EXPECT_EQ(all(TuneOptions{.model = Model::negative_binomial, .loss_parameter = 2}.validate()), "");
  EXPECT_NE(all(CleanOptions{.seconds = -1}.validate()).find("CleanOptions.seconds"), std::string::npos);
}

TEST(Options, PreparedDataDoNotSpareThem) {
  const Prepared p = prepare(task_of(write("prepared.csv", Table{.classes = 0}.text())));
  EXPECT_THROW(tune(p, {.tolerance = -1}), InvalidInput);
  CleanTask task;
  task.data = write("cleaned.csv", Table{}.text());
  task.trusted = "10";
  const CleanData c = prepare_clean(task);
  EXPECT_THROW(clean(c, {.threshold = 2}), InvalidInput);
}

TEST(Options, RefitIsForRowsHeldOut) {
  Task task = task_of(write("refit.csv", Table{.classes = 0}.text()));
  task.refit = true;
  EXPECT_THROW(prepare(task), InvalidInput);
  task.validation = "0.25";
  EXPECT_TRUE(prepare(task).refits);
}

TEST(Control, ResumingNeedsAPlace) {
  const Prepared p = prepare(task_of(write("control.csv", Table{.classes = 0}.text())));
  EXPECT_THROW(tune(p, {}, {.resume = true}), InvalidInput);
  EXPECT_THROW(tune(p, {}, {.grace = not_a_number}), InvalidInput);
}

TEST(Control, ARunThatIsKeptIsNotOverwrittenAndOneThatIsOverIsForgotten) {
  const Prepared p = prepare(task_of(write("control.csv", Table{.classes = 0}.text())));
  const std::string path = scratch("kept.ckpt");
  TuneControl control{.checkpoint = path};
  int reports = 0;
  control.progress = [&](const std::string&) { ++reports; };
  control.interrupted = [&] { return reports > 3; };
  ASSERT_TRUE(tune(p, {}, control).interrupted);
  ASSERT_TRUE(kept_run(path, {}).exists());
  const TuneControl anew{.checkpoint = path}, on{.checkpoint = path, .resume = true};
  EXPECT_THROW(tune(p, {}, anew), InvalidInput);
  EXPECT_TRUE(kept_run(path, {}).exists());
  EXPECT_THROW(tune(p, {.seed = 2}, on), InvalidInput) << "of another identity";
  EXPECT_TRUE(tune(p, {}, on).chosen.fitted);
  EXPECT_FALSE(kept_run(path, {}).exists());
  const std::string notes = write("kept.ckpt", "my notes\n");
  EXPECT_THROW(tune(p, {}, TuneControl{.checkpoint = notes}), InvalidInput);
  EXPECT_TRUE(std::filesystem::exists(notes));
  std::filesystem::remove(notes);
}

TEST(Control, ACallbackSeesEveryEvaluationAndStopsTheRun) {
  Task task;
  task.example = true;
  task.penalty = Penalty::per_feature;
  const Prepared p = prepare(task);
  std::vector<double> losses;
  TuneControl control;
  control.grace = 60;
  control.callback = [&](const bilevel::HistoryEntry& h) {
    losses.push_back(h.outer_value);
    return losses.size() < 3;
  };
  const Tuned cut = tune(task, p, control);
  EXPECT_TRUE(cut.interrupted);
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_EQ(losses[0], cut.loss_scale * cut.summary.history[0].outer_value) << "in units of the target";
  EXPECT_TRUE(cut.chosen.fitted);
}

}  // namespace
}  // namespace bilevel::models
