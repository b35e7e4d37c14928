#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <bilevel/data/read.hpp>
#include <bilevel/networks/propagation.hpp>

namespace training {

using bilevel::Index;
using bilevel::InvalidInput;

/// Of a free phase. A network's file may ask for no more: whoever wrote it would keep the reader busy.
inline constexpr long most_free_steps = 100'000;

/// What a person asked for. Zero and empty mean "what suits the energy".
struct TrainTask {
  std::string data;  ///< folder of IDX files, LIBSVM, CSV, NPY; empty: generated images
  std::string test;  ///< file or share of the rows; empty: the folder's own, else a fifth
  std::string test_labels;
  bilevel::data::ReadOptions reading;
  std::string scaling = "auto";  ///< auto, none, unit (to at most 1 in size), standard (mean 0, deviation 1)
  Index rows = 0;                ///< train on so many rows at most; 0: all

  std::string energy = "hopfield";
  std::string layers;  ///< "784-512-10", or one hidden layer alone: "512"
  std::string activation, read_out;
  double input_gain = 0, gain = 0;

  std::string estimator;
  double beta = 0;
  int points = 0;  ///< on the circle of ep-holomorphic
  int epochs = 0;
  Index batch = 0;
  std::string optimizer;
  double learning_rate = 0;
  std::vector<double> layer_rates;  ///< factors of the learning rate, one a layer
  double decay = 0;                 ///< the rate is multiplied by this after every epoch
  double momentum = -1;
  double weight_decay = 0;  ///< a step also takes rate × this × weight off every weight
  std::string schedule;
  double step = 0;
  long free_steps = 0, nudged_steps = 0;
  double tolerance = 0;
  bool persistent = false;
  double noise = 0;
  double scale = 0;  ///< of the initial weights
  std::uint64_t seed = 1;
  double seconds = 0;  ///< most seconds of training; 0: no limit
  Index probe = 128;   ///< test rows on which the gradient is compared with the exact one; 0: none

  void validate() const;
};

/// How the gradient of a batch is found.
enum class Route {
  propagation,  ///< equilibrium propagation, holomorphic too, by networks::Propagation, in single precision
  backpropagation,  ///< the feed-forward pass of predictive coding and back
  library           ///< any estimator of the library on networks::NetworkProblem, in double
};

/// The task with every choice made.
struct Settings {
  bilevel::networks::Architecture architecture;
  bilevel::networks::PropagationOptions propagation;
  Route route = Route::propagation;
  std::string estimator, optimizer;
  int epochs = 0;
  Index batch = 0;
  std::vector<double> learning_rates;  ///< of each layer, in the first epoch
  /// Gradients are taken as those of weights between activities less their middles.
  bool centred = false;
  double decay = 1, momentum = 0, weight_decay = 0;
  bool persistent = false;
  double scale = 1, seconds = 0;
  std::uint64_t seed = 1;
  Index probe = 0;
};

/// Fills in what the task leaves open, for data of so many features, rows and classes, and features of this
/// size (root of the mean square; 0: not known). Throws InvalidInput with everything that does not fit.
Settings settle_task(const TrainTask& task, Index features, Index rows, Index classes,
                     double feature_size = 0);

}  // namespace training
