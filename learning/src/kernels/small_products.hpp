#pragma once

#include <cstddef>

// Products of matrices so small that a library's take longer to begin than to end, once for each target. No
// Eigen and no standard library beyond types: an inline function compiled for a wide target could become
// everyone's copy.

namespace bilevel::learning::kernels {

using Count = std::ptrdiff_t;

/// C = A·B, or C += A·B: A(i, k) is a[i·a_row + k·a_inner], B and C lie row by row without gaps.
template <class S>
using Product = void(Count rows, Count inner, Count columns, const S* a, Count a_row, Count a_inner,
                     const S* b, bool add, S* c);

struct Products {
  Product<float>* single;
  Product<double>* whole;
};
extern const Products baseline_products, avx2_products;

/// Those of the target that the other kernels of the library use.
template <class S>
Product<S>* product();

}  // namespace bilevel::learning::kernels
