#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <bilevel/data/read.hpp>

namespace app {

/// The options by which every command says how to read a person's file.
struct DataArguments {
  std::string format = "auto", header = "auto", delimiter, missing = "refuse", storage = "auto";
  bilevel::data::ReadOptions options;

  /// `learning`: also which column is the target, and the columns of weights, offsets and the split.
  void add_to(CLI::App& command, bool learning);
  bilevel::data::ReadOptions read_options() const;
};

}  // namespace app
