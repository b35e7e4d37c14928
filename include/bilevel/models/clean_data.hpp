#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/models/clean_options.hpp>
#include <bilevel/problems/data_loss.hpp>

namespace bilevel::models {

/// Data to be cleaned, in memory once: the training rows, then the trusted ones, then those of the test.
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
  double lambda = 0;  ///< as asked for, or the typical one

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

/// Splits and scales. Throws InvalidInput with what is wrong and what to do.
CleanData prepare_clean(CleaningData data, const CleanOptions& options);

/// Everything that makes a run on these data what it is: a run of another identity is not gone on with.
std::string identity_of(const CleanData& data);

}  // namespace bilevel::models
