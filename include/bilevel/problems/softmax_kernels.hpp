#pragma once

#include <cstddef>
#include <vector>

#include <bilevel/problems/sparse_kernels.hpp>

/// The passes of a multinomial model. Coefficients are one row for each column of X and one number for each
/// class in it: u[j·classes + c]; margins m_i = x_i·u, probabilities p_i = softmax(m_i), both rows × classes,
/// row-major. A dense X holds its column of ones itself; a sparse one implies it, and its coefficients have
/// columns + 1 rows. Labels are classes, counted from 0; null weights are ones, and a row of weight zero adds
/// nothing. Nothing is allocated once the workspace is made; results do not depend on the number of threads.
namespace bilevel::problems::kernels {

/// Scratch for one matrix and number of classes. A dense X is read once in each pass. A sparse one is held a
/// second time, by columns, so that its sums need no private copies of all coefficients: each pass reads X,
/// then that copy.
struct SoftmaxWorkspace {
  SoftmaxWorkspace(const View& view, Index classes);
  SoftmaxWorkspace(const SparseView& view, Index classes);

  std::size_t bytes() const;
  void require(Index classes) const;  ///< throws InvalidInput where it was made for another number of classes

  Index classes;
  Index stride;  ///< dense: of a class's coefficients; sparse: of a row of classes
  Index rows_in_chunk = 1, chunks = 0;
  /// Roundings in a row on the way of one term through a margin, and through a row's sum over the classes and
  /// the sum over the rows.
  double margin_depth = 0, sum_depth = 0;
  Index argument_count = 0, sums_count = 0, slopes_count = 0;
  Buffer argument;  ///< coefficients in the layout of the loops
  Buffer sums;      ///< for each chunk: dense: classes × stride; sparse: stride, of the intercepts
  Buffer values;    ///< one for each chunk
  Buffer blocks;    ///< for each chunk, margins and probabilities of a block of rows
  Buffer slopes;    ///< sparse: rows × stride
  /// X by columns, and columns in pieces of about as many entries
  std::vector<int> column_starts, rows_of, pieces;
  std::vector<double> column_values;

 private:
  void cut(Index rows, Index most_chunks);
};

/// Σ w_i·(log Σ_c exp m_ic − m_i,y_i). Where not null: gradient = Xᵀ[w(p − e_y)], probabilities = p.
double softmax_value_with_gradient(const View& view, Index classes, const double* u, const int* labels,
                                   const double* weights, double* gradient, double* probabilities,
                                   SoftmaxWorkspace& workspace);
double softmax_value_with_gradient(const SparseView& view, Index classes, const double* u, const int* labels,
                                   const double* weights, double* gradient, double* probabilities,
                                   SoftmaxWorkspace& workspace);

/// out = Xᵀ[w(p∘z − p(p·z))] with z = X v: the Hessian's product.
void softmax_product(const View& view, Index classes, const double* probabilities, const double* weights,
                     const double* v, double* out, SoftmaxWorkspace& workspace);
void softmax_product(const SparseView& view, Index classes, const double* probabilities,
                     const double* weights, const double* v, double* out, SoftmaxWorkspace& workspace);

/// margins = X u.
void softmax_margins(const View& view, Index classes, const double* u, double* margins,
                     SoftmaxWorkspace& workspace);
void softmax_margins(const SparseView& view, Index classes, const double* u, double* margins,
                     SoftmaxWorkspace& workspace);

/// out_jc = Σ w_i·p_ic(1 − p_ic)·x_ij²: the Hessian's diagonal.
void softmax_diagonal(const View& view, Index classes, const double* probabilities, const double* weights,
                      double* out, SoftmaxWorkspace& workspace);
void softmax_diagonal(const SparseView& view, Index classes, const double* probabilities,
                      const double* weights, double* out, SoftmaxWorkspace& workspace);

/// out_i = (p_i − e_{y_i})·(x_i·V): what the gradient of row i's own loss has in common with V.
void softmax_row_dots(const View& view, Index classes, const double* v, const double* probabilities,
                      const int* labels, double* out, SoftmaxWorkspace& workspace);
void softmax_row_dots(const SparseView& view, Index classes, const double* v, const double* probabilities,
                      const int* labels, double* out, SoftmaxWorkspace& workspace);

}  // namespace bilevel::problems::kernels
