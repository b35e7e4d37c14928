#pragma once

#include <vector>

#include <bilevel/data/dataset.hpp>

namespace bilevel::data {

/// Of each column over some rows; cells that are NaN are left out, and a column without any cell has zeros.
struct ColumnMoments {
  Eigen::VectorXd mean;
  Eigen::VectorXd deviation;  ///< sqrt(mean of (x - mean)²); exactly 0 for a constant column
  Eigen::VectorXd largest;    ///< of |x|
};

/// Two passes, shifted, so that a large mean costs no digits; the same result for every number of threads.
ColumnMoments column_moments(const DenseRows& x, const std::vector<Index>& rows);
/// The same without a dense copy: a cell that is not stored counts as the zero it is.
ColumnMoments column_moments(const SparseRows& x, const std::vector<Index>& rows);
ColumnMoments column_moments(const Dataset& data, const std::vector<Index>& rows);

/// NaN becomes means[j] in column j.
void impute(Dataset& data, const Eigen::VectorXd& means);

}  // namespace bilevel::data
