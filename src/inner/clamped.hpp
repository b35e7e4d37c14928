#pragma once

#include <vector>

#include <bilevel/inner/constrained.hpp>

namespace bilevel {

/// argmin ½‖x‖² + gᵀx with lower ≤ x ≤ upper and, where a has elements, aᵀx = total.
struct Clamped {
  Eigen::VectorXd x;
  Eigen::VectorXd force;  ///< x + g − λa: what the bounds hold back
  std::vector<int> held;  ///< of every element: −1 by its lower bound, 1 by its upper one, 0 by none
  double multiplier = 0;  ///< λ
  bool equality = false;  ///< whether a is independent of the bounds that hold
  bool feasible = false;
};

/// x clamps λa − g, with λ found by bisection among the points where an element meets a bound. `size` is that
/// of the terms which the total was made of.
Clamped clamp(const Eigen::VectorXd& g, const Eigen::VectorXd& lower, const Eigen::VectorXd& upper,
              const Eigen::VectorXd& a, double total, double size);

/// That of a row of separable constraints; NaN where the row does not hold x.
double multiplier_of(const NamedConstraints& constraints, const Clamped& clamped, Index row);

}  // namespace bilevel
