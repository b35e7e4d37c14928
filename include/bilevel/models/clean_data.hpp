#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/problems/data_loss.hpp>

#include <bilevel/models/task.hpp>

namespace bilevel::models {

/// Curvature is of the size of ‖x_i‖², so λ is measured by it. On MNIST with half the labels at random,
/// accuracy and F1 change by 0.01 between a third of this and three times it, and fall beyond.
inline constexpr double typical_lambda = 3e-5;

/// What a person asked of `clean`.
struct CleanTask {
  std::string data;
  bilevel::data::ReadOptions reading;
  /// Rows whose labels are right: a file, a share of the data's rows, or how many of them.
  std::string trusted;
  /// The same for rows that only measure accuracy; 0 for none.
  std::string test = "0";
  /// Files that hold the labels of those two files, where the data's own come from --labels.
  std::string trusted_labels, test_labels;
  Index rows = 0;      ///< of the others, look at this many, drawn at random; 0: all
  double corrupt = 0;  ///< for a trial: this share of the training rows gets a label at random
  /// λ of ½λ‖φ‖²; 0: `typical_lambda` times the mean of ‖x_i‖² over the training rows.
  double lambda = 0;
  double threshold = 0.5;  ///< rows with less weight are suspicious
  double decrease = 5e-4;  ///< stop when a step lowers the trusted loss by less, relative to it
  long iterations = 100;
  double seconds = 0;
  std::uint64_t seed = 1;

  void validate() const;
};

/// The data of a task, in memory once: the training rows, then the trusted ones, then those of the test.
struct CleanData {
  bilevel::problems::Samples samples;
  Index training_rows = 0, trusted_rows = 0, test_rows = 0;
  std::vector<Index> source_rows;     ///< of each training row: its number in the file, counted from 1
  std::vector<int> original;          ///< classes of the training rows before some were replaced, or empty
  std::vector<std::string> classes;   ///< names
  std::vector<Index> columns;         ///< features used, by their place among the file's
  std::vector<std::string> constant;  ///< features left out because they never change
  std::optional<std::pair<Index, Index>> image;  ///< rows × columns, where the features are pixels
  Index file_features = 0, file_rows = 0;
  double lambda = 0;  ///< the task's, or the typical one

  std::string source, format, storage, target, splitting, scaling;
  bool header = false;  ///< the file's first line holds names
  Index nonzeros = 0;
  std::vector<std::string> notes, warnings;

  bilevel::problems::RowRange training() const { return {0, training_rows}; }
  bilevel::problems::RowRange trusted() const { return {training_rows, training_rows + trusted_rows}; }
  bilevel::problems::RowRange test() const {
    return {training_rows + trusted_rows, training_rows + trusted_rows + test_rows};
  }
  /// A training row as a picture: a byte for each pixel, row by row.
  std::vector<unsigned char> picture(Index training_row) const;
};

/// Reads, splits and scales. Throws InvalidInput with what is wrong and what to do.
CleanData prepare_clean(const CleanTask& task);

}  // namespace bilevel::models
