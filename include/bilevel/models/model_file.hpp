#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <bilevel/data/dataset.hpp>

#include <bilevel/models/task.hpp>
#include <bilevel/models/tune.hpp>

namespace bilevel::models {

using Json = nlohmann::ordered_json;

/// A model that was learned, with all that a prediction needs: how to read a file like the training file, and
/// the coefficients of its features as they stand there.
struct SavedModel {
  Model model = Model::ridge;
  bilevel::data::Schema schema;
  std::vector<Index> columns;        ///< features used, by their place in the schema's features
  std::vector<std::string> classes;  ///< of a classifier
  Index outputs = 1;
  Vec coefficients;  ///< columns·outputs, the outputs of a feature next to each other, then the intercepts
  Vec imputed;  ///< means of the training rows, which stand in for missing cells, by the schema's features
  bool imputes = false;  ///< whether missing cells were filled in training; else they are refused
  std::vector<std::string> hyperparameters;
  Vec log_lambda;
  std::string status = {}, verdict = {};  ///< of the run that it comes from
};

SavedModel make_saved(const Prepared& prepared, const Fitted& fitted);

/// JSON, versioned. read_model throws InvalidInput that names the file and what is wrong with it.
std::string model_text(const SavedModel& model, const std::string& program_version);
SavedModel read_model(const std::string& path);

/// A column for each output: margins of the rows.
Eigen::MatrixXd margins(const SavedModel& model, const bilevel::data::Dataset& data);
/// exp(m)/Σexp(m) of each row.
Eigen::MatrixXd softmax_rows(const Eigen::MatrixXd& margins);
/// Probabilities of the classes, row by row (logistic and softmax).
Eigen::MatrixXd probabilities(const SavedModel& model, const Eigen::MatrixXd& margins);

}  // namespace bilevel::models
