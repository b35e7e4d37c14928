#pragma once

#include <memory>
#include <vector>

#include <bilevel/problems/model_matrix.hpp>

#include "layout.hpp"

namespace tuning {

/// The matrix of the rows in their order, only the columns named, shifted and divided by their scale on the
/// way. Sparse rows stay so: their shifts must be zero.
std::shared_ptr<const bilevel::problems::ModelMatrix> gather(const std::vector<bilevel::data::Dataset>& files,
                                                             const std::vector<Place>& rows,
                                                             const std::vector<Index>& columns,
                                                             const Eigen::VectorXd& shift,
                                                             const Eigen::VectorXd& scale, Index& nonzeros);

}  // namespace tuning
