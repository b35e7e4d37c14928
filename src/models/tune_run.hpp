#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/models/tune.hpp>

#include "folds.hpp"
#include "score_test.hpp"

namespace bilevel::models {

/// Of the fits with one λ, a gradient in units in which curvatures are about one; the best is fitted once
/// more.
inline constexpr double grid_tolerance = 1e-7;
/// Of a network's fits, in units by its own curvature, where half the square of a gradient is what the loss
/// still may fall: on the grid, and where a descent begins or ends.
inline constexpr double network_grid_tolerance = 3e-3, network_tolerance = 1e-7;
/// The best λ between two values of the grid is the best for other rows too where it was found by so many
/// rows.
inline constexpr double many_rows = 100;

/// One run of `tune`: the grid and the descents (tune.cpp), and what is asked of the data between them
/// (choose.cpp).
class Run {
 public:
  Run(const TuneOptions& options, const Prepared& prepared, const TuneControl& control)
      : options_(options),
        prepared_(prepared),
        control_(control),
        stop_(control.interrupted, options.seconds),
        folds_(prepared),
        lower_(options.lower) {
    folds_.obey(&stop_);
    scale2_ = prepared.target_scale * prepared.target_scale;
    single_ = family_of(prepared, "single",
                        PenaltyMap::global(static_cast<Index>(prepared.penalties.of.size()), 1), {"all"});
  }

  Tuned run();
  /// The family that was asked for, with its prior, at the best single λ; none where there was no time for
  /// it.
  std::optional<Family> asked();

 private:
  bool search_grid();
  /// The best single λ, settled to the last digit, and how it does row by row.
  struct Pilot {
    double log_lambda = 0;
    Folds::All settled;
    std::vector<double> losses, weights;
    double rows = 0;  // that make up the loss
  };
  bool certified_at(double log_lambda);
  /// Of a fit that is looked at closely.
  double close() const { return prepared_.network() ? network_tolerance : 1e-10; }
  bool look_closer();
  bool look_at(double log_lambda, const std::vector<Vec>& warm);
  std::optional<double> between_values() const;
  Family choose();
  Family answered();
  bool try_adaptive(bool differ);
  bool try_layers();
  void ask(std::string question);
  /// By how much penalties lower the held-out losses of the best single λ, row by row: the mean with its
  /// standard error.
  struct Gain {
    double fall, error, rows;  // rows: that make up the spread
  };
  Gain gain_of(const Family& family, const bilevel::Summary& summary);
  bool test_score();
  Family asked_for() const;
  void add_prior(Family& family);
  void minimise(Family& family);
  /// `roughly`: as far as a question takes, whose answer has a standard error. A network's begins with the
  /// states φ, and follows their minimum; empty: with the problem's own start.
  bilevel::Summary descend(const Family& family, const Vec& start, const std::string& ending, const Vec& phi,
                           bool roughly = false);
  Vec pilot_phi() const;
  void widen(Family& family);
  void finish(const Family& family);
  double grid_step() const {
    return (options_.upper - options_.lower) / static_cast<double>(options_.grid - 1);
  }
  bool to_end() const { return stop_.wanted().has_value(); }
  /// What the final fits may take of the time that was asked for: they are three more of the grid's, tighter.
  double reserve() const {
    return std::min(0.25 * options_.seconds,
                    5 * result_.grid_seconds / static_cast<double>(result_.points.size()));
  }
  double time_left() const { return options_.seconds - watch_.seconds(); }
  Vec constant(const Family& family, double log_lambda) const;
  void set_box(Family& family) const;
  std::optional<double> best_inside() const;

  const TuneOptions& options_;
  const Prepared& prepared_;
  const TuneControl& control_;
  bilevel::StopToken stop_;  // after the grid it leaves time for the final fits
  Folds folds_;
  double lower_, scale2_ = 1;
  bilevel::Stopwatch watch_;
  Tuned result_;
  Family single_;
  GridPoint best_;
  std::vector<Vec> best_phi_;  // of the folds
  Pilot pilot_;
  std::string asking_;                                           // the question that is being asked
  std::optional<std::pair<Family, bilevel::Summary>> adaptive_;  // few numbers that were found while choosing
};

}  // namespace bilevel::models
