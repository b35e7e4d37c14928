#pragma once

#include <Eigen/Core>

#include <bilevel/space/space.hpp>

namespace bilevel {

/// A = LLᵀ of a symmetric positive definite matrix in host memory, by LAPACK and BLAS on tiles that are
/// divided among the cores. The tiles depend on the size alone: the same bits for any number of threads.
class Cholesky {
 public:
  Cholesky() = default;
  /// Reads the lower half. Afterwards succeeded() says whether A is positive definite to working precision.
  explicit Cholesky(const Eigen::MatrixXd& matrix) { compute(matrix); }
  void compute(const Eigen::MatrixXd& matrix);

  bool succeeded() const { return succeeded_; }
  /// The diagonal of L, all of it positive where that succeeded.
  auto pivots() const { return factor_.diagonal(); }
  void solve_in_place(Eigen::VectorXd& right) const;
  /// An estimate in the 1-norm; 0 where that did not succeed.
  double reciprocal_condition() const;

 private:
  Eigen::MatrixXd factor_;  // L in the lower half, A in the upper one
  double norm_ = 0;         // ‖A‖₁
  bool succeeded_ = false;
};

}  // namespace bilevel
