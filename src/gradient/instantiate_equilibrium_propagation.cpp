#include <bilevel/gradient/impl/equilibrium_propagation.hpp>
#include <bilevel/gradient/impl/nudged_phases.hpp>

namespace bilevel {

Stencil stencil_of(Nudge nudge, int points) {
  return nudge == Nudge::central ? Stencil::central()
                                 : Stencil::forward(nudge == Nudge::forward ? points : 2);
}

Violations EquilibriumPropagationOptions::validate() const {
  Violations v("equilibrium_propagation");
  v.require(points >= Stencil::least_points && points <= Stencil::most_points, "points", points,
            "must lie in 2 … 8");
  v.require(std::isfinite(beta), "beta", beta, "must be finite; 0 chooses it");
  v.at_least("patience", patience, 1);
  v.not_negative("outer_tolerance", outer_tolerance);
  return v;
}

std::string name(const EquilibriumPropagationOptions& options) {
  switch (options.nudge) {
    case Nudge::central:
      return "ep-central";
    case Nudge::random_sign:
      return "ep-random-sign";
    case Nudge::forward:
      break;
  }
  return fmt::format("ep-forward-{}", options.points);
}

std::vector<std::string> equilibrium_propagation_names() {
  std::vector<std::string> names;
  for (int p = Stencil::least_points; p <= Stencil::most_points; ++p)
    names.push_back(fmt::format("ep-forward-{}", p));
  names.push_back("ep-central");
  names.push_back("ep-random-sign");
  return names;
}

EquilibriumPropagationOptions equilibrium_propagation_options(std::string_view name,
                                                              EquilibriumPropagationOptions options) {
  for (const Nudge nudge : {Nudge::forward, Nudge::central, Nudge::random_sign})
    for (int p = Stencil::least_points; p <= Stencil::most_points; ++p) {
      options.nudge = nudge;
      options.points = nudge == Nudge::forward ? p : 2;
      if (bilevel::name(options) == name) return options;
    }
  throw InvalidInput(fmt::format("there is no equilibrium propagation '{}'; there are: {}", name,
                                 fmt::join(equilibrium_propagation_names(), ", ")));
}

template class NudgedPhases<Eigen::VectorXd>;
template class NudgedPhases<Eigen::VectorXf>;
template class EquilibriumPropagation<Eigen::VectorXd>;
template class EquilibriumPropagation<Eigen::VectorXf>;

}  // namespace bilevel
