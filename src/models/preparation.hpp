#pragma once

#include <utility>
#include <vector>

#include <bilevel/data/moments.hpp>
#include <bilevel/models/prepared.hpp>

#include "classes.hpp"
#include "layout.hpp"

namespace bilevel::models {

/// One run of `prepare`: what is learned from the rows and columns (prepared.cpp), and what from the target
/// (prepared_target.cpp). Each step needs those before it.
class Preparation {
 public:
  Preparation(TuningData data, const TuneOptions& options);
  Prepared run();

 private:
  using Dataset = bilevel::data::Dataset;

  const Dataset& first() const { return files_[0]; }
  const Dataset& file_of(const Place& place) const { return files_[static_cast<std::size_t>(place.file)]; }

  void describe_source();
  void choose_model();
  void place_rows();
  void impute_missing();
  void choose_columns();
  void standardise();
  void set_splits(const Vec& shift, const Vec& scale);
  void set_targets();
  void number_classes(Vec& labels);
  void scale_targets(Vec& labels);
  void set_weights_and_offsets();
  void set_penalties();
  void set_network_penalties();

  /// Of the features that are used.
  Vec shift_of(const bilevel::data::ColumnMoments& moments) const;
  Vec scale_of(const bilevel::data::ColumnMoments& moments) const;
  Standardisation standardisation(const Vec& shift, const Vec& scale) const;
  std::shared_ptr<const Vec> optional_column(Vec Dataset::*member, double factor) const;

  const TuneOptions& options_;
  std::vector<Dataset> files_;  // the one that is tuned on first
  int validation_file_ = -1, test_file_ = -1;
  Prepared p_;
  Classes classes_;
  Layout layout_;
  std::vector<Place> rows_;  // the folds one after another, then validation, then test
  std::vector<RowRange> fold_ranges_;
  RowRange validation_, test_;
  bilevel::data::ColumnMoments moments_;  // of all training rows
  bool drop_zeros_ = false;
};

}  // namespace bilevel::models
