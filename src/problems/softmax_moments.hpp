#pragma once

#include <vector>

#include <Eigen/Core>

#include <bilevel/problems/kernels.hpp>

namespace bilevel::problems {

/// The Hessian of softmax on dense rows, Σ w_i·(diag(p_i) − p_i p_iᵀ) ⊗ x_i x_iᵀ with the classes of a
/// feature next to each other. What lies between classes is −ZᵀZ with the rows z_i = √w_i·x_i ⊗ p_i; the
/// blocks of a class with itself, where p − p² would cancel, are Xᵀ·diag(w p(1 − p))·X.
class SoftmaxMoments {
 public:
  SoftmaxMoments(Index rows, Index columns, Index classes);

  /// out += the Hessian, both halves. Rows are cut into groups that do not depend on the number of threads.
  void add(const kernels::View& view, const double* probabilities, const double* weights,
           Eigen::MatrixXd& out);
  /// Roundings in a row on the way to one element.
  double depth() const;

 private:
  struct Group {
    Eigen::MatrixXd between, within;  // ZᵀZ in its lower half; Xᵀ·(X ⊗ w p(1 − p))
    Eigen::MatrixXd x, z, q;          // of a block of rows
  };

  void sum(const kernels::View& view, Index first, Index last, const double* probabilities,
           const double* weights, Group& group) const;

  Index rows_, columns_, classes_, rows_in_group_;
  std::vector<Group> groups_;
};

}  // namespace bilevel::problems
