#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/data/read.hpp>
#include <bilevel/outcome/violations.hpp>
#include <bilevel/problems/loss_kind.hpp>

namespace bilevel::models {

using bilevel::InvalidInput;
using bilevel::WrongOptions;
using Index = bilevel::data::Index;

/// What is fitted to the data: a linear model by one of the losses of loss_kind.hpp with squared penalties,
/// or one that is more than that.
struct Model {
  enum class Kind { automatic, by_loss, softmax, lasso, elastic_net };

  Kind kind = Kind::automatic;
  bilevel::problems::kernels::Loss loss = bilevel::problems::kernels::Loss::squared;

  constexpr Model(Kind which) : kind(which) {}
  constexpr Model(bilevel::problems::kernels::Loss which) : kind(Kind::by_loss), loss(which) {}
  friend bool operator==(const Model&, const Model&) = default;

  static const Model automatic, ridge, logistic, softmax, poisson, huber, squared_hinge, lasso, elastic_net;

  /// Of the loss that it has, which is the squared one for lasso and elastic net; of no use for softmax.
  const bilevel::problems::LossKind& loss_kind() const { return bilevel::problems::kind_of(loss); }
  bool classifies() const;
  bool probable() const;  ///< it predicts probabilities of classes
};
inline constexpr Model Model::automatic = Kind::automatic, Model::softmax = Kind::softmax,
                       Model::lasso = Kind::lasso, Model::elastic_net = Kind::elastic_net,
                       Model::ridge = bilevel::problems::kernels::Loss::squared,
                       Model::logistic = bilevel::problems::kernels::Loss::logistic,
                       Model::poisson = bilevel::problems::kernels::Loss::poisson,
                       Model::huber = bilevel::problems::kernels::Loss::huber,
                       Model::squared_hinge = bilevel::problems::kernels::Loss::squared_hinge;

enum class Penalty { automatic, global, per_feature, per_group, per_class };

std::string_view name(Model model);
std::string_view title(Model model);  ///< in a sentence: "a ridge regression"
std::vector<std::string_view> model_names();
std::string_view name(Penalty penalty);
/// Throw InvalidInput with the list of names for any other text.
Model model_named(std::string_view text);
Penalty penalty_named(std::string_view text);

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
  double loss_parameter = 0;       ///< of a loss that has one, in units of the target; 0: the usual
  int grid = 21;                   ///< values of one λ for all, tried first
  std::vector<double> starts;      ///< further starts of log λ, beside the best of the grid
  double tolerance = 1e-6;
  long iterations = 500;
  double seconds = 0;
  std::uint64_t seed = 1;

  void validate() const;
};

}  // namespace bilevel::models
