#include <bilevel/outer/box.hpp>

namespace bilevel {

void Box::project(Eigen::VectorXd& theta) const {
  if (lower.size()) theta = theta.cwiseMax(lower);
  if (upper.size()) theta = theta.cwiseMin(upper);
}

double Box::projected_gradient_norm(const Eigen::VectorXd& theta, const Eigen::VectorXd& gradient) const {
  Eigen::VectorXd moved = theta - gradient;
  project(moved);
  // Without bounds θ − (θ − g) would lose digits of g for nothing.
  double sum = 0;
  for (Index i = 0; i < theta.size(); ++i) {
    const bool cut = (lower.size() && theta[i] - gradient[i] < lower[i]) ||
                     (upper.size() && theta[i] - gradient[i] > upper[i]);
    const double step = cut ? theta[i] - moved[i] : gradient[i];
    sum += step * step;
  }
  return std::sqrt(sum);
}

bool Box::held(const Eigen::VectorXd& theta, const Eigen::VectorXd& gradient, Index i) const {
  return (lower.size() && theta[i] <= lower[i] && gradient[i] > 0) ||
         (upper.size() && theta[i] >= upper[i] && gradient[i] < 0);
}

Violations Box::validate(Index size) const {
  Violations v("box");
  v.require(lower.size() == 0 || lower.size() == size, "lower.size", lower.size(),
            fmt::format("must be 0 or {}, the size of theta", size));
  v.require(upper.size() == 0 || upper.size() == size, "upper.size", upper.size(),
            fmt::format("must be 0 or {}, the size of theta", size));
  if (!v.empty()) return v;
  for (Index i = 0; i < size; ++i) {
    const double low = lower.size() ? lower[i] : -std::numeric_limits<double>::infinity();
    const double high = upper.size() ? upper[i] : std::numeric_limits<double>::infinity();
    v.require(low <= high, fmt::format("lower[{}]", i), low,
              fmt::format("must not exceed upper[{}] = {}", i, high));
  }
  return v;
}

}  // namespace bilevel
