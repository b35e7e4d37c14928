#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include <bilevel/data/read.hpp>

namespace app {

/// The options by which every command says how to read a person's file.
struct DataArguments {
  std::string format = "auto", header = "auto", delimiter, missing = "refuse", storage = "auto";
  bilevel::data::ReadOptions options;

  /// What the file is read for. Tuning and classifying also say which column is the target, tuning the
  /// columns of weights, offsets and the split; for predictions the model knows what the columns are.
  enum class Purpose { tuning, classifying, predicting };
  void add_to(CLI::App& command, Purpose purpose);
  bilevel::data::ReadOptions read_options() const;
};

/// Rows that are kept apart, as a person names them: a file, a share (0.2, 20%) or where that is offered a
/// number.
struct RowsArgument {
  std::string text, labels;  ///< labels: a file of theirs, where the data's own come from --labels
  /// Nothing where the text names a file, or is empty.
  std::optional<double> number(std::string_view option) const;
  bool file(std::string_view option) const { return !text.empty() && !number(option); }
  /// The file, for the same model as the data; nothing where it is no file.
  std::optional<bilevel::data::Dataset> read(const bilevel::data::ReadOptions& reading,
                                             const bilevel::data::Schema& like,
                                             std::string_view option) const;
};

}  // namespace app
