#pragma once

#include <Eigen/Core>

#include <bilevel/outcome/stop_token.hpp>
#include <bilevel/space/inverse_approximation.hpp>
#include <bilevel/space/sparse_matrix.hpp>

namespace bilevel {

/// The matrix A of phase 2's system A·x = b, known by its products.
template <Vector V>
class LinearOperator {
 public:
  virtual ~LinearOperator() = default;
  virtual void apply(const V& x, V& out) = 0;  ///< out = A·x; out has x's shape already and is another object
  virtual bool symmetric() const { return true; }
  /// The whole matrix in host memory; false where |x| products are the only way.
  virtual bool dense(Eigen::MatrixXd&) { return false; }
  /// The whole of a symmetric A that has few entries; returns how many products that took, 0 for no such way.
  virtual long sparse(SparseMatrix& /*out*/) { return 0; }
  virtual bool diagonal(V& /*out*/) { return false; }
  /// out = A_k·x, A_k drawn anew at each call from parts whose mean is A; false where A has no parts.
  virtual bool drawn_apply(const V& /*x*/, V& /*out*/) { return false; }
  /// out ≈ A⁻¹·r, the same symmetric positive definite map at every call of one solve.
  virtual bool precondition(const V& /*r*/, V& /*out*/) { return false; }
  /// What phase 1 left behind about A⁻¹; null where it left nothing.
  virtual InverseApproximation<V>* inherited() { return nullptr; }
  /// Solvers end early where this says so; null: never.
  virtual const StopToken* stop_token() const { return nullptr; }
};

}  // namespace bilevel
