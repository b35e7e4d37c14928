#pragma once

#include <limits>

namespace claims {

/// Keeps the larger error. What is not a number counts as infinite: it cannot pass for a small one.
inline void keep_worst(double& worst, double error) {
  if (!(error <= worst)) worst = error > worst ? error : std::numeric_limits<double>::infinity();
}

}  // namespace claims
