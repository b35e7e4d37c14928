#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include <bilevel/bilevel.hpp>

namespace app {

/// The arguments that say how an outer gradient is to be estimated.
struct MethodArguments {
  double beta = 0;
  double memory = 0;
  double trust = 0.1;

  void add_to(CLI::App& command);
  /// What make_estimator wants. The steps of `inner` are those that unrolling differentiates, where it can.
  bilevel::EstimatorOptions options(const std::string& inner, std::uint64_t seed) const;
};

/// Whether the method has a nudging strength β.
bool nudges(std::string_view method);

/// Whether the method differentiates inner steps of its own instead of using what an inner solver returns.
bool differentiates_steps(std::string_view method);

}  // namespace app
