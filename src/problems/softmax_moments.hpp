#pragma once

#include <vector>

#include <Eigen/Core>

#include <bilevel/problems/kernels.hpp>

namespace bilevel::problems {

/// The Hessian of softmax on dense rows, Σ w_i·(diag(p_i) − p_i p_iᵀ) ⊗ x_i x_iᵀ with the classes of a
/// feature next to each other. It is symmetric in the features and in the classes: one product YᵀQ has every
/// number in it once, where a row of Y holds the x_j·x_l with l ≤ j and a row of Q the p_a·p_b with b < a
/// and, where p − p² would cancel, the p_a(1 − p_a).
class SoftmaxMoments {
 public:
  SoftmaxMoments(Index rows, Index columns, Index classes);

  /// Few pairs of classes leave BLAS little to do for the products in Y.
  static bool worth_while(Index classes) { return classes >= 6; }
  /// out += the Hessian, both halves. Rows are cut into groups that do not depend on the number of threads.
  void add(const kernels::View& view, const double* probabilities, const double* weights,
           Eigen::MatrixXd& out);
  /// Roundings in a row on the way to one element.
  double depth() const;

 private:
  struct Group {
    Eigen::MatrixXd sum;   // YᵀQ
    Eigen::MatrixXd y, q;  // of a block of rows, one a column
  };

  void sum(const kernels::View& view, Index first, Index last, const double* probabilities,
           const double* weights, Group& group) const;

  Index rows_, columns_, classes_, of_features_, of_classes_, rows_in_block_, rows_in_group_;
  std::vector<Group> groups_;
};

}  // namespace bilevel::problems
