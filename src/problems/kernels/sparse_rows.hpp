#pragma once

// One sparse row against a dense vector. Gathers and scatters gain nothing from wide registers.

#include <bilevel/problems/sparse_kernels.hpp>

namespace bilevel::problems::kernels {

/// x_i·u and the intercept. Four sums: one would wait for each addition before the next.
inline double margin_of_row(const SparseView& view, Index i, const double* u) {
  const int* columns = view.columns_of;
  const double* values = view.values;
  const int end = view.starts[i + 1];
  int k = view.starts[i];
  double a = 0, b = 0, c = 0, d = 0;
  for (; k + 4 <= end; k += 4) {
    a += values[k] * u[columns[k]];
    b += values[k + 1] * u[columns[k + 1]];
    c += values[k + 2] * u[columns[k + 2]];
    d += values[k + 3] * u[columns[k + 3]];
  }
  for (; k < end; ++k) a += values[k] * u[columns[k]];
  return ((a + b) + (c + d)) + u[view.columns];
}

/// sum += factor·(x_i, 1).
inline void add_row(const SparseView& view, Index i, double factor, double* sum) {
  if (factor == 0) return;  // common: rows beyond the margin, rows of weight zero
  for (int k = view.starts[i]; k < view.starts[i + 1]; ++k)
    sum[view.columns_of[k]] += factor * view.values[k];
  sum[view.columns] += factor;
}

}  // namespace bilevel::problems::kernels
