#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/data/read.hpp>
#include <bilevel/models/model.hpp>
#include <bilevel/problems/perceptron.hpp>

namespace bilevel::models {

using Index = bilevel::data::Index;

/// What is tuned on: a table with a target, and where they are at hand further ones of the same columns, for
/// the rows that judge and for the test. A further file is read with the first one's schema:
/// `data::read(path, options, &first.schema)`.
struct TuningData {
  bilevel::data::Dataset data;
  std::optional<bilevel::data::Dataset> validation = {}, test = {};

  TuningData(bilevel::data::Dataset table) : data(std::move(table)) {}
};

/// Of a multilayer perceptron of which nothing else is said.
inline constexpr Index usual_layer = 32;
/// Hidden layers at most; a network of more parameters is refused.
inline constexpr std::size_t most_layers = 100;
inline constexpr Index most_parameters = 20'000'000;

/// How the penalties of a model are tuned.
struct TuneOptions {
  /// Automatic: logistic for two values, softmax for text or labels of pictures, else ridge.
  Model model = Model::automatic;
  /// Model::mlp: units of each hidden layer; empty: one layer of `usual_layer`.
  std::vector<Index> layers = {};
  bilevel::problems::Activation activation = bilevel::problems::Activation::tanh;  ///< of hidden units
  /// Model::mlp: what the last layer is, ridge, logistic or softmax; automatic as for `model`.
  Model last_layer = Model::automatic;
  /// Automatic: one λ, adaptive ones, or one for each feature or group, whichever the data ask for.
  Penalty penalty = Penalty::automatic;
  /// ω: log λ of one penalty differs from another's by about this; infinite: nothing is believed of them. For
  /// many penalties, not for one.
  double prior_width = 0.5;
  /// The share of the rows that judge, in [0, 1); empty: K folds, or the rows that the data bring for it.
  std::optional<double> validation = {};
  /// The share of the rows kept for an honest last look, in [0, 1); 0: none. Of no account where the data
  /// bring rows for it, or a column that says what each row is for.
  double test = 0.2;
  int folds = 5;  ///< K, at least 2
  /// The group of each feature, by the feature's name or by that of the column that it came from; where it is
  /// empty the part of a name before `group_separator`, and where that is 0 the column that a one-hot feature
  /// came from. One of the two, and for penalties that have groups (automatic, per_group).
  std::map<std::string, std::string> groups = {};
  char group_separator = 0;
  bool grouped() const { return !groups.empty() || group_separator != 0; }
  bool standardize = true;  ///< features have mean 0 and deviation 1 on the training rows
  bool intercept = true;
  bool stratify = true;  ///< classes have the same share in every part
  bool refit = false;    ///< train the final model on training and validation rows; for a hold-out alone
  double lower = -10, upper = 10;  ///< of every log λ …
  bool bounds_given = false;       ///< … and not to be widened
  double loss_parameter = 0;       ///< of a loss that has one, in units of the target; 0: the usual
  int grid = 21;                   ///< values of one λ for all, tried first; 2 to 10000
  std::vector<double> starts =
      {};                   ///< further starts of log λ within the bounds, beside the best of the grid
  /// Of the norm of the projected outer gradient; 0: 1e-6, of a network 1e-4, less than rows can tell. Where a
  /// network's minimum is about to vanish a gradient is not known to more digits.
  double tolerance = 0;
  double tolerance_for(bool network) const { return tolerance > 0 ? tolerance : network ? 1e-4 : 1e-6; }
  long iterations = 500;    ///< most steps of a descent
  double seconds = 0;       ///< most seconds of tuning; 0: as many as it takes
  std::uint64_t seed = 1;   ///< of splits, and of the weights that a network begins with
  /// Missing cells (NaN) are refused, or the mean of the training rows stands in for them.
  bilevel::data::Missing missing = bilevel::data::Missing::refuse;
  /// Automatic: dense tables whose columns mostly hold one value are kept sparse too.
  bilevel::data::Storage storage = bilevel::data::Storage::automatic;

  Violations validate() const;
};

/// The groups of a file with a feature's name, a blank and its group's name on each line.
std::map<std::string, std::string> read_groups(const std::string& path);

}  // namespace bilevel::models
