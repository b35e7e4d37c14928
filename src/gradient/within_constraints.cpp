#include <bilevel/gradient/impl/within_constraints.hpp>

namespace bilevel {

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
