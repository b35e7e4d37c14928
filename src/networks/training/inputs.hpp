#pragma once

#include <bilevel/networks/training_data.hpp>

namespace bilevel::networks {

/// Features × samples in single precision; sparse rows are spread out.
Eigen::MatrixXf columns_of(const data::Dataset& data, const std::vector<Index>& rows);
std::vector<Index> all_rows(Index count);
/// x ← (x − shift)·factor
void rescale(const Eigen::VectorXd& shift, const Eigen::VectorXd& factor, Eigen::MatrixXf& inputs);

}  // namespace bilevel::networks
