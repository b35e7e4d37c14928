#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include <bilevel/problems/loss.hpp>
#include <bilevel/space/space.hpp>

/// The loops of a generalised linear model, Σ w_i·loss(x_i·φ + o_i, y_i) over the rows of a dense X. Each
/// reads X once: the margins of a block of rows, then what the block adds to the sum while it is still in
/// cache.
///
/// Rows are cut into chunks whose number depends on the shape alone, every chunk has its own partial
/// sum, and the sums are added in the order of the chunks: results are bit-identical whatever the
/// number of threads. They differ in the last digits from one Target to another.
namespace bilevel::problems::kernels {

/// What the loops were compiled for. The best one that this processor runs is taken unless the
/// environment variable BILEVEL_KERNELS names another; tests choose by `use`.
enum class Target { baseline, avx2, avx512 };

std::string_view name(Target target);
bool available(Target target);  ///< compiled in, and this processor runs it
Target chosen();
void use(Target target);  ///< throws InvalidInput unless available; not for use while a kernel runs

/// Threads of the calling thread's later calls; 1 where the library was built without OpenMP.
int threads();
void set_threads(int count);

/// Rows start at multiples of 64 bytes and their padding is zero, so no loop has a ragged end.
inline constexpr Index row_multiple = 8;
constexpr Index padded(Index columns) {
  return (columns + row_multiple - 1) / row_multiple * row_multiple;
}

/// A row-major matrix in storage that follows the rule above: x[i·stride + j], stride = padded(columns).
struct View {
  const double* x = nullptr;
  Index rows = 0;
  Index columns = 0;
  Index stride = 0;
};

/// How the sums of a matrix of this shape are cut up; the rounding bounds follow from it.
struct Chunking {
  Chunking(Index rows, Index stride);

  Index rows_in_block;  ///< multiplied by X, then by Xᵀ, while in the cache
  Index rows_in_chunk;
  Index chunks;
  Index rows_in_gram_chunk;
  Index gram_chunks;

  /// Roundings in a row on the way of one term through margins x_i·v, through a sum over the rows of
  /// X, and through one element of XᵀDX, for the narrowest target, without fused operations.
  double margin_depth() const;
  double sum_depth() const;
  double gram_depth() const;

 private:
  Index stride_;
};

struct Release {
  void operator()(double* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<double[], Release>;
/// Storage at a multiple of 64 bytes, filled with zeros.
Buffer allocate(Index count);

/// Scratch for one matrix shape, made once: the functions below allocate nothing with it, except the
/// first `gram` (and the first after a rise of the number of threads).
struct Workspace {
  explicit Workspace(const View& view);

  std::size_t bytes() const;

  Chunking chunking;
  Index stride;
  Buffer argument;   ///< φ or v with its padding
  Buffer sums;       ///< one padded row for each chunk
  Buffer values;     ///< one for each chunk
  Buffer gram_sums;  ///< stride × stride for each gram chunk
  Buffer packed;     ///< for each thread, a block of rows in panels
  Index packed_threads = 0;
};

/// Σ w_i·loss(m_i, y_i) with m_i = x_i·φ + o_i. Where not null: gradient (columns) = Σ w_i·loss′·x_i,
/// curvature (rows) = w_i·loss″.
double value_with_gradient(Loss loss, const View& view, const double* phi, const Rows& rows, double* gradient,
                           double* curvature, Workspace& workspace);
/// curvature (rows) = w_i·loss″(m_i, y_i).
void curvature(Loss loss, const View& view, const double* phi, const Rows& rows, double* curvature,
               Workspace& workspace);
/// margins (rows) = x_i·φ + o_i; null offsets are zeros.
void margins(const View& view, const double* phi, const double* offsets, double* margins,
             Workspace& workspace);
/// out (columns) = Xᵀ D X v with D = diag(weights); null weights are ones.
void product(const View& view, const double* weights, const double* v, double* out, Workspace& workspace);
/// out (columns × columns, both triangles) = Xᵀ D X, D ≥ 0.
void gram(const View& view, const double* weights, double* out, Workspace& workspace);
/// out (columns) = the diagonal of Xᵀ D X.
void gram_diagonal(const View& view, const double* weights, double* out, Workspace& workspace);

/// out_i = exp(x_i), within 2 units in the last place. Below −708 the result is 0: the values near and
/// below the smallest normal number are flushed.
void exponential(const double* x, double* out, Index count);
/// out_i = log(1 + exp(−|x_i|)), within 2 units in the last place; 0 for |x_i| > 708.
void softplus_of_minus_abs(const double* x, double* out, Index count);

}  // namespace bilevel::problems::kernels
