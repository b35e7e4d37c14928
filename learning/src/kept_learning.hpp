#pragma once

#include <string>
#include <vector>

#include <bilevel/learning/meta_learn.hpp>

namespace bilevel::learning {

/// Everything that a run needs to go on as if it had not stopped.
struct KeptLearning {
  long step = 0;
  double seconds = 0;
  std::vector<float> theta, first_moment, second_moment, good_theta;
  long good_step = 0;
  double loss = 0, residual = 0, gradient_norm = 0;  ///< sums since the last look
  long since = 0;                                    ///< steps in them
  std::vector<MetaPoint> curve;
  CertifiedMetaGradients certified;
};

/// Replaces the file; what went wrong, empty: nothing.
[[nodiscard]] std::string write_kept(const std::string& path, const std::string& identity,
                                     const KeptLearning& kept);
/// Throws InvalidInput that names the file and what is wrong.
KeptLearning read_kept(const std::string& path, const std::string& identity);

}  // namespace bilevel::learning
