#include "dense_matrices.hpp"

#include <cmath>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>

namespace bilevel::problems {

using Eigen::MatrixXd;
using Eigen::VectorXd;

Extremes extreme_eigenvalues(const MatrixXd& symmetric) {
  const VectorXd values =
      Eigen::SelfAdjointEigenSolver<MatrixXd>(symmetric, Eigen::EigenvaluesOnly).eigenvalues();
  // Backward stable: a few n·u·‖A‖, and ‖A‖ is the larger end in size.
  const double largest = std::max(std::abs(values[0]), std::abs(values[values.size() - 1]));
  const double slack = 10 * static_cast<double>(values.size()) * 0x1p-53 * largest;
  return {values[0] - slack, values[values.size() - 1] + slack};
}

double spectral_norm_above(const MatrixXd& a) {
  // The root of AᵀA's (or AAᵀ's) largest eigenvalue: squaring costs digits only at the lower end of the
  // spectrum.
  const MatrixXd gram = a.rows() < a.cols() ? MatrixXd(a * a.transpose()) : MatrixXd(a.transpose() * a);
  const double rounding = static_cast<double>(a.rows() + a.cols()) * 0x1p-53 * a.squaredNorm();
  return std::sqrt(extreme_eigenvalues(gram).largest + 2 * rounding) * (1 + 0x1p-50);
}

MatrixXd gaussian(std::mt19937_64& engine, Index rows, Index columns) {
  std::normal_distribution<double> normal;
  MatrixXd a(rows, columns);
  for (Index j = 0; j < columns; ++j)
    for (Index i = 0; i < rows; ++i) a(i, j) = normal(engine);
  return a;
}

MatrixXd random_symmetric(std::mt19937_64& engine, const VectorXd& eigenvalues) {
  const Index n = eigenvalues.size();
  const MatrixXd q = Eigen::HouseholderQR<MatrixXd>(gaussian(engine, n, n)).householderQ();
  const MatrixXd a = q * eigenvalues.asDiagonal() * q.transpose();
  return 0.5 * (a + a.transpose());
}

VectorXd log_spaced(Index n, double condition) {
  if (n == 1) return VectorXd::Ones(1);
  const double half = 0.5 * std::log(condition);
  return VectorXd::LinSpaced(n, -half, half).array().exp();
}

bool is_symmetric(const MatrixXd& a) {
  return a.rows() == a.cols() && a == a.transpose();
}

}  // namespace bilevel::problems
