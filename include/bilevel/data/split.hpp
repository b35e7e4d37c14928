#pragma once

#include <cstdint>
#include <vector>

#include <bilevel/data/dataset.hpp>

namespace bilevel::data {

/// The fold, 0 … folds-1, of each row. Sizes differ by at most one, in every stratum too. The same seed gives
/// the same folds on every platform.
std::vector<int> assign_folds(Index rows, int folds, std::uint64_t seed,
                              const std::vector<int>* strata = nullptr);

/// True for the rows that are held out: round(fraction · rows) of them, at least one on each side. With
/// strata each gives its share to within one row, and one of two or more rows is never emptied.
std::vector<bool> draw_part(Index rows, double fraction, std::uint64_t seed,
                            const std::vector<int>* strata = nullptr);

/// Strata of a target of classes: equal values share a stratum, numbered in ascending order of the value.
std::vector<int> strata_of(const Eigen::VectorXd& target);

}  // namespace bilevel::data
