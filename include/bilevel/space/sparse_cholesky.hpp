#pragma once

#include <cstddef>
#include <memory>

#include <Eigen/Core>

#include <bilevel/space/sparse_matrix.hpp>

namespace bilevel {

/// A = LDLᵀ of a symmetric positive definite matrix with few entries, in an order that keeps L sparse
/// (approximate minimum degree), after scaling to a unit diagonal.
class SparseCholesky {
 public:
  SparseCholesky();
  ~SparseCholesky();
  SparseCholesky(const SparseCholesky&) = delete;
  SparseCholesky& operator=(const SparseCholesky&) = delete;

  /// Factors A + shift·D, D the sizes of A's diagonal. The order of a matrix with entries in the same places
  /// is used again. True where it is positive definite to working precision.
  bool compute(const SparseMatrix& matrix, double shift = 0);
  /// The same of A − τI, unscaled, and true wherever the factor runs to its end with positive pivots: what
  /// bounds of eigenvalues ask for.
  bool runs_on(const SparseMatrix& matrix, double tau);
  void solve_in_place(Eigen::VectorXd& right) const;
  std::size_t bytes() const;

 private:
  struct Factor;
  std::unique_ptr<Factor> factor_;
};

}  // namespace bilevel
