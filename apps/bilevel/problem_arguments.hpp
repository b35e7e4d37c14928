#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <bilevel/bilevel.hpp>

#include "json_output.hpp"

namespace app {

/// The arguments by which every command names a ready-made problem and where to put its result.
struct ProblemArguments {
  bool list = false;
  std::string problem;
  bilevel::problems::Settings settings;
  std::vector<double> theta;
  std::string inner;
  std::string json;

  void add_to(CLI::App& command);
  /// Prints the list of problems where it was asked for; true if that was all there was to do.
  bool listed() const;
  std::unique_ptr<bilevel::problems::ReferenceProblem> make() const;
  /// --theta, one number for all elements or one for each; else the problem's own start.
  Eigen::VectorXd start(const bilevel::problems::ReferenceProblem& made) const;
  /// --inner, or what suits this many variables.
  std::string inner_name(bilevel::Index phi) const;
  /// What identifies the problem, on one line and as JSON.
  std::string identity() const;
  Json describe(const bilevel::problems::ReferenceProblem& made) const;
};

/// The number that the whole text is; NaN where it is none, or not finite.
double finite_number(const std::string& text);
/// For options that must be positive numbers: what is wrong with the text, or nothing.
std::string positive(const std::string& text);
/// LO:HI, two numbers with LO ≤ HI; InvalidInput otherwise.
std::pair<double, double> bounds_argument(const std::string& text);
/// For seeds: decimal, whatever zeros it starts with, and no wrapping around.
CLI::Validator whole_number();

/// Direct where |φ| is small (as Newton is then the default of --inner), conjugate gradients beyond.
std::string default_adjoint(bilevel::Index phi);

}  // namespace app
