#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <bilevel/models/row_hypergradients.hpp>

namespace bilevel::models {

/// Do the parts of θ want to differ? Each held-out row pulls θ by its own hypergradient u_i; centred over the
/// parts of θ, c_i is its opinion of how they should differ. With row weights ω_i that sum to one,
///   g = Σ ω_i c_i,   J = Σ ω_i² (c_i − g)(c_i − g)ᵀ,   ρ = |g|²/tr J,   ν = (tr J)²/tr J²
/// and were all opinions noise, ρν would be about χ² with ν degrees of freedom (Satterthwaite).
struct Score {
  double rho = bilevel::unknown, nu = bilevel::unknown, p = bilevel::unknown;
};

/// `folds` all have θ of the same size, of which the first `parts` are compared; `weights[k]` are the weights
/// of the validation rows of fold k. Folds count alike, as they do in the validation loss. Traces are exact
/// where every row of a fold can be asked within that many operations, and by random mixtures of rows beyond.
Score score_test(const std::vector<std::unique_ptr<RowHypergradients>>& folds,
                 const std::vector<std::vector<double>>& weights, Index parts, std::uint64_t seed,
                 double affordable = 1e9);

/// P(χ² with ν degrees of freedom > x), for any ν > 0.
double chi_square_tail(double x, double nu);

}  // namespace bilevel::models
