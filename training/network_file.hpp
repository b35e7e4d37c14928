#pragma once

#include <string>

#include "dataset.hpp"

namespace training {

/// A trained network and what its inputs mean.
struct SavedNetwork {
  Settings settings;  ///< of which the architecture and the free phase are kept
  Eigen::VectorXf theta;
  std::vector<std::string> classes;
  Eigen::VectorXd shift, factor;
};

/// JSON; weights as the bytes of their floats in base64.
std::string network_text(const SavedNetwork& network, const std::string& program_version);
/// Throws InvalidInput with the file's name and what is wrong with it.
SavedNetwork read_network(const std::string& path);

}  // namespace training
