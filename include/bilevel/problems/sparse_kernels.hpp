#pragma once

#include <cstddef>

#include <bilevel/problems/kernels.hpp>

/// The passes of kernels.hpp over sparse rows. The same promises: X is read once in each, nothing is
/// allocated once the workspace is made, results do not depend on the number of threads.
namespace bilevel::problems::kernels {

/// Rows one after the other: row i holds values[k] in column columns_of[k] for starts[i] ≤ k < starts[i+1],
/// columns strictly ascending within a row. A last column of ones is implied: vectors of coefficients have
/// columns + 1 elements, the last one is the intercept's.
struct SparseView {
  const int* starts = nullptr;  ///< rows + 1 offsets into columns_of and values; the first need not be 0
  const int* columns_of = nullptr;
  const double* values = nullptr;
  Index rows = 0;
  Index columns = 0;

  Index entries() const { return rows == 0 ? 0 : Index{starts[rows]} - starts[0]; }
};

/// How the sums over sparse rows of this shape are cut up. The partial sums stay below half of the bytes of
/// X, except that there are always two where there are two rows or more.
struct SparseChunking {
  explicit SparseChunking(const SparseView& view);

  Index rows_in_chunk;
  Index chunks;
  Index rows_in_gram_chunk;
  Index gram_chunks;
  Index gram_bands;  ///< of columns of XᵀDX, for each chunk

  /// Roundings in a row on the way of one term through margins x_i·v, through a sum over the rows, and
  /// through one element of XᵀDX.
  double margin_depth() const;
  double sum_depth() const;
  double gram_depth() const;

 private:
  Index longest_row_ = 0;
};

/// Scratch for one matrix. The first `gram` allocates its partial sums, nothing else does.
struct SparseWorkspace {
  explicit SparseWorkspace(const SparseView& view);

  std::size_t bytes() const;

  SparseChunking chunking;
  Index length;      ///< columns + 1
  Buffer sums;       ///< one vector for each chunk
  Buffer values;     ///< one for each chunk
  Buffer gram_sums;  ///< length × length for each gram chunk
};

/// As for a dense X; u, gradient, v and out have columns + 1 elements.
double value_with_gradient(Loss loss, const SparseView& view, const double* u, const Rows& rows,
                           double* gradient, double* curvature, SparseWorkspace& workspace);
void curvature(Loss loss, const SparseView& view, const double* u, const Rows& rows, double* curvature,
               SparseWorkspace& workspace);
void margins(const SparseView& view, const double* u, const double* offsets, double* margins,
             SparseWorkspace& workspace);
/// out = [X 1]ᵀ D [X 1] v with D = diag(weights); null weights are ones.
void product(const SparseView& view, const double* weights, const double* v, double* out,
             SparseWorkspace& workspace);
/// out ((columns + 1)², both triangles) = [X 1]ᵀ D [X 1]: for few columns.
void gram(const SparseView& view, const double* weights, double* out, SparseWorkspace& workspace);
void gram_diagonal(const SparseView& view, const double* weights, double* out, SparseWorkspace& workspace);

}  // namespace bilevel::problems::kernels
