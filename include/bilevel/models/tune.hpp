#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/files/kept_run.hpp>
#include <bilevel/outer/solve.hpp>

#include <bilevel/models/prepared.hpp>
#include <bilevel/models/quality.hpp>
#include <bilevel/models/saved_model.hpp>

namespace bilevel::models {

/// Do the parts of θ want to differ? Each held-out row pulls θ by its own hypergradient u_i; centred over the
/// parts of θ, c_i is its opinion of how they should differ. With row weights ω_i that sum to one,
///   g = Σ ω_i c_i,   J = Σ ω_i² (c_i − g)(c_i − g)ᵀ,   ρ = |g|²/tr J,   ν = (tr J)²/tr J²
/// and were all opinions noise, ρν would be about χ² with ν degrees of freedom (Satterthwaite).
struct Score {
  double rho = bilevel::unknown, nu = bilevel::unknown, p = bilevel::unknown;
};

/// One λ for all that was tried.
struct GridPoint {
  double log_lambda = 0, validation_loss = bilevel::unknown, seconds = 0;  ///< seconds since the grid's start
};

/// Which family of penalties the model has, and what the data said when they were asked.
struct Choice {
  std::string kind;             ///< single, adaptive or per-feature; or the penalty that was asked for
  std::optional<double> gamma;  ///< of the adaptive penalties, kept or not
  /// By how much they lower the held-out loss of the best single λ, as a share of it, with its standard error
  /// row by row.
  std::optional<double> gain, gain_error;
  std::optional<Score> score;
  /// The width ω of the prior, the scale s of the loss, and the precision s/(nω²); empty without one.
  std::optional<double> prior_width, loss_scale, precision;
  std::vector<std::string> answers;  ///< question and answer, a sentence each
};

/// What `tune` found, with all that it tried on the way.
struct Tuned {
  bilevel::Summary summary;
  Fitted chosen, grid, standard;  ///< standard: λ = 1/n, what other tools take unless told otherwise
  SavedModel model;               ///< the chosen one, to predict with
  Choice choice;
  std::vector<GridPoint> points;
  double lower = 0, upper = 0;  ///< the box of every log λ in the end
  double grid_seconds = 0, seconds = 0;
  bool grid_uncertified = false;  ///< a lower single λ does better, where no gradient can be certified
  long grid_fits = 0;             ///< of single models on the grid
  long fits = 0;                  ///< in all, but for those of a run that was resumed
  std::string solvers;
  std::vector<std::string> warnings;
  double test_difference_error = bilevel::unknown;      ///< of chosen less grid on the test rows, row by row
  double standard_difference_error = bilevel::unknown;  ///< of standard less grid
  double loss_scale = 1;  ///< the summary's losses times this are in units of the target
  bool interrupted = false;
  /// Where it ended before penalties were chosen: what had been done. Else empty.
  std::string reached;

  /// Whether it ended at an optimum, and the last gradient can be trusted.
  bool trustworthy() const;
  /// What the chosen model says of rows with the same features, in their order. NaN is a missing cell. A run
  /// that ended early may have none (`chosen.fitted`): then this and `save` throw InvalidInput with its
  /// status.
  Predictions predict(const Eigen::MatrixXd& rows) const { return model.predict(rows); }
  Predictions predict(bilevel::data::Dataset rows) const { return model.predict(std::move(rows)); }
  /// Writes the model; SavedModel::load and `bilevel predict` read it.
  void save(const std::string& path) const { model.save(path); }
};

/// How a run is watched, kept and ended early.
struct TuneControl {
  /// A file in which the run is kept while it lasts, with others beside it; empty for nowhere. A place that
  /// keeps a run already, or a file of another kind, is refused and left alone.
  std::string checkpoint = {};
  bool resume = false;  ///< go on with the run that is kept there, if there is one
  /// Once the run is over its files are removed; else whoever reads the result does it: `kept_run`.
  bool forget = true;
  /// What the run is: one of another identity is not gone on with. Empty: made from the data and the options.
  std::string identity = {};
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  /// Called after every evaluation, with losses in units of the target; false stops as `interrupted` does.
  std::function<bool(const bilevel::HistoryEntry&)> callback = {};
  std::function<bool()> interrupted = [] { return false; };  ///< called from several threads
  double grace = 0.6;  ///< seconds that the final fits may take once the run was to end

  Violations validate() const;
};

/// Tunes the penalties of a linear model on data, with a certificate: first one λ for all over a grid; then
/// the family of penalties that was asked for, or that the data favour, from the best of the grid. Throws
/// InvalidInput where data or options are wrong; how the run ended is in the result's summary.
///
///     const Tuned tuned = tune(data::make_dataset(x, y), {.model = Model::ridge});
///     const Eigen::VectorXd said = tuned.predict(x_new).values;
Tuned tune(TuningData data, const TuneOptions& options = {}, const TuneControl& control = {});
/// The same of data that `prepare` has split by the same options.
Tuned tune(const Prepared& prepared, const TuneOptions& options, const TuneControl& control = {});

/// The checkpoint of a run and all that it keeps beside it.
bilevel::KeptRun kept_run(const std::string& checkpoint, const TuneOptions& options);

/// Whether a penalty ended at the "lower" or "upper" end of the box.
std::optional<std::string> at_bound(const Tuned& result, double log_lambda);

}  // namespace bilevel::models
