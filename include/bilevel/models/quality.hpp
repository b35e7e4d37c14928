#pragma once

#include <optional>
#include <string>
#include <vector>

#include <Eigen/Core>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel::models {

/// How well a model does on some rows. Measures that its kind does not have are empty.
struct Quality {
  Eigen::Index rows = 0;
  double loss = bilevel::unknown;            ///< mean, by weight, in units of the target
  double standard_error = bilevel::unknown;  ///< of that mean
  std::optional<double> accuracy, auc, rmse, r2;
};

/// A model with the penalties θ of a family, and how well it does. Losses are in units of the target.
struct Fitted {
  Eigen::VectorXd theta;
  Eigen::VectorXd log_lambda;      ///< of each penalty that is reported …
  std::vector<std::string> names;  ///< … and what it is called
  Eigen::VectorXd
      coefficients;     ///< of the standardised features, then the intercepts, in units of the target
  Eigen::VectorXd raw;  ///< the same of the features as the data have them
  double train_loss = bilevel::unknown;  ///< mean over the folds, without the penalty
  double validation_loss = bilevel::unknown;
  Quality validation;
  std::optional<Quality> test;
  std::vector<double> test_losses, test_weights;  ///< row by row
  std::string warning;                            ///< what makes its derivative doubtful; empty if nothing
  bool fitted = false;  ///< false: the run was to end before it was; all but θ is unknown
};

}  // namespace bilevel::models
