#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outcome/status.hpp>

#include "dataset.hpp"
#include "task.hpp"

namespace training {

/// What one pass over the training rows showed. Errors are shares of the rows in [0, 1].
struct Epoch {
  int epoch = 0;
  double train_error = bilevel::unknown;  ///< of the free phases as the weights moved
  double test_error = bilevel::unknown, train_cost = bilevel::unknown, test_cost = bilevel::unknown;
  double samples_per_second = 0;
  double relaxation_residual =
      bilevel::unknown;        ///< mean over the samples of the largest movement in the last free step
  double nudged_residual = 0;  ///< the same of the nudged phases; 0 where there are none
  double gradient_cosine = bilevel::unknown, gradient_error = bilevel::unknown;  ///< on the probe
  double learning_rate = 0, seconds = 0;
};

/// The gradient that training uses, beside the exact one, on a few test rows.
struct Probe {
  Index samples = 0;
  double cosine = bilevel::unknown, relative_error = bilevel::unknown, norm = bilevel::unknown;
  std::string exact;  ///< how the exact one was found
  /// Of the training gradient: its distance from the exact one and that one's own bound.
  bilevel::Certificate certificate;
};

/// How a phase settles, step by step, from step 0: means over the probe's samples.
struct Trace {
  double beta = 0;
  std::vector<double> energy, moved;
};

struct TrainResult {
  bilevel::Status status = bilevel::Status::not_run;
  std::string message;
  std::string remedy;  ///< of a run that diverged: the option that may help
  Eigen::VectorXf theta;
  std::vector<Epoch> epochs;
  std::optional<Probe> probe;
  std::vector<Trace> traces;   ///< the free phase first
  std::vector<int> predicted;  ///< of the test rows
  Matrix outputs;              ///< of the test rows
  std::vector<std::string> warnings;
  double seconds = 0;
  bool resumed = false;
};

struct TrainControl {
  std::string checkpoint;  ///< where the run is kept; empty for nowhere
  bool resume = false;
  std::string identity;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::function<void(const Epoch&)> on_epoch = [](const Epoch&) {};
  std::function<bool()> interrupted = [] { return false; };
};

TrainResult train(const Settings& settings, const TrainData& data, const TrainControl& control,
                  const Eigen::VectorXf* start = nullptr);

}  // namespace training
