#pragma once

#include <string>
#include <vector>

#include <bilevel/data/dataset.hpp>
#include <bilevel/networks/relaxation.hpp>

namespace bilevel::networks {

/// A trained network and what its inputs mean.
struct SavedNetwork {
  Architecture architecture;
  RelaxationOptions free;  ///< how it settles
  Eigen::VectorXf theta;
  std::vector<std::string> classes;
  Eigen::VectorXd shift, factor, imputed;  ///< as in TrainingData
  data::Schema schema;                     ///< no features where the rows came from no file

  /// Outputs for rows that were read by its schema, missing cells filled: one column a row.
  Eigen::MatrixXf outputs(const data::Dataset& rows) const;
  /// The same for rows in memory, one sample a row.
  Eigen::MatrixXf outputs(const Eigen::MatrixXd& rows) const;
  /// The class of each row: that of the largest output.
  std::vector<std::string> predict(const data::Dataset& rows) const;
  std::vector<std::string> predict(const Eigen::MatrixXd& rows) const;

  /// JSON; weights as the bytes of their floats in base64.
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
