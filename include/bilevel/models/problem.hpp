#pragma once

#include <memory>
#include <vector>

#include <bilevel/models/prepared.hpp>
#include <bilevel/problem/equilibrium.hpp>

namespace bilevel::models {

/// What tuning solves, for any estimator and any optimiser: min over θ = log λ of the mean validation loss at
/// φ*(θ), in units in which the target's deviation is one. One problem with a hold-out; with K folds one for
/// each, which share θ and count alike (gradient/sum_of_estimators.hpp adds them up). Throws InvalidInput for lasso
/// and elastic net, which minimise no smooth loss. The problems share the data with `prepared`, which need
/// not outlive them.
std::vector<std::unique_ptr<bilevel::Problem<Vec>>> make_problems(const Prepared& prepared);

/// The one problem of a hold-out (TuneOptions::validation, or rows that the data bring for it).
std::unique_ptr<bilevel::Problem<Vec>> make_problem(TuningData data, const TuneOptions& options);

}  // namespace bilevel::models
