#include "catalogue.hpp"

namespace claims {

const std::vector<const Claim*>& all() {
  static const std::vector<const Claim*> list{
      // Section 2: the implicit function theorem.
      &implicit_function_existence, &branching, &implicit_function_derivative, &stationarity,
      // Section 3.1: implicit differentiation.
      &algorithm_one, &implicit_layers, &quadratic_form, &hessian_products, &recurrent_backpropagation,
      &neumann_series, &truncated_backpropagation, &first_order, &stochastic_adjoint, &implicit_bound,
      // Section 3.2: equilibrium propagation.
      &propagation_identity, &nudged_direction, &nudged_trajectory, &propagation_bound, &propagation_constant,
      &propagation_corollary,
      // Section 4: comparison.
      &memory, &many_parameters, &trajectories, &convergence_rates, &comparison, &indefinite_hessian,
      &agnostic,
      // Appendix A: learning problems.
      &energy_networks, &adversarial_networks, &stackelberg_games,
      // Appendix B: the theorem's proof, and its local version.
      &perturbed_systems, &local_convexity,
      // Appendix C: more points.
      &forward_differences, &algorithm_two, &negative_nudging, &more_points};
  return list;
}

}  // namespace claims
