#pragma once

#include <string>
#include <vector>

#include <bilevel/files/container.hpp>
#include <bilevel/networks/train.hpp>

namespace bilevel::networks {

/// Versions 1 and 2 had a form of their own; 3 did not say how many batches there were.
inline constexpr FileKind training_file{"bilevel-training", 4};

/// All that a run needs to go on as if it had not been stopped.
struct KeptTraining {
  int epoch = 0;    ///< epochs that are over
  Index batch = 0;  ///< batches of the present one that are over
  long steps = 0;   ///< of the optimiser
  double seconds = 0, epoch_seconds = 0;
  double cost = 0, wrong = 0, residual = 0,
         nudged_residual = 0;  ///< sums over the samples of the present epoch
  Index samples = 0;
  CertifiedGradients certified;  ///< in the present epoch
  Eigen::VectorXf theta, first_moment, second_moment, states;
  std::vector<Epoch> epochs;
};

/// Replaces the file atomically; an empty string on success, else what went wrong. The vectors are the bytes
/// of the container.
[[nodiscard]] std::string write_kept(const std::string& path, const std::string& identity,
                                     const KeptTraining& kept);
/// Throws InvalidInput that names the file and what is wrong: missing, truncated, damaged, or of another run.
KeptTraining read_kept(const std::string& path, const std::string& identity);

}  // namespace bilevel::networks
