#pragma once

#include <cblas.h>

#include <bilevel/networks/architecture.hpp>

#include "threads/one_blas_thread.hpp"

namespace bilevel::networks {

enum class Transposed { no, yes };

/// C = scale·op(A)·op(B) + keep·C, m × n with k products each; columns without gaps unless said.
inline void gemm(Transposed a_is, Transposed b_is, Index m, Index n, Index k, float scale, const float* a,
                 Index a_rows, const float* b, Index b_rows, float keep, float* c, Index c_rows) {
  cblas_sgemm(CblasColMajor, a_is == Transposed::yes ? CblasTrans : CblasNoTrans,
              b_is == Transposed::yes ? CblasTrans : CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), scale, a, static_cast<int>(a_rows), b, static_cast<int>(b_rows), keep, c,
              static_cast<int>(c_rows));
}
inline void gemm(Transposed a_is, Transposed b_is, Index m, Index n, Index k, double scale, const double* a,
                 Index a_rows, const double* b, Index b_rows, double keep, double* c, Index c_rows) {
  cblas_dgemm(CblasColMajor, a_is == Transposed::yes ? CblasTrans : CblasNoTrans,
              b_is == Transposed::yes ? CblasTrans : CblasNoTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), scale, a, static_cast<int>(a_rows), b, static_cast<int>(b_rows), keep, c,
              static_cast<int>(c_rows));
}

}  // namespace bilevel::networks
