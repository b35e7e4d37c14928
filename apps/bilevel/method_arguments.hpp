#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include <bilevel/bilevel.hpp>

namespace app {

/// The arguments that say how an outer gradient is to be estimated.
struct MethodArguments {
  double beta = 0;
  double memory = 0;

  void add_to(CLI::App& command);
  /// What make_estimator wants. The steps of `inner` are those that unrolling differentiates, where it can.
  bilevel::EstimatorOptions options(const std::string& inner, std::uint64_t seed) const;
};

}  // namespace app
