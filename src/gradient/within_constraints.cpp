#include <bilevel/gradient/impl/within_constraints.hpp>

namespace bilevel {

std::string one_sided(const NamedConstraints& constraints, const Face& face, double state_size,
                      double curvature, double distance) {
  // What a state that is moved by a millionth of its size, or by its own error, may not change. A state at
  // the origin has the size of what bounds it most closely.
  double size = state_size;
  for (Index i = 0; state_size == 0 && i < constraints.rows.limits.size(); ++i) {
    const double limit = std::abs(constraints.rows.limits[i]) / constraints.rows.normals.col(i).norm();
    if (limit > 0 && (size == 0 || limit < size)) size = limit;
  }
  const double near = std::max(1e-6 * (size > 0 ? size : 1), 10 * distance);
  const auto name = [&](Index i) -> const std::string& {
    return constraints.names[static_cast<std::size_t>(i)];
  };
  if (!face.undecided.empty())
    return fmt::format("{} is touched and does not hold the state", name(face.undecided.front()));
  std::vector<bool> active(constraints.names.size(), false);
  for (const Index i : face.active) {
    active[static_cast<std::size_t>(i)] = true;
    if (i < constraints.rows.equalities) continue;
    const double held = face.multipliers[i] * constraints.rows.normals.col(i).norm();
    if (held <= curvature * near)
      return fmt::format("the multiplier of {} is {:.3g}, nearly zero", name(i), face.multipliers[i]);
  }
  for (Index i = constraints.rows.equalities; i < face.slacks.size(); ++i)
    if (!active[static_cast<std::size_t>(i)] &&
        face.slacks[i] <= near * constraints.rows.normals.col(i).norm())
      return fmt::format("{} is nearly reached, at a distance of {:.3g}", name(i), face.slacks[i]);
  return {};
}

void require_obedient(const EstimatorChoice& choice) {
  if (!differentiates_steps(choice) && !std::holds_alternative<AgnosticOptions>(choice) &&
      !std::holds_alternative<HolomorphicOptions>(choice))
    return;
  throw InvalidInput(fmt::format(
      "{} does not obey constraints on phi: use an implicit method, ep-central or finite-difference "
      "with the inner solver newton or lbfgs",
      name(choice)));
}

template class WithinConstraints<Eigen::VectorXd>;
template class WithinConstraints<Eigen::VectorXf>;

}  // namespace bilevel
