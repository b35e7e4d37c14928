#pragma once

#include <string>

#include <gtest/gtest.h>

#include <bilevel/networks/train.hpp>

#include "refusal.hpp"
#include "scratch.hpp"

#define EXPECT_COMPLAINT(act, part) \
  EXPECT_NE(refusal([&] { act; }).find(part), std::string::npos) << refusal([&] { act; })

namespace training_cases {

using namespace bilevel;
using namespace bilevel::networks;
using Index = Eigen::Index;

/// Options, and where the rows come from: drawn digits where no file is named.
struct Task : TrainOptions {
  std::string data, test;
  data::ReadOptions reading;
  Scaling scaling = Scaling::automatic;
  Index rows = 0;
};

inline TrainingData load(const Task& task) {
  if (task.data.empty()) return drawn_digits(task.rows, task.seed);
  return read_training_data({.data = task.data, .test = task.test, .reading = task.reading},
                            {.rows = task.rows, .scaling = task.scaling, .seed = task.seed});
}

inline Task small_task() {
  Task task;
  task.rows = 600;
  task.epochs = 3;
  task.layers = {40};
  return task;
}

}  // namespace training_cases
