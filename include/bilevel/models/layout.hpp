#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/read.hpp>

#include <bilevel/models/task.hpp>

namespace bilevel::models {

/// Rows of the files by what they are for; file 0 is the task's own.
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

/// The share that the text is, or nothing where it names a file.
std::optional<double> share(const std::string& text, std::string_view option);

/// A further file for the same model as the first one; `option` is that of its labels, where they have a
/// file.
bilevel::data::Dataset read_further(const bilevel::data::ReadOptions& reading,
                                    const bilevel::data::Schema& like, const std::string& path,
                                    const std::string& labels, std::string_view option);

/// All rows of a file.
std::vector<Place> all_rows(int file, Index rows);

/// Which rows train, judge and test. `validation_file` and `test_file` are places in `files`, or −1.
Layout lay_out(const Task& task, const std::vector<bilevel::data::Dataset>& files, int validation_file,
               int test_file, bool stratified);

}  // namespace bilevel::models
