#pragma once

#include <string>

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

}  // namespace app
