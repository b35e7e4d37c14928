#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>

namespace bilevel::data {

/// A table in memory, one sample a row; NaN is a missing cell. Without names the features are x1, x2, …
/// It has the schema of a CSV file with these columns and the target last, so that a model that is trained on
/// it can predict the rows of such a file. Throws InvalidInput where the sizes do not fit.
Dataset make_dataset(DenseRows x, Eigen::VectorXd target, std::vector<std::string> names = {},
                     std::string target_name = "target");
/// The same with classes for a target.
Dataset make_dataset(DenseRows x, const std::vector<std::string>& labels, std::vector<std::string> names = {},
                     std::string target_name = "target");

}  // namespace bilevel::data
