#pragma once

#include <cstdint>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/problem/phi_constraints.hpp>
#include <random_matrix.hpp>

// What tests of states under constraints share.
namespace bilevel::held_states {

using Vec = Eigen::VectorXd;

/// L_out = ½‖φ − t‖² + ½·0.1‖θ‖².
inline double outer(const Vec& target, const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  if (wanted.phi) *wanted.phi = phi - target;
  if (wanted.theta) *wanted.theta = 0.1 * theta;
  return 0.5 * (phi - target).squaredNorm() + 0.05 * theta.squaredNorm();
}

/// A box, an equality and three inequalities at once.
inline PhiConstraints mixed(std::uint64_t seed, Index n) {
  PhiConstraints all = PhiConstraints::box(Vec::Constant(n, -0.5), Vec::Constant(n, 0.6));
  all.equal = random_matrix(seed + 400, 1, n);
  all.equal_to = Vec::Constant(1, 0.1);
  all.below = random_matrix(seed + 500, 3, n);
  all.below_to = Vec::Constant(3, 0.2);
  return all;
}

}  // namespace bilevel::held_states
