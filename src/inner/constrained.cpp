#include <bilevel/inner/impl/constrained.hpp>

namespace bilevel {

NamedConstraints rows_of(const PhiConstraints& c, Index size) {
  constexpr double none = std::numeric_limits<double>::infinity();
  NamedConstraints all;
  all.lower = c.lower.size() ? c.lower : Eigen::VectorXd::Constant(size, -none);
  all.upper = c.upper.size() ? c.upper : Eigen::VectorXd::Constant(size, none);
  std::vector<std::pair<Eigen::VectorXd, double>> rows;
  const auto add = [&](Eigen::VectorXd normal, double limit, std::string name, Index element = -1) {
    all.elements.push_back(element);
    rows.emplace_back(std::move(normal), limit);
    all.names.push_back(std::move(name));
  };
  for (Index i = 0; i < c.equal.rows(); ++i)
    add(c.equal.row(i).transpose(), c.equal_to[i], fmt::format("equality {}", i));
  // Two bounds that meet are an equality.
  for (Index i = 0; i < size; ++i)
    if (all.lower[i] == all.upper[i])
      add(Eigen::VectorXd::Unit(size, i), all.lower[i], fmt::format("the bounds of element {}", i), i);
  all.rows.equalities = static_cast<Index>(rows.size());
  for (Index i = 0; i < size; ++i) {
    if (all.lower[i] == all.upper[i]) continue;
    if (std::isfinite(all.lower[i]))
      add(Eigen::VectorXd::Unit(size, i), all.lower[i], fmt::format("the lower bound of element {}", i), i);
    if (std::isfinite(all.upper[i]))
      add(-Eigen::VectorXd::Unit(size, i), -all.upper[i], fmt::format("the upper bound of element {}", i), i);
  }
  for (Index i = 0; i < c.below.rows(); ++i)
    add(-c.below.row(i).transpose(), -c.below_to[i], fmt::format("inequality {}", i));
  all.rows.normals.resize(size, static_cast<Index>(rows.size()));
  all.rows.limits.resize(static_cast<Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    all.rows.normals.col(static_cast<Index>(i)) = rows[i].first;
    all.rows.limits[static_cast<Index>(i)] = rows[i].second;
  }
  return all;
}

LinearConstraints around(const LinearConstraints& rows, const Eigen::VectorXd& phi) {
  LinearConstraints moved = rows;
  moved.limits.noalias() -= rows.normals.transpose() * phi;
  return moved;
}

void keep_within(const NamedConstraints& constraints, Eigen::VectorXd& phi) {
  phi = phi.cwiseMax(constraints.lower).cwiseMin(constraints.upper);
}

void touch(const NamedConstraints& constraints, const std::vector<Index>& active, Eigen::VectorXd& phi) {
  for (const Index i : active) {
    const Index element = constraints.elements[static_cast<std::size_t>(i)];
    if (element >= 0) phi[element] = constraints.rows.normals(element, i) * constraints.rows.limits[i];
  }
}

void update_model(const Eigen::VectorXd& s, Eigen::VectorXd y, Eigen::MatrixXd& model, bool first) {
  if (first && s.dot(y) > 0)
    model = Eigen::MatrixXd::Identity(s.size(), s.size()) * (y.squaredNorm() / s.dot(y));
  const Eigen::VectorXd bs = model * s;
  const double sbs = s.dot(bs);
  if (!(sbs > 0)) return;
  if (const double sy = s.dot(y); sy < 0.2 * sbs) {
    const double share = 0.8 * sbs / (sbs - sy);
    y = share * y + (1 - share) * bs;
  }
  model += y * y.transpose() / s.dot(y) - bs * bs.transpose() / sbs;
}

template class Constrained<Eigen::VectorXd>;
template class Constrained<Eigen::VectorXf>;

}  // namespace bilevel
