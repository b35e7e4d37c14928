#pragma once

#include <memory>

#include <Eigen/Core>

#include <bilevel/space/space.hpp>

namespace bilevel {

// Factorisations of small matrices in host memory, compiled once: each of Eigen's takes seconds to compile.

/// Eigenvalues of a symmetric matrix, whose lower half is read, in ascending order; NaN where they were not
/// found.
Eigen::VectorXd symmetric_eigenvalues(const Eigen::MatrixXd& matrix);
/// The same of a tridiagonal one; `coupling` is what stands beside its diagonal.
Eigen::VectorXd tridiagonal_eigenvalues(const Eigen::VectorXd& diagonal, const Eigen::VectorXd& coupling);
/// The λ with Ax = λBx, for symmetric A and positive definite B, in ascending order.
Eigen::VectorXd generalised_eigenvalues(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b);

/// Eigenvalues of a symmetric matrix in ascending order, and their eigenvectors in the columns.
struct SymmetricEigen {
  explicit SymmetricEigen(const Eigen::MatrixXd& matrix);

  bool found;
  Eigen::VectorXd values;  ///< NaN where they were not found
  Eigen::MatrixXd vectors;
};

/// argmin ‖A·x − b‖, by QR with column pivoting.
Eigen::VectorXd least_squares(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

/// A square matrix as LU with full pivoting.
class FullPivoting {
 public:
  explicit FullPivoting(const Eigen::MatrixXd& a);
  ~FullPivoting();

  Index rank() const;
  Eigen::MatrixXd solve(const Eigen::MatrixXd& b) const;  ///< A⁻¹·b, where the rank is full

 private:
  struct Factor;
  std::unique_ptr<Factor> factor_;
};

}  // namespace bilevel
