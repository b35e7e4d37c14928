#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/outer/solve.hpp>

#include <bilevel/models/folds.hpp>
#include <bilevel/models/score_test.hpp>

namespace bilevel::models {

struct GridPoint {
  double log_lambda = 0, validation_loss = bilevel::unknown, seconds = 0;  ///< seconds since the grid's start
};

/// Which family of penalties the model has, and what the data said when they were asked.
struct Choice {
  std::string kind;  ///< single, adaptive or per-feature; or the penalty that was asked for
  std::optional<double> gamma;  ///< of the adaptive penalties, kept or not
  /// By how much they lower the held-out loss of the best single λ, as a share of it, with its standard error
  /// row by row.
  std::optional<double> gain, gain_error;
  std::optional<Score> score;
  /// The width ω of the prior, the scale s of the loss, and the precision s/(nω²); empty without one.
  std::optional<double> prior_width, loss_scale, precision;
  std::vector<std::string> answers;  ///< question and answer, a sentence each
};

struct TuneResult {
  bilevel::Summary summary;
  Fitted tuned, grid, standard;  ///< standard: λ = 1/n, what other tools take unless told otherwise
  Choice choice;
  std::vector<GridPoint> points;
  double lower = 0, upper = 0;  ///< the box of every log λ in the end
  double grid_seconds = 0, seconds = 0;
  bool grid_uncertified = false;  ///< a lower single λ does better, where no gradient can be certified
  long grid_fits = 0;  ///< of single models on the grid
  long fits = 0;       ///< in all, but for those of a run that was resumed
  std::string solvers;
  std::vector<std::string> warnings;
  double test_difference_error = bilevel::unknown;  ///< of tuned less grid on the test rows, row by row
  double standard_difference_error = bilevel::unknown;  ///< of standard less grid
  double loss_scale = 1;  ///< the summary's losses times this are in units of the target
  bool interrupted = false;
  /// Where it ended before penalties were chosen: what had been done. Else empty.
  std::string reached;
};

struct TuneControl {
  std::string checkpoint;  ///< where the run is kept; empty for nowhere
  bool resume = false;
  std::string identity;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::function<bool()> interrupted = [] { return false; };  ///< called from several threads
  double grace = 0.6;  ///< seconds that the final fits may take once the run was to end
};

/// First one λ for all over a grid; then the family of penalties that was asked for, or that the data favour,
/// from the best of the grid.
TuneResult tune(const Task& task, const Prepared& prepared, const TuneControl& control);

/// What a run keeps beside its checkpoint.
std::vector<std::string> kept_beside(const Task& task);

/// "lower", "upper" or nothing.
std::optional<std::string> at_bound(const TuneResult& result, double log_lambda);

}  // namespace bilevel::models
