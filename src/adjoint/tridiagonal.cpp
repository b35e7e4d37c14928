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
  if (values.allFinite()) return {values[0], values[rows - 1]};
  // The QL method may not converge where an end was found many times over. So many of the pivots of T − xI
  // are negative as eigenvalues lie below x (Sylvester).
  const auto below = [&](double x) {
    Eigen::Index count = 0;
    double pivot = 1;
    for (Eigen::Index k = 0; k < rows; ++k) {
      pivot = diagonal[k] - x - (k > 0 ? coupling[k - 1] * coupling[k - 1] / pivot : 0);
      if (pivot == 0) pivot = std::numeric_limits<double>::min();
      count += pivot < 0;
    }
    return count;
  };
  const double reach = diagonal.cwiseAbs().maxCoeff() + 2 * coupling.cwiseAbs().maxCoeff();
  const auto least_with = [&](Eigen::Index count) {
    double low = -reach, high = reach;
    for (int halvings = 0; halvings < 60; ++halvings) {
      const double middle = 0.5 * (low + high);
      (below(middle) >= count ? high : low) = middle;
    }
    return high;
  };
  return {least_with(1), least_with(rows)};
}

}  // namespace bilevel
