#include <bilevel/problem/phi_constraints.hpp>

#include <limits>

namespace bilevel {

PhiConstraints PhiConstraints::box(Eigen::VectorXd lower, Eigen::VectorXd upper) {
  PhiConstraints c;
  c.lower = std::move(lower);
  c.upper = std::move(upper);
  return c;
}

PhiConstraints PhiConstraints::simplex(Eigen::Index size, double total) {
  PhiConstraints c;
  c.lower = Eigen::VectorXd::Zero(size);
  c.equal = Eigen::MatrixXd::Ones(1, size);
  c.equal_to = Eigen::VectorXd::Constant(1, total);
  return c;
}

Violations PhiConstraints::validate(Eigen::Index size) const {
  Violations v("phi_constraints");
  const auto bounds = [&](const char* field, const Eigen::VectorXd& x) {
    v.require(x.size() == 0 || x.size() == size, fmt::format("{}.size", field), x.size(),
              fmt::format("must be 0 or {}, the size of phi", size));
  };
  const auto rows = [&](const char* field, const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
    v.require(a.rows() == 0 || a.cols() == size, fmt::format("{}.cols", field), a.cols(),
              fmt::format("must be {}, the size of phi", size));
    v.require(a.rows() == b.size(), fmt::format("{}.rows", field), a.rows(),
              fmt::format("must be that of {}_to, {}", field, b.size()));
    v.require(a.allFinite() && b.allFinite(), field, "a matrix",
              "and what it is compared with must be finite");
    for (Eigen::Index i = 0; i < a.rows(); ++i)
      v.require(!(a.row(i).array() == 0).all(), fmt::format("{}.row({})", field, i), 0, "must not be zero");
  };
  bounds("lower", lower);
  bounds("upper", upper);
  rows("equal", equal, equal_to);
  rows("below", below, below_to);
  if (!v.empty()) return v;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (Eigen::Index i = 0; i < size; ++i) {
    const double low = lower.size() ? lower[i] : -infinite;
    const double high = upper.size() ? upper[i] : infinite;
    v.require(low <= high, fmt::format("lower[{}]", i), low,
              fmt::format("must not exceed upper[{}] = {}", i, high));
    v.require(!(low == infinite), fmt::format("lower[{}]", i), low, "must be less than infinity");
    v.require(!(high == -infinite), fmt::format("upper[{}]", i), high, "must be more than -infinity");
  }
  return v;
}

}  // namespace bilevel
