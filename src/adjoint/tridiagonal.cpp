#include <bilevel/adjoint/tridiagonal.hpp>

#include <limits>

#include <bilevel/space/decompositions.hpp>

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
  const Eigen::VectorXd values = tridiagonal_eigenvalues(diagonal, coupling);
  return {values[0], values[rows - 1]};
}

}  // namespace bilevel
