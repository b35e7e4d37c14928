#include <algorithm>
#include <cmath>

#include "data/array_table.hpp"

namespace bilevel::data {
namespace {

constexpr Index cells_at_once = 65536;

double checked(Table& table, TableColumn& column, double value, Index row) {
  if (column.slot < 0 || (column.plain && std::isfinite(value))) return value;
  return table.number(column, value, row + 1);
}

}  // namespace

void read_array(Stream& stream, const Array& array, Index rows, Index columns, Table& table) {
  Elements elements(stream, array.element, rows * columns);
  table.keep_all_slots();
  table.set_array(rows, array.column_major);
  std::vector<TableColumn>& roles = table.columns();
  const auto take = [&](Index count) {
    elements.await(count);
    double* const cells = table.add_cells(count);
    elements.take(count, cells);
    return cells;
  };
  if (array.column_major) {
    for (TableColumn& column : roles) {
      for (Index row = 0, count = 0; row < rows; row += count) {
        count = std::min(cells_at_once, rows - row);
        double* const cells = take(count);
        for (Index i = 0; i < count; ++i) cells[i] = checked(table, column, cells[i], row + i);
      }
    }
  } else {
    const Index rows_at_once = std::max<Index>(1, cells_at_once / columns);
    for (Index row = 0, count = 0; row < rows; row += count) {
      count = std::min(rows_at_once, rows - row);
      double* cell = take(count * columns);
      for (Index i = 0; i < count; ++i) {
        for (TableColumn& column : roles) {
          *cell = checked(table, column, *cell, row + i);
          ++cell;
        }
      }
    }
  }
  elements.finish();
}

}  // namespace bilevel::data
