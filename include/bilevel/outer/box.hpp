#pragma once

#include <Eigen/Core>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/space/space.hpp>

namespace bilevel {

/// Bounds on θ, element by element; empty vectors mean "none". Infinite elements are allowed.
struct Box {
  Eigen::VectorXd lower, upper;

  void project(Eigen::VectorXd& theta) const;
  /// ‖θ − P(θ − gradient)‖: zero exactly at a first-order optimal point of the box.
  double projected_gradient_norm(const Eigen::VectorXd& theta, const Eigen::VectorXd& gradient) const;
  /// True where θ_i sits on a bound and the gradient pushes it outwards.
  bool held(const Eigen::VectorXd& theta, const Eigen::VectorXd& gradient, Index i) const;
  /// Sizes agree with |θ| and lower ≤ upper, NaN excluded.
  Violations validate(Index size) const;
};

}  // namespace bilevel
