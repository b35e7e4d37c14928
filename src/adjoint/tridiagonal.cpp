#include <bilevel/adjoint/tridiagonal.hpp>

#include <limits>

#include <Eigen/Eigenvalues>

namespace bilevel {

Tridiagonal::Tridiagonal(long rows) : rows_(static_cast<std::size_t>(rows)) {
  diagonal_.reserve(rows_);
  coupling_.reserve(rows_);
}

void Tridiagonal::append(double diagonal, double coupling) {
  if (full()) return;
  if (!diagonal_.empty()) coupling_.push_back(coupling);
  diagonal_.push_back(diagonal);
}

std::pair<double, double> Tridiagonal::extremes() const {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  if (diagonal_.empty()) return {unknown, unknown};
  const auto rows = static_cast<Eigen::Index>(diagonal_.size());
  const Eigen::VectorXd diagonal = Eigen::Map<const Eigen::VectorXd>(diagonal_.data(), rows);
  const Eigen::VectorXd coupling = Eigen::Map<const Eigen::VectorXd>(coupling_.data(), rows - 1);
  if (!diagonal.allFinite() || !coupling.allFinite()) return {unknown, unknown};
  Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
  solver.computeFromTridiagonal(diagonal, coupling, Eigen::EigenvaluesOnly);
  if (solver.info() != Eigen::Success) return {unknown, unknown};
  return {solver.eigenvalues()[0], solver.eigenvalues()[rows - 1]};
}

}  // namespace bilevel
