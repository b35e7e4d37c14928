#include <bilevel/space/sparse_cholesky.hpp>

#include <cmath>

#include <Eigen/SparseCholesky>

namespace bilevel {
namespace {

using Compressed = Eigen::SparseMatrix<double>;

}  // namespace

struct SparseCholesky::Factor {
  Compressed matrix;
  Eigen::VectorXd scale;
  Eigen::SimplicialLDLT<Compressed> ldlt;
  std::vector<int> begins, rows;  // of the matrix whose order is known

  /// diag(scale)·A·diag(scale) + shift·I, factored; false where a pivot was zero or not finite.
  bool compute(const SparseMatrix& a, double shift) {
    const auto n = a.size();
    matrix = Eigen::Map<const Compressed>(n, n, static_cast<Index>(a.values.size()), a.begins.data(),
                                          a.rows.data(), a.values.data());
    matrix = scale.asDiagonal() * matrix * scale.asDiagonal();
    ldlt.setShift(shift);
    if (begins != a.begins || rows != a.rows) {
      ldlt.analyzePattern(matrix);
      begins = a.begins;
      rows = a.rows;
    }
    ldlt.factorize(matrix);
    return ldlt.info() == Eigen::Success && ldlt.vectorD().allFinite();
  }
};

SparseCholesky::SparseCholesky() : factor_(std::make_unique<Factor>()) {}
SparseCholesky::~SparseCholesky() = default;

bool SparseCholesky::compute(const SparseMatrix& matrix, double shift) {
  const Index n = matrix.size();
  Eigen::VectorXd& scale = factor_->scale;
  scale = Eigen::VectorXd::Zero(n);
  double peak = 0;
  for (Index j = 0; j < n; ++j)
    for (int k = matrix.begins[static_cast<std::size_t>(j)];
         k < matrix.begins[static_cast<std::size_t>(j) + 1]; ++k) {
      const double size = std::abs(matrix.values[static_cast<std::size_t>(k)]);
      peak = std::max(peak, size);
      if (matrix.rows[static_cast<std::size_t>(k)] == j) scale[j] = size;
    }
  constexpr double u = 0x1p-53;
  for (double& each : scale) each = 1 / std::sqrt(each > u * u * peak ? each : peak > 0 ? peak : 1);
  if (!factor_->compute(matrix, shift)) return false;
  // A factor whose smallest pivot is rounding would send a step far off.
  const Eigen::VectorXd pivots = factor_->ldlt.vectorD();
  return pivots.minCoeff() > static_cast<double>(n) * u * pivots.maxCoeff();
}

bool SparseCholesky::runs_on(const SparseMatrix& matrix, double tau) {
  factor_->scale = Eigen::VectorXd::Ones(matrix.size());
  return factor_->compute(matrix, -tau) && factor_->ldlt.vectorD().minCoeff() > 0;
}

void SparseCholesky::solve_in_place(Eigen::VectorXd& right) const {
  right.array() *= factor_->scale.array();
  right = factor_->ldlt.solve(right).eval();
  right.array() *= factor_->scale.array();
}

std::size_t SparseCholesky::bytes() const {
  const auto entries = static_cast<std::size_t>(factor_->ldlt.matrixL().nestedExpression().nonZeros());
  return (sizeof(double) + sizeof(int)) * (entries + static_cast<std::size_t>(factor_->matrix.nonZeros()));
}

}  // namespace bilevel
