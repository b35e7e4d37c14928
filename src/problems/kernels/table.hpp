#pragma once

// What one target offers: loops over one chunk of rows. Only raw pointers cross this border, so that
// no inline function is compiled for a wide target and kept by the linker for everyone.
namespace bilevel::problems::kernels {

inline constexpr long max_rows_in_block = 64;
inline constexpr long rows_in_packed_block = 64;
inline constexpr long gram_band = 64;  // columns of XᵀDX that one piece of work computes

struct Table {
  // Adds nothing to what it is given: sums start at zero. `gradient` and `curvature` may be null.
  using ValueWithGradient = double (*)(const double* x, long rows, long stride, long block, const double* phi,
                                       const double* labels, double* gradient, double* curvature);
  using Curvature = void (*)(const double* x, long rows, long stride, const double* phi, const double* labels,
                             double* curvature);
  ValueWithGradient value_with_gradient[2];  // by Loss
  Curvature curvature[2];
  void (*product)(const double* x, long rows, long stride, long block, const double* weights, const double* v,
                  double* out);
  // Rows [8·first_panel, 8·last_panel) of the upper triangle, into out (stride × stride); `packed` has
  // room for stride·(rows_in_packed_block + 1).
  void (*gram)(const double* x, long rows, long stride, const double* weights, long first_panel,
               long last_panel, double* packed, double* out);
  void (*gram_diagonal)(const double* x, long rows, long stride, const double* weights, double* out);
  void (*exponential)(const double* x, double* out, long count);
  void (*softplus_of_minus_abs)(const double* x, double* out, long count);
};

extern const Table baseline_table;
#ifdef BILEVEL_X86_KERNELS
extern const Table avx2_table;
extern const Table avx512_table;
#endif

}  // namespace bilevel::problems::kernels
