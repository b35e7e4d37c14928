#pragma once

#include <cstdint>
#include <vector>

#include <bilevel/data/dataset.hpp>

namespace bilevel::data {

/// Rows to train on and rows to validate on, ascending.
struct Fold {
  std::vector<Index> training, validation;
};

/// The fold, 0 … folds-1, of each row. Sizes differ by at most one, in every stratum too. The same seed gives
/// the same folds on every platform.
std::vector<int> assign_folds(Index rows, int folds, std::uint64_t seed,
                              const std::vector<int>* strata = nullptr);

/// True for the rows that are held out: round(fraction · rows) of them, at least one on each side. With
/// strata each gives its share to within one row, and one of two or more rows is never emptied.
std::vector<bool> draw_part(Index rows, double fraction, std::uint64_t seed,
                            const std::vector<int>* strata = nullptr);

/// Fold k validates on the rows assigned to k and trains on the others. Throws where a fold has no row.
std::vector<Fold> make_folds(const std::vector<int>& assigned, int folds);
/// One fold: it validates on the rows drawn.
Fold make_fold(const std::vector<bool>& drawn);

/// Strata of a target of classes: equal values share a stratum, numbered in ascending order of the value.
std::vector<int> strata_of(const Eigen::VectorXd& target);

}  // namespace bilevel::data
