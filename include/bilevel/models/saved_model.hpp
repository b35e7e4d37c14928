#pragma once

#include <string>
#include <vector>

#include <Eigen/Core>

#include <bilevel/data/read.hpp>
#include <bilevel/models/model.hpp>
#include <bilevel/problems/perceptron.hpp>

namespace bilevel::models {

/// What a model says of some rows.
struct Predictions {
  Eigen::MatrixXd margins;        ///< a column for each output of the model
  Eigen::MatrixXd probabilities;  ///< a column for each class; empty where the model has none
  Eigen::VectorXd
      values;  ///< the target, or of a classifier the number of the class: see SavedModel::classes
  std::vector<std::string> notes;  ///< what a person should know of the rows, a sentence each
};

/// A model that was learned, with all that a prediction needs: how to read a file like the training file, and
/// the coefficients of its features as they stand there.
struct SavedModel {
  Model model = Model::ridge;  ///< of a network what its last layer is
  bilevel::data::Schema schema;
  std::vector<Eigen::Index> columns;  ///< features used, by their place in the schema's features
  std::vector<std::string> classes;   ///< of a classifier
  Eigen::Index outputs = 1;
  /// columns·outputs, the outputs of a feature next to each other, then the intercepts; of a network all its
  /// parameters, in the layout of `shape`.
  Eigen::VectorXd coefficients;
  Eigen::VectorXd
      imputed;  ///< means of the training rows, which stand in for missing cells, by the schema's features
  /// Whether missing cells get those means, as they did in training; else they are refused.
  bool imputes = false;
  std::vector<std::string> hyperparameters;
  Eigen::VectorXd log_lambda;
  std::string status = {}, verdict = {};  ///< of the run that it comes from
  std::vector<Eigen::Index> layers = {};  ///< hidden ones, of a network
  bilevel::problems::Activation activation = bilevel::problems::Activation::tanh;
  bilevel::problems::PerceptronShape shape() const {
    return {static_cast<Eigen::Index>(columns.size()), layers, outputs, activation};
  }

  /// Throws InvalidInput that names the file and what is wrong with it.
  static SavedModel load(const std::string& path);
  /// Writes it as JSON, versioned, whole or not at all. Throws InvalidInput where it holds names that are no
  /// UTF-8, or no model because its run ended before one was fitted (Fitted::fitted).
  void save(const std::string& path) const;
  /// What `save` writes.
  std::string text() const;
  /// Throws InvalidInput where JSON cannot hold its names.
  void require_utf8() const;

  /// Reads a file with the columns of the training file; a target is not needed.
  bilevel::data::Dataset read(const std::string& path, bilevel::data::ReadOptions options = {}) const;
  /// Throws InvalidInput where a row gives no finite number, or where no model was fitted.
  Predictions predict(bilevel::data::Dataset rows) const;
  /// Rows of all features that the training table had, in their order. NaN is a missing cell.
  Predictions predict(const Eigen::MatrixXd& rows) const;
  /// The names of the features used, in the order of the coefficients.
  std::vector<std::string> names() const;
};

/// A column for each output: margins of the rows.
Eigen::MatrixXd margins(const SavedModel& model, const bilevel::data::Dataset& data);
/// exp(m)/Σexp(m) of each row.
Eigen::MatrixXd softmax_rows(const Eigen::MatrixXd& margins);
/// Probabilities of the classes, row by row (logistic and softmax).
Eigen::MatrixXd probabilities(const SavedModel& model, const Eigen::MatrixXd& margins);

}  // namespace bilevel::models
