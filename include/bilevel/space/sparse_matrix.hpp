#pragma once

#include <vector>

#include <bilevel/space/space.hpp>

namespace bilevel {

/// A square matrix with few entries in host memory, column after column: those of column j are the numbers
/// begins[j] … begins[j + 1] − 1 of `rows`, in ascending order, and of `values`.
struct SparseMatrix {
  std::vector<int> begins{0};
  std::vector<int> rows;
  std::vector<double> values;

  Index size() const { return static_cast<Index>(begins.size()) - 1; }
};

}  // namespace bilevel
