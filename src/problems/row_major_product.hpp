#pragma once

#include <cblas.h>

#include <bilevel/space/space.hpp>

namespace bilevel::problems {

enum class Flipped { no, yes };

/// C = op(A)·op(B) + keep·C, C of m × n with k products each; rows `…_row` apart.
inline void multiply(Flipped a_is, Flipped b_is, Index m, Index n, Index k, const double* a, Index a_row,
                     const double* b, Index b_row, double keep, double* c, Index c_row) {
  cblas_dgemm(CblasRowMajor, a_is == Flipped::yes ? CblasTrans : CblasNoTrans,
              b_is == Flipped::yes ? CblasTrans : CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1, a, static_cast<int>(a_row), b, static_cast<int>(b_row), keep, c,
              static_cast<int>(c_row));
}

}  // namespace bilevel::problems
