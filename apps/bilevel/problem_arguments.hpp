#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <bilevel/bilevel.hpp>

#include "json_output.hpp"
#include "model_arguments.hpp"
#include "posed_problem.hpp"

namespace app {

/// The arguments by which solve, compare and doctor name a ready-made problem or data of one's own, and where
/// to put the result.
struct ProblemArguments {
  bool list = false;
  std::string problem;
  ModelArguments model;
  bilevel::problems::Settings settings;
  std::vector<double> theta;
  std::string inner;
  std::string json;

  void add_to(CLI::App& command);
  /// Prints the list of problems where it was asked for; true if that was all there was to do.
  bool listed() const;
  /// Reads the data where some are named; messages begin with the command's name. `bounds`, LO:HI or empty,
  /// and `seconds`, 0 for no limit, are those of the command. From now on Ctrl-C is caught.
  PosedProblem make(std::string_view command, const std::string& bounds = "", double seconds = 0);
  /// --theta, one number for all elements or one for each; else the problem's own start.
  Eigen::VectorXd start(const PosedProblem& made) const;
  /// --inner, or what suits so many variables; InvalidInput where the problem has a solver of its own.
  std::string inner_name(const PosedProblem& made) const;
  /// What identifies the problem, on one line and as JSON.
  std::string identity(const PosedProblem& made) const;
  Json describe(const PosedProblem& made) const;
  /// The same and, of a person's data, what tune says of them: into the fields problem, data and model.
  void describe_into(Json& j, const PosedProblem& made) const;
  /// In a sentence.
  std::string title() const {
    return model.given() ? (model.example ? "the built-in example" : model.data) : problem;
  }

 private:
  std::vector<CLI::Option*> of_problems_, of_data_;
  CLI::Option* prior_width_ = nullptr;
};

/// The number that the whole text is; NaN where it is none, or not finite.
double finite_number(const std::string& text);
/// For options that must be positive numbers: what is wrong with the text, or nothing.
std::string positive(const std::string& text);
/// LO:HI, two numbers with LO ≤ HI; InvalidInput otherwise.
std::pair<double, double> bounds_argument(const std::string& text);
/// Sizes joined by '-', as in 784-512-10; none of an empty text. InvalidInput, which says so and then `how`,
/// for anything else.
std::vector<bilevel::Index> sizes_argument(const std::string& text, std::string_view how);
/// For seeds: decimal, whatever zeros it starts with, and no wrapping around.
CLI::Validator whole_number();

/// Direct where |φ| is small (as Newton is then the default of --inner), conjugate gradients beyond; of lasso
/// and elastic net those that have the support for a preconditioner.
std::string default_adjoint(const PosedProblem& made);

}  // namespace app
