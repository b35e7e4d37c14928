#pragma once

#include <limits>

namespace bilevel {

/// γ_k = k·u / (1 − k·u): the relative error of k roundings in a row (Higham, Accuracy and
/// Stability of Numerical Algorithms, lemma 3.1). Infinite where k·u ≥ 1 and nothing can be said.
inline double gamma(double operations, double unit_roundoff = 0x1p-53) {
  const double ku = operations * unit_roundoff;
  return ku < 1 ? ku / (1 - ku) : std::numeric_limits<double>::infinity();
}

/// std::exp errs by less than one unit in the last place; what is made of it by some products, by this at
/// most.
inline constexpr double exp_down = 1 - 8 * 0x1p-53, exp_up = 1 + 8 * 0x1p-53;

}  // namespace bilevel
