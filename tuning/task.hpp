#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/read.hpp>
#include <bilevel/outcome/violations.hpp>

namespace tuning {

using bilevel::InvalidInput;
using bilevel::WrongOptions;
using Index = bilevel::data::Index;

enum class Model { automatic, ridge, logistic, softmax, poisson, huber, squared_hinge, lasso, elastic_net };
enum class Penalty { automatic, global, per_feature, per_group, per_class };

std::string_view name(Model model);
std::string_view name(Penalty penalty);
/// Throw InvalidInput with the list of names for any other text.
Model model_named(std::string_view text);
Penalty penalty_named(std::string_view text);

bool classifies(Model model);

/// What a person asked of `tune`.
struct Task {
  std::string data;
  bool example = false;  ///< the built-in data instead
  bilevel::data::ReadOptions reading;
  Model model = Model::automatic;
  Penalty penalty = Penalty::automatic;
  /// ω: log λ of one penalty differs from another's by about this; infinite: nothing is believed of them.
  double prior_width = 0.5;
  /// A file, or a share of the rows; empty: K folds.
  std::string validation;
  /// A file, a share of the rows, or 0 for none.
  std::string test = "0.2";
  /// Files that hold the targets of those two files, where the data's own come from --labels.
  std::string validation_labels, test_labels;
  int folds = 5;
  /// A file with "feature group" on each line; else the part of a name before `group_separator`, and where
  /// that is 0 the column a one-hot feature came from.
  std::string groups;
  char group_separator = 0;
  bool grouped() const { return !groups.empty() || group_separator != 0; }
  bool standardize = true;
  bool intercept = true;
  bool stratify = true;
  bool refit = false;              ///< with a hold-out: train the final model on training and validation rows
  double lower = -10, upper = 10;  ///< of every log λ …
  bool bounds_given = false;       ///< … and not to be widened
  double huber_threshold = 0;      ///< in units of the target; 0: 1.345 standard deviations of it
  int grid = 21;                   ///< values of one λ for all, tried first
  std::vector<double> starts;      ///< further starts of log λ, beside the best of the grid
  double tolerance = 1e-6;
  long iterations = 500;
  double seconds = 0;
  std::uint64_t seed = 1;

  void validate() const;
};

}  // namespace tuning
