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
  require_trust(v, trust);
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

template class NudgedPhases<Eigen::VectorXd>;
template class NudgedPhases<Eigen::VectorXf>;
template class EquilibriumPropagation<Eigen::VectorXd>;
template class EquilibriumPropagation<Eigen::VectorXf>;

}  // namespace bilevel
