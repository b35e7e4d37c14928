#pragma once

#include <bilevel/problems/loss.hpp>

// What one target offers: loops over one chunk of rows. Only raw pointers cross this border, so that
// no inline function is compiled for a wide target and kept by the linker for everyone.
namespace bilevel::problems::kernels {

inline constexpr long max_rows_in_block = 64;
inline constexpr long rows_in_packed_block = 64;
inline constexpr long rows_in_softmax_block = 32;
inline constexpr long gram_band = 64;  // columns of XᵀDX that one piece of work computes

struct Table {
  // `data` holds all rows, those of x are [first_row, first_row + rows) of them. Adds nothing to what it is
  // given: sums start at zero. `gradient` and `curvature` may be null.
  using ValueWithGradient = double (*)(const double* x, long rows, long stride, long block, const double* phi,
                                       const Rows& data, long first_row, double* gradient, double* curvature);
  using Curvature = void (*)(const double* x, long rows, long stride, const double* phi, const Rows& data,
                             long first_row, double* curvature);
  using ApplyLoss = double (*)(double* margins, const Rows& data, long first, long rows, double* curvature);
  ValueWithGradient value_with_gradient[losses];  // by Loss
  Curvature curvature[losses];
  ApplyLoss apply_loss[losses];
  void (*margins)(const double* x, long rows, long stride, const double* phi, const double* offsets,
                  double* out);
  void (*product)(const double* x, long rows, long stride, long block, const double* weights, const double* v,
                  double* out);
  // Rows [8·first_panel, 8·last_panel) of the upper triangle, into out (stride × stride); `packed` has
  // room for stride·(rows_in_packed_block + 1).
  void (*gram)(const double* x, long rows, long stride, const double* weights, long first_panel,
               long last_panel, double* packed, double* out);
  void (*gram_diagonal)(const double* x, long rows, long stride, const double* weights, double* out);

  // The softmax model. Coefficients and sums over the rows lie class by class here (classes × stride);
  // `block` has room for 2·classes·rows_in_softmax_block, at a multiple of 64 bytes.
  double (*softmax_value_with_gradient)(const double* x, long rows, long stride, long classes,
                                        const double* u, const int* labels, const double* weights,
                                        double* gradient, double* probabilities, double* block);
  void (*softmax_product)(const double* x, long rows, long stride, long classes, const double* probabilities,
                          const double* weights, const double* v, double* out, double* block);
  void (*softmax_diagonal)(const double* x, long rows, long stride, long classes, const double* probabilities,
                           const double* weights, double* out, double* block);
  void (*softmax_margins)(const double* x, long rows, long stride, long classes, const double* u,
                          double* margins, double* block);
  void (*softmax_row_dots)(const double* x, long rows, long stride, long classes, const double* v,
                           const double* probabilities, const int* labels, double* out, double* block);
  // The rows of one block: margins or z become what is summed over the rows.
  double (*softmax_rows)(double* block, long rows, long classes, const int* labels, const double* weights,
                         double* probabilities);
  void (*softmax_curve)(double* block, long rows, long classes, const double* probabilities,
                        const double* weights);
  void (*softmax_variances)(double* block, long rows, long classes, const double* probabilities,
                            const double* weights);
  void (*softmax_dots)(const double* block, long rows, long classes, const double* probabilities,
                       const int* labels, double* out);
  void (*softmax_copy_rows)(const double* block, long rows, long classes, double* out, long stride);
  // Sparse X: u (columns + 1 rows) and slopes (one row for each of X) have padded rows of classes.
  void (*softmax_sparse_margins)(const int* starts, const int* columns_of, const double* values, long first,
                                 long rows, long columns, long classes, const double* u, long stride,
                                 double* block);
  using SparseSums = void (*)(const int* starts, const int* rows_of, const double* values, long first,
                              long last, long classes, const double* slopes, long stride, double* out);
  SparseSums softmax_sparse_sums;
  SparseSums softmax_sparse_square_sums;

  void (*exponential)(const double* x, double* out, long count);
  void (*softplus_of_minus_abs)(const double* x, double* out, long count);
};

extern const Table baseline_table;
#ifdef BILEVEL_X86_KERNELS
extern const Table avx2_table;
extern const Table avx512_table;
#endif

}  // namespace bilevel::problems::kernels
