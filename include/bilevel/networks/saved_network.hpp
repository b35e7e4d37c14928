#pragma once

#include <string>
#include <vector>

#include <bilevel/data/read.hpp>
#include <bilevel/models/saved_model.hpp>
#include <bilevel/networks/relaxation.hpp>

namespace bilevel::networks {

/// A trained network and what its inputs mean.
struct SavedNetwork {
  Architecture architecture = {};
  RelaxationOptions free = {};  ///< how it settles
  Eigen::VectorXf theta = {};
  std::vector<std::string> classes = {};
  Eigen::VectorXd shift = {}, factor = {}, imputed = {};  ///< as in TrainingData
  data::Schema schema = {};                               ///< no features where the rows came from no file

  /// Reads a file with the columns of the training file; a target is not needed.
  data::Dataset read(const std::string& path, data::ReadOptions options = {}) const;
  /// Outputs, one column a row. Missing cells get the means of the training rows where it was trained so.
  /// Throws InvalidInput where a row gives no finite output.
  Eigen::MatrixXf outputs(data::Dataset rows) const;
  /// The same for rows in memory, one sample a row; NaN is a missing cell.
  Eigen::MatrixXf outputs(const Eigen::MatrixXd& rows) const;
  /// The outputs as margins, probabilities where the read-out is cross-entropy, and the number of each row's
  /// class, that of the largest output.
  models::Predictions predictions(data::Dataset rows) const;
  /// The class of each row.
  std::vector<std::string> predict(data::Dataset rows) const;
  std::vector<std::string> predict(const Eigen::MatrixXd& rows) const;

  /// JSON; weights as the bytes of their floats in base64. Bytes of names that are no UTF-8 are replaced.
  std::string text(const std::string& program_version) const;
  /// Writes it; throws InvalidInput where the file cannot be written.
  void save(const std::string& path) const;
  /// A resistive network as a SPICE circuit, its inputs at one sample's volts, scaled as in TrainingData.
  std::string netlist(const Eigen::VectorXf& inputs) const;
};

/// Throws InvalidInput with the file's name and what is wrong with it.
SavedNetwork read_network(const std::string& path);
/// Whether the file says that it is one, be it damaged or not.
bool is_network(const std::string& path);

}  // namespace bilevel::networks
