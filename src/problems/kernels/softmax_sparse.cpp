#include <bilevel/problems/softmax_kernels.hpp>

#include <algorithm>

#include "pieces.hpp"

namespace bilevel::problems::kernels {
SoftmaxWorkspace::SoftmaxWorkspace(const SparseView& view, Index count)
    : classes(count), stride(padded(classes)) {
  cut(view.rows, 64);
  argument_count = (view.columns + 1) * stride;
  sums_count = chunks * stride;
  slopes_count = view.rows * stride;
  argument = allocate(argument_count);
  sums = allocate(sums_count);
  values = allocate(chunks);
  blocks = allocate(softmax_block_size(classes) * chunks);
  slopes = allocate(slopes_count);

  const Index entries = view.entries();
  column_starts.assign(at(view.columns + 1), 0);
  rows_of.resize(at(entries));
  column_values.resize(at(entries));
  for (Index k = 0; k < entries; ++k) ++column_starts[at(view.columns_of[view.starts[0] + k]) + 1];
  int longest_column = 0, longest_row = 0;
  for (Index j = 0; j < view.columns; ++j) {
    longest_column = std::max(longest_column, column_starts[at(j + 1)]);
    column_starts[at(j + 1)] += column_starts[at(j)];
  }
  std::vector<int> next(column_starts);
  for (Index i = 0; i < view.rows; ++i) {
    longest_row = std::max(longest_row, view.starts[i + 1] - view.starts[i]);
    for (int k = view.starts[i]; k < view.starts[i + 1]; ++k) {
      const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(view.columns_of[k])]++);
      rows_of[place] = static_cast<int>(i);
      column_values[place] = view.values[k];
    }
  }
  // A column costs its entries and the writing of its sum.
  const Index target = divide_up(entries + view.columns, 256);
  pieces.push_back(0);
  Index begun = 0;
  for (Index j = 0; j < view.columns; ++j)
    if (column_starts[at(j + 1)] + j + 1 - begun >= target || j + 1 == view.columns) {
      pieces.push_back(static_cast<int>(j + 1));
      begun = column_starts[at(j + 1)] + j + 1;
    }

  margin_depth = static_cast<double>(longest_row + 2);
  // A column's entries one by one, or the intercept's: the rows of a chunk, the chunks; 1/n.
  sum_depth = static_cast<double>(std::max<Index>(longest_column, rows_in_chunk + chunks) + 2 + classes);
}

namespace {

const double* pad(const SparseView& view, const double* u, SoftmaxWorkspace& w) {
  constexpr Index rows_in_piece = 1024;
  const Index rows = view.columns + 1;
  for_each_piece(divide_up(rows, rows_in_piece), rows * w.classes / 4, [&](Index piece) {
    for (Index j = piece * rows_in_piece; j < std::min(rows, (piece + 1) * rows_in_piece); ++j)
      std::copy_n(u + j * w.classes, w.classes, w.argument.get() + j * w.stride);
  });
  return w.argument.get();
}

/// work(first row, rows, block, chunk) for every block of every chunk; where `u` is given, its margins are
/// in the block.
template <class Work>
void over_blocks(const SparseView& view, const double* u, SoftmaxWorkspace& w, Work work) {
  for_each_piece(w.chunks, (view.entries() + view.rows) * w.classes, [&](Index chunk) {
    double* block = w.blocks.get() + chunk * softmax_block_size(w.classes);
    const Index last = std::min(view.rows, (chunk + 1) * w.rows_in_chunk);
    w.values[at(chunk)] = 0;
    std::fill_n(w.sums.get() + chunk * w.stride, w.stride, 0.0);
    for (Index first = chunk * w.rows_in_chunk; first < last; first += rows_in_softmax_block) {
      const Index rows = std::min<Index>(rows_in_softmax_block, last - first);
      if (u)
        table().softmax_sparse_margins(view.starts, view.columns_of, view.values, first, rows, view.columns,
                                       w.classes, u, w.stride, block);
      work(first, rows, block, chunk);
    }
  });
}

/// Keeps what is summed over the rows, and adds it up for the intercept.
void keep(const double* block, Index first, Index rows, Index chunk, SoftmaxWorkspace& w) {
  double* slopes = w.slopes.get() + first * w.stride;
  table().softmax_copy_rows(block, rows, w.classes, slopes, w.stride);
  double* sum = w.sums.get() + chunk * w.stride;
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < w.classes; ++c) sum[c] += slopes[r * w.stride + c];
}

void add_up(const SparseView& view, Table::SparseSums sums, SoftmaxWorkspace& w, double* out) {
  const Index pieces = static_cast<Index>(w.pieces.size()) - 1;
  for_each_piece(pieces, (view.entries() + view.columns) * w.classes, [&](Index piece) {
    sums(w.column_starts.data(), w.rows_of.data(), w.column_values.data(), w.pieces[at(piece)],
         w.pieces[at(piece + 1)], w.classes, w.slopes.get(), w.stride, out);
  });
  double* intercept = out + view.columns * w.classes;
  std::fill_n(intercept, w.classes, 0.0);
  for (Index chunk = 0; chunk < w.chunks; ++chunk)
    for (Index c = 0; c < w.classes; ++c) intercept[c] += w.sums[at(chunk * w.stride + c)];
}

}  // namespace

double softmax_value_with_gradient(const SparseView& view, Index classes, const double* u, const int* labels,
                                   const double* weights, double* gradient, double* probabilities,
                                   SoftmaxWorkspace& w) {
  w.require(classes);
  over_blocks(view, pad(view, u, w), w, [&](Index first, Index rows, double* block, Index chunk) {
    w.values[at(chunk)] +=
        table().softmax_rows(block, rows, w.classes, labels + first, weights ? weights + first : nullptr,
                             probabilities ? probabilities + first * w.classes : nullptr);
    if (gradient) keep(block, first, rows, chunk, w);
  });
  if (gradient) add_up(view, table().softmax_sparse_sums, w, gradient);
  double value = 0;
  for (Index chunk = 0; chunk < w.chunks; ++chunk) value += w.values[at(chunk)];
  return value;
}

void softmax_product(const SparseView& view, Index classes, const double* probabilities,
                     const double* weights, const double* v, double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  over_blocks(view, pad(view, v, w), w, [&](Index first, Index rows, double* block, Index chunk) {
    table().softmax_curve(block, rows, w.classes, probabilities + first * w.classes,
                          weights ? weights + first : nullptr);
    keep(block, first, rows, chunk, w);
  });
  add_up(view, table().softmax_sparse_sums, w, out);
}

void softmax_diagonal(const SparseView& view, Index classes, const double* probabilities,
                      const double* weights, double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  over_blocks(view, nullptr, w, [&](Index first, Index rows, double* block, Index chunk) {
    table().softmax_variances(block, rows, w.classes, probabilities + first * w.classes,
                              weights ? weights + first : nullptr);
    keep(block, first, rows, chunk, w);
  });
  add_up(view, table().softmax_sparse_square_sums, w, out);
}

void softmax_margins(const SparseView& view, Index classes, const double* u, double* out,
                     SoftmaxWorkspace& w) {
  w.require(classes);
  over_blocks(view, pad(view, u, w), w, [&](Index first, Index rows, double* block, Index) {
    table().softmax_copy_rows(block, rows, w.classes, out + first * w.classes, w.classes);
  });
}

void softmax_row_dots(const SparseView& view, Index classes, const double* v, const double* probabilities,
                      const int* labels, double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  over_blocks(view, pad(view, v, w), w, [&](Index first, Index rows, double* block, Index) {
    table().softmax_dots(block, rows, w.classes, probabilities + first * w.classes, labels + first,
                         out + first);
  });
}

}  // namespace bilevel::problems::kernels
