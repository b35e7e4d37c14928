#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <bilevel/gradient/estimator_choice.hpp>

namespace bilevel {

/// What the choice of a method rests on, once phase 1 is done.
struct Situation {
  Index phi = 0;
  Index theta = 0;
  bool curvature = true;  ///< Hessian and cross products exist
  bool symmetric = true;
  bool loss = true;              ///< L_in has values: equilibrium propagation applies
  bool inherits = false;         ///< the inner solver leaves all of J⁻¹ behind, nearly at φ̂
  std::size_t memory_limit = 0;  ///< bytes that a method may hold
};

/// A method and what it is good for.
struct Choice {
  EstimatorChoice method;   ///< with max_iterations of phase 2 where the solver's own limit is too high
  bool indefinite = false;  ///< copes with a Hessian that is not positive definite
  bool stiff = false;       ///< copes with a condition number that products cannot overcome
  std::string reason;
};

/// The methods that can serve, best first: the paper's "which method to choose?" (section 4) as a list. Where
/// a matrix of |φ|² numbers fits into memory, an iterative method may spend as many products as the matrix
/// has columns and hands over to the factorization then: whatever the condition number, the sum is at most
/// twice the cheaper of the two.
std::vector<Choice> rank_methods(const Situation& situation);

/// The first choice after `failed` that copes with why it failed, or choices.size().
std::size_t next_choice(const std::vector<Choice>& choices, std::size_t failed, Status why);

}  // namespace bilevel
