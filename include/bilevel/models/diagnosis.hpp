#pragma once

#include <string>
#include <utility>
#include <vector>

#include <bilevel/models/prepared.hpp>

namespace bilevel::models {

/// One thing that a statistician would say of data.
struct DataFinding {
  std::string name;      ///< what was looked at: "condition-number", "collinear-columns", …
  bool good = true;      ///< nothing to worry about
  std::string sentence;  ///< with the numbers in it
  std::vector<std::string> columns = {};                     ///< features or penalties that it is about
  std::vector<std::pair<std::string, double>> numbers = {};  ///< by name; NaN where one is not known
};

/// Looks at the training rows of the final model, and at what the validation rows say of the penalties at θ
/// (log λ, one for each penalty of `prepared`):
///   rows-per-coefficient     how many training rows there are for each coefficient
///   constant-columns         features that never change
///   condition-number         of the standardised design, √(largest/least eigenvalue of its correlation
///   matrix) collinear-columns        each feature that the ones before it predict with R² > 0.99, and from
///   which separable-classes        whether some direction, or a feature alone, tells the classes apart
///   without a mistake penalties-told-apart     directions of θ in which no validation loss changes:
///   penalties of no effect, penalties
///                            that act alike
/// Designs of more than 2,000 columns have no condition number and no collinear columns.
std::vector<DataFinding> diagnose(const Prepared& prepared, const Vec& theta);

}  // namespace bilevel::models
