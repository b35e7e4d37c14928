#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <bilevel/models/tune.hpp>

#include "row_hypergradients.hpp"

namespace bilevel::models {

/// `folds` all have θ of the same size, of which the first `parts` are compared; `weights[k]` are the weights
/// of the validation rows of fold k. Folds count alike, as they do in the validation loss. Traces are exact
/// where every row of a fold can be asked within that many operations, and by random mixtures of rows beyond.
Score score_test(const std::vector<std::unique_ptr<RowHypergradients>>& folds,
                 const std::vector<std::vector<double>>& weights, Index parts, std::uint64_t seed,
                 double affordable = 1e9);

/// P(χ² with ν degrees of freedom > x), for any ν > 0.
double chi_square_tail(double x, double nu);

}  // namespace bilevel::models
