#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <bilevel/problems/model_matrix.hpp>

#include "layout.hpp"

namespace bilevel::models {

/// Refuses a table with a cell that is no finite number: a file's reader has said so itself, with the line; a
/// table in memory comes as it is. `options` are those whose `missing` helps.
void require_numbers(const bilevel::data::Dataset& data, std::string_view options);

/// Of each column named, the value that most of its cells have, and `otherwise` where none is so common, as
/// shifts for `gather`: cells with it need not be stored. Nothing where that would not pay, because too many
/// cells are left, or because the data are sparse already.
std::optional<Eigen::VectorXd> common_values(const bilevel::data::Dataset& data,
                                             const std::vector<Index>& columns,
                                             const Eigen::VectorXd& otherwise);

/// The matrix of the rows in their order, only the columns named, shifted and divided by their scale on the
/// way. Sparse rows stay so: their shifts must be zero. Dense ones become so where `drop_zeros`.
std::shared_ptr<const bilevel::problems::ModelMatrix> gather(const std::vector<bilevel::data::Dataset>& files,
                                                             const std::vector<Place>& rows,
                                                             const std::vector<Index>& columns,
                                                             const Eigen::VectorXd& shift,
                                                             const Eigen::VectorXd& scale, bool drop_zeros,
                                                             Index& nonzeros);

}  // namespace bilevel::models
