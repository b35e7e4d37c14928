#pragma once

#include <string>

#include "dataset.hpp"

namespace training {

/// A trained network and what its inputs mean.
struct SavedNetwork {
  Settings settings;  ///< of which the architecture and the free phase are kept
  Eigen::VectorXf theta;
  std::vector<std::string> classes;
  Eigen::VectorXd shift, factor, imputed;
  bilevel::data::Schema schema;  ///< no features where the pictures were drawn
};

/// JSON; weights as the bytes of their floats in base64.
std::string network_text(const SavedNetwork& network, const std::string& program_version);
/// Throws InvalidInput with the file's name and what is wrong with it.
SavedNetwork read_network(const std::string& path);
/// Whether the file says that it is one, be it damaged or not.
bool is_network(const std::string& path);

/// What a network says of rows that were read by its schema, missing cells filled: outputs, one column a row.
Matrix outputs_of(const SavedNetwork& network, const bilevel::data::Dataset& data);
/// A resistive network as a SPICE circuit, its inputs (scaled) at one sample's volts.
std::string circuit_text(const Settings& settings, const Eigen::VectorXf& theta,
                         const Eigen::VectorXf& inputs, const std::vector<std::string>& classes);

}  // namespace training
