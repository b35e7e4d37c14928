#pragma once

#include "claim.hpp"

// The claims by name; all() puts them into the order of the paper.
namespace claims {

extern const Claim implicit_function_existence;
extern const Claim branching;
extern const Claim implicit_function_derivative;
extern const Claim stationarity;
extern const Claim algorithm_one;
extern const Claim quadratic_form;
extern const Claim hessian_products;
extern const Claim recurrent_backpropagation;
extern const Claim neumann_series;
extern const Claim truncated_backpropagation;
extern const Claim first_order;
extern const Claim stochastic_adjoint;
extern const Claim implicit_bound;
extern const Claim perturbed_systems;
extern const Claim local_convexity;
extern const Claim propagation_identity;
extern const Claim nudged_direction;
extern const Claim nudged_trajectory;
extern const Claim propagation_constant;
extern const Claim propagation_bound;
extern const Claim propagation_corollary;
extern const Claim indefinite_hessian;
extern const Claim memory;
extern const Claim many_parameters;
extern const Claim convergence_rates;
extern const Claim comparison;
extern const Claim trajectories;
extern const Claim agnostic;
extern const Claim energy_networks;
extern const Claim adversarial_networks;
extern const Claim stackelberg_games;
extern const Claim forward_differences;
extern const Claim algorithm_two;
extern const Claim negative_nudging;
extern const Claim more_points;
extern const Claim implicit_layers;

}  // namespace claims
