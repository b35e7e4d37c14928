#pragma once

#include <algorithm>
#include <cmath>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/sparse_cholesky.hpp>

namespace bilevel {

struct DirectOptions : AdjointOptions {
  /// Largest |x| for which a matrix that the operator cannot give is assembled from |x| products. At the
  /// default it takes 128 MiB and some 20 Gflop to factor; beyond, an iterative solver is the better tool.
  long assembly_limit = 4096;

  Violations validate() const {
    Violations v = AdjointOptions::validate("direct");
    v.at_least("assembly_limit", assembly_limit, 1);
    return v;
  }
};

/// Factors the whole matrix, in double precision on the host: Cholesky where A is symmetric positive
/// definite (a sparse factor where A has few entries), LU with pivoting elsewhere (see DenseFactor), with a
/// step of iterative refinement where it lowers the residual. For an indefinite symmetric A, x is the
/// stationary point and the status is negative_curvature; for a singular one, x is the solution of least
/// squares and least norm and the status is singular. A warm start is no help and is ignored.
template <Vector V>
class Direct final : public AdjointWithOptions<V, DirectOptions> {
 public:
  explicit Direct(DirectOptions options = {}) : AdjointWithOptions<V, DirectOptions>(options) {}
  std::string_view name() const override { return "direct"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  Eigen::MatrixXd matrix(LinearOperator<V>& a, LinearRun<V>& run) const;
  bool solve_sparse(LinearOperator<V>& a, const V& b, LinearRun<V>& run);
  template <class Solve>
  bool refine(const V& b, const Solve& solve, LinearRun<V>& run);

  SparseCholesky sparse_;
  using AdjointWithOptions<V, DirectOptions>::options_;
};

extern template class Direct<Eigen::VectorXd>;
extern template class Direct<Eigen::VectorXf>;

}  // namespace bilevel
