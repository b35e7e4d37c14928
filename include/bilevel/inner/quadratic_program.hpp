#pragma once

#include <vector>

#include <Eigen/Core>

namespace bilevel {

/// normals·x ≥ limits, the first `equalities` of them with equality.
struct LinearConstraints {
  Eigen::MatrixXd normals;  ///< a column for each
  Eigen::VectorXd limits;
  Eigen::Index equalities = 0;
};

struct QuadraticProgramSolution {
  Eigen::VectorXd x;
  Eigen::VectorXd multipliers;       ///< of every constraint, zero where it does not hold x back
  std::vector<Eigen::Index> active;  ///< those that do, equalities among them
  bool feasible = false;             ///< else no x satisfies them all
};

/// argmin ½xᵀHx + gᵀx under linear constraints, H positive definite with LLᵀ = H given as the inverse
/// transposed L⁻ᵀ: the dual active set method of Goldfarb and Idnani (1983). It starts from the free minimum
/// and takes the constraint in that is violated most, until none is; finite, without a feasible start.
QuadraticProgramSolution solve_quadratic_program(const Eigen::MatrixXd& inverse_factor,
                                                 const Eigen::VectorXd& g,
                                                 const LinearConstraints& constraints);

/// L⁻ᵀ with LLᵀ = H, after scaling to a unit diagonal and back; false where H is not positive definite to
/// working precision.
bool inverse_transposed_factor(const Eigen::MatrixXd& h, Eigen::MatrixXd& out);

}  // namespace bilevel
