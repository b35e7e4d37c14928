#pragma once

#include <Eigen/Core>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {

/// What φ must satisfy: lower ≤ φ ≤ upper, equal·φ = equal_to, and below·φ ≤ below_to. Empty members ask for
/// nothing, infinite bounds neither. A simplex is lower = 0 and one row of ones that equals 1.
struct PhiConstraints {
  Eigen::VectorXd lower, upper;
  Eigen::MatrixXd equal;
  Eigen::VectorXd equal_to;
  Eigen::MatrixXd below;
  Eigen::VectorXd below_to;

  bool empty() const {
    return lower.size() == 0 && upper.size() == 0 && equal.rows() == 0 && below.rows() == 0;
  }
  static PhiConstraints box(Eigen::VectorXd lower, Eigen::VectorXd upper);
  /// φ ≥ 0 and Σφ = total.
  static PhiConstraints simplex(Eigen::Index size, double total = 1);
  /// Sizes agree with |φ| and each other, lower ≤ upper, lower < ∞, upper > −∞, finite numbers elsewhere.
  /// That some φ satisfies them all is found out by whoever looks for one.
  Violations validate(Eigen::Index size) const;
};

}  // namespace bilevel
