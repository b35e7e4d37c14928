#pragma once

#include <vector>

#include <Eigen/Core>

#include <bilevel/outcome/stop_token.hpp>

namespace bilevel {

/// normals·x ≥ limits, the first `equalities` of them with equality.
struct LinearConstraints {
  Eigen::MatrixXd normals;  ///< a column for each
  Eigen::VectorXd limits;
  Eigen::Index equalities = 0;
};

enum class QuadraticProgramEnd {
  solved,
  infeasible,   ///< no x satisfies all constraints
  gave_up,      ///< rounding hides the answer
  interrupted,  ///< the stop token wanted an end
};

struct QuadraticProgramSolution {
  Eigen::VectorXd x;
  Eigen::VectorXd multipliers;       ///< of every constraint, zero where it does not hold x back
  std::vector<Eigen::Index> active;  ///< those that do, equalities among them; their normals are independent
  bool feasible = false;             ///< whether it is solved: the rest means nothing else
  QuadraticProgramEnd end = QuadraticProgramEnd::gave_up;
};

/// In words that follow "the quadratic programme".
const char* sentence(QuadraticProgramEnd end);

struct QuadraticProgramOptions {
  /// Where given, x is a step away from here, and the constraints are those of here + x.
  const Eigen::VectorXd* around = nullptr;
  const StopToken* stop = nullptr;
};

/// argmin ½xᵀHx + gᵀx under linear constraints, H positive definite with LLᵀ = H given as the inverse
/// transposed L⁻ᵀ: the dual active set method of Goldfarb and Idnani (1983). It starts from the free minimum
/// and takes the constraint in that is violated most, until none is; finite, without a feasible start. What
/// is violated, dependent or falling is told from rounding by the size of what was added up; the answer is
/// refined with residuals, and nothing is called infeasible by factors that have grown old.
QuadraticProgramSolution solve_quadratic_program(const Eigen::MatrixXd& inverse_factor,
                                                 const Eigen::VectorXd& g,
                                                 const LinearConstraints& constraints,
                                                 const QuadraticProgramOptions& options = {});

/// L⁻ᵀ with LLᵀ = H, after scaling to a unit diagonal and back; false where H is not positive definite to
/// working precision.
bool inverse_transposed_factor(const Eigen::MatrixXd& h, Eigen::MatrixXd& out);

}  // namespace bilevel
