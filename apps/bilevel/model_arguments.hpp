#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include <bilevel/models/prepared.hpp>

#include "data_arguments.hpp"

namespace app {

/// A person's data and the model for it, as tune, solve, compare and doctor take them. The commands add
/// --penalty,
/// --seed and --bounds themselves.
struct ModelArguments {
  std::string data;
  bool example = false;
  DataArguments reading;
  std::string model = "automatic", penalty = "auto", groups, separator, layers, activation, last_layer;
  RowsArgument validation, test{.text = "0.2", .labels = ""};
  bool no_standardize = false, no_intercept = false, no_stratify = false;
  std::map<std::string_view, double> parameters;  // of losses, by the names of the models
  bilevel::models::TuneOptions options;  // what needs no other form, and all once `resolve` has been called
  bilevel::data::ReadOptions read_options;

  void add_to(CLI::App& command);
  /// Whether data were named.
  bool given() const { return example || !data.empty(); }
  /// Turns the words into options, and refuses what contradicts itself or would change nothing; messages
  /// begin with the command's name.
  void resolve(std::string_view command);
  /// Reads the data, splits them, and says what is noted in words of the command line.
  bilevel::models::Prepared prepare() const;
  /// All files that are read.
  std::vector<std::string> inputs() const;

 private:
  CLI::Option* folds_ = nullptr;

  void refuse_contradictions(std::string_view command) const;
};

}  // namespace app
