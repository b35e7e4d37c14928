#include <bilevel/inner/impl/constrained.hpp>

#include "clamped.hpp"

namespace bilevel {

NamedConstraints rows_of(const PhiConstraints& c, Index size) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  NamedConstraints all;
  all.lower = c.lower.size() ? c.lower : Eigen::VectorXd::Constant(size, -infinite);
  all.upper = c.upper.size() ? c.upper : Eigen::VectorXd::Constant(size, infinite);
  // Two bounds that meet are an equality.
  const auto fixed = all.lower.array() == all.upper.array();
  const Index bounds =
      (!fixed && all.lower.array().isFinite()).count() + (!fixed && all.upper.array().isFinite()).count();
  all.rows.equalities = c.equal.rows() + fixed.count();
  const Index count = all.rows.equalities + bounds + c.below.rows();
  all.rows.normals.setZero(size, count);
  all.rows.limits.resize(count);
  Index next = 0;
  const auto add = [&](double limit, std::string name, Index element = -1) {
    all.rows.limits[next] = limit;
    all.names.push_back(std::move(name));
    all.elements.push_back(element);
    return all.rows.normals.col(next++);
  };
  for (Index i = 0; i < c.equal.rows(); ++i)
    add(c.equal_to[i], fmt::format("equality {}", i)) = c.equal.row(i).transpose();
  for (Index i = 0; i < size; ++i)
    if (all.lower[i] == all.upper[i]) add(all.lower[i], fmt::format("the bounds of element {}", i), i)[i] = 1;
  for (Index i = 0; i < size; ++i) {
    if (all.lower[i] == all.upper[i]) continue;
    if (std::isfinite(all.lower[i]))
      add(all.lower[i], fmt::format("the lower bound of element {}", i), i)[i] = 1;
    if (std::isfinite(all.upper[i]))
      add(-all.upper[i], fmt::format("the upper bound of element {}", i), i)[i] = -1;
  }
  for (Index i = 0; i < c.below.rows(); ++i)
    add(-c.below_to[i], fmt::format("inequality {}", i)) = -c.below.row(i).transpose();
  return all;
}

bool NamedConstraints::separable() const {
  const auto others = std::count(elements.begin(), elements.end(), Index{-1});
  return others == 0 || (others == 1 && rows.equalities > 0 && elements[0] < 0);
}

QuadraticProgramSolution nearest_step(const NamedConstraints& constraints, const Eigen::VectorXd& phi,
                                      const Eigen::VectorXd& gradient, const StopToken* stop) {
  const LinearConstraints& rows = constraints.rows;
  const Index n = phi.size(), count = rows.limits.size();
  if (!constraints.separable())
    return solve_quadratic_program(Eigen::MatrixXd::Identity(n, n), gradient, rows,
                                   {.around = &phi, .stop = stop});
  const bool sum = count > 0 && constraints.elements[0] < 0;
  const Eigen::VectorXd normal = sum ? Eigen::VectorXd(rows.normals.col(0)) : Eigen::VectorXd();
  const Clamped c = clamp(gradient, constraints.lower - phi, constraints.upper - phi, normal,
                          sum ? rows.limits[0] - normal.dot(phi) : 0,
                          sum ? std::abs(rows.limits[0]) + normal.norm() * phi.norm() : 0);
  QuadraticProgramSolution step;
  step.x = c.x;
  step.feasible = c.feasible;
  step.end = c.feasible ? QuadraticProgramEnd::solved : QuadraticProgramEnd::infeasible;
  step.multipliers = Eigen::VectorXd::Zero(count);
  for (Index i = 0; i < count; ++i) {
    const double multiplier = multiplier_of(constraints, c, i);
    if (std::isnan(multiplier)) continue;
    step.active.push_back(i);
    step.multipliers[i] = multiplier;
  }
  return step;
}

double multiplier_of(const NamedConstraints& constraints, const Clamped& clamped, Index row) {
  const Index element = constraints.elements[static_cast<std::size_t>(row)];
  if (element < 0) return clamped.equality ? clamped.multiplier : unknown;
  const int held = clamped.held[static_cast<std::size_t>(element)];
  const double way = constraints.rows.normals(element, row);
  if (held == 0 || (row >= constraints.rows.equalities && (held < 0) != (way > 0))) return unknown;
  return way * clamped.force[element];
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
