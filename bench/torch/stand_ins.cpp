// What needs a BLAS or NLopt, without them: Cholesky's factors by Eigen, and no searches.

#include <bilevel/space/cholesky.hpp>

#include <string_view>

#include <Eigen/Cholesky>

namespace bilevel {

bool is_search(std::string_view) {
  return false;
}

void Cholesky::compute(const Eigen::MatrixXd& matrix) {
  const Eigen::LLT<Eigen::MatrixXd> llt(matrix);
  factor_ = llt.matrixLLT();
  succeeded_ = llt.info() == Eigen::Success && factor_.diagonal().allFinite();
}

void Cholesky::solve_in_place(Eigen::VectorXd& right) const {
  const auto lower = factor_.triangularView<Eigen::Lower>();
  lower.solveInPlace(right);
  lower.transpose().solveInPlace(right);
}

double Cholesky::reciprocal_condition() const {
  if (!succeeded_) return 0;
  // Of the pivots, squared: never less than that of the matrix.
  const double ratio = pivots().minCoeff() / pivots().maxCoeff();
  return ratio * ratio;
}

}  // namespace bilevel
