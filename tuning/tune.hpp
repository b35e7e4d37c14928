#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/outer/solve.hpp>

#include "prepared.hpp"
#include "quality.hpp"

namespace tuning {

/// A model with the penalties θ, and how well it does. Losses are in units of the target.
struct Fitted {
  Vec theta;
  Vec coefficients;  ///< of the standardised features, then the intercepts, in units of the target
  Vec raw;           ///< the same of the features as the file has them
  double train_loss = bilevel::unknown;  ///< mean over the folds, without the penalty
  double validation_loss = bilevel::unknown;
  Quality validation;
  std::optional<Quality> test;
  std::vector<double> test_losses, test_weights;  ///< row by row
  std::string warning;                            ///< what makes its derivative doubtful; empty if nothing
  bool fitted = false;  ///< false: the run was to end before it was; all but θ is unknown
};

struct GridPoint {
  double log_lambda = 0, validation_loss = bilevel::unknown, seconds = 0;  ///< seconds since the grid's start
};

struct TuneResult {
  bilevel::Summary summary;
  Fitted tuned, grid, standard;  ///< standard: λ = 1/n, what other tools take unless told otherwise
  std::vector<GridPoint> points;
  double grid_seconds = 0, seconds = 0;
  long grid_fits = 0;
  std::string solvers;
  std::vector<std::string> warnings;
  double test_difference_error = bilevel::unknown;  ///< of tuned less grid on the test rows, row by row
  double loss_scale = 1;  ///< the summary's losses times this are in units of the target
  bool interrupted = false;
};

struct TuneControl {
  std::string checkpoint;  ///< where the run is kept; empty for nowhere
  bool resume = false;
  std::string identity;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::function<bool()> interrupted = [] { return false; };  ///< called from several threads
  double grace = 0.6;  ///< seconds that the final fits may take once the run was to end
};

/// First one λ for all over a grid, then all of them from the best of it.
TuneResult tune(const Task& task, const Prepared& prepared, const TuneControl& control);

/// The box of θ.
bilevel::Box box_of(const Task& task, const Prepared& prepared);
/// "lower", "upper" or nothing.
std::optional<std::string> at_bound(const Task& task, double theta);

}  // namespace tuning
