#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>

#include <bilevel/models/tune_options.hpp>

namespace bilevel::models {

/// A row of one of the tables; table 0 is the one that is tuned on.
struct Place {
  int file;
  Index row;
};

struct Layout {
  std::vector<std::vector<Place>> folds;  ///< of K folds; one, the training rows, with a hold-out
  std::vector<Place> validation, test;
  bool held_out = false;
  std::string text;
};

/// All rows of a table.
std::vector<Place> all_rows(int file, Index rows);

/// Which rows train, judge and test. `validation_file` and `test_file` are places in `files`, or −1.
Layout lay_out(const TuneOptions& options, const std::vector<bilevel::data::Dataset>& files, int validation_file,
               int test_file, bool stratified);

}  // namespace bilevel::models
