#pragma once

#include <optional>
#include <string>
#include <vector>

#include <bilevel/models/clean_data.hpp>
#include <bilevel/models/tune.hpp>

namespace bilevel::models {

/// How well the rows reported agree with the labels that were replaced.
struct CleanTruth {
  Index corrupted = 0;  ///< rows whose label differs from the original
  double precision = 0, recall = 0, f1 = 0;
};

/// What `clean` found.
struct Cleaned {
  bilevel::Summary summary;
  std::vector<std::string> classes;  ///< names
  // Of the training rows, in the order of the data:
  std::vector<Index> rows;     ///< their numbers in the data, counted from 1
  std::vector<int> labels;     ///< the classes that they were given
  Vec weights;                 ///< σ(θ_i)
  std::vector<int> predicted;  ///< what the final model says about them
  std::vector<Index> order;    ///< training rows, the most suspicious first
  /// The first so many of them look mislabelled: they weigh less than the threshold and the model disagrees.
  Index flagged = 0;
  std::vector<Index> flagged_rows;  ///< their numbers in the data, counted from 1, ascending
  Index light = 0;                  ///< all that weigh less than the threshold
  double loss_before = bilevel::unknown, loss_after = bilevel::unknown;  ///< on the trusted rows
  /// On the test rows: all weights one, and the learned weights.
  std::optional<double> accuracy_before, accuracy_after;
  std::optional<CleanTruth> truth;
  std::vector<std::string> warnings;
  double seconds = 0;
  bool interrupted = false;

  /// The label of a training row, and what the final model says instead.
  const std::string& label(Index training_row) const {
    return classes[static_cast<std::size_t>(labels[static_cast<std::size_t>(training_row)])];
  }
  const std::string& prediction(Index training_row) const {
    return classes[static_cast<std::size_t>(predicted[static_cast<std::size_t>(training_row)])];
  }
  /// Whether it ended where it was to, and the last gradient can be trusted.
  bool trustworthy() const;
};

/// θ_i stays within ±this: a weight of 4.5·10⁻⁵ is none, and beyond it σ is too flat to find back.
inline constexpr double clean_bound = 10;

/// Learns one weight for each training row so that the model trained with them does well on the trusted rows.
/// Throws InvalidInput where data or options are wrong; how the run ended is in the result's summary.
Cleaned clean(CleaningData data, const CleanOptions& options, const TuneControl& control = {});
/// The same of data that `prepare_clean` has split by the same options.
Cleaned clean(const CleanData& data, const CleanOptions& options, const TuneControl& control = {});

}  // namespace bilevel::models
