#pragma once

#include "data/formats.hpp"
#include "data/table.hpp"

namespace bilevel::data {

/// Gathers the elements of an array, whose columns have their roles, in the order they come.
void read_array(Stream& stream, const Array& array, Index rows, Index columns, Table& table);

}  // namespace bilevel::data
