#include <bilevel/problems/softmax_kernels.hpp>

#include <algorithm>

#include "pieces.hpp"

namespace bilevel::problems::kernels {
namespace {

std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

SoftmaxWorkspace::SoftmaxWorkspace(const SparseView& view, Index classes)
    : classes_(classes), stride_(padded(classes)) {
  cut(view.rows, 64);
  argument_count_ = (view.columns + 1) * stride_;
  sums_count_ = chunks_ * stride_;
  slopes_count_ = view.rows * stride_;
  argument_ = allocate(argument_count_);
  sums_ = allocate(sums_count_);
  values_ = allocate(chunks_);
  blocks_ = allocate(softmax_block_size(classes) * chunks_);
  slopes_ = allocate(slopes_count_);

  const Index entries = view.entries();
  column_starts_.assign(at(view.columns + 1), 0);
  rows_of_.resize(at(entries));
  column_values_.resize(at(entries));
  for (Index k = 0; k < entries; ++k) ++column_starts_[at(view.columns_of[view.starts[0] + k]) + 1];
  int longest_column = 0, longest_row = 0;
  for (Index j = 0; j < view.columns; ++j) {
    longest_column = std::max(longest_column, column_starts_[at(j + 1)]);
    column_starts_[at(j + 1)] += column_starts_[at(j)];
  }
  std::vector<int> next(column_starts_);
  for (Index i = 0; i < view.rows; ++i) {
    longest_row = std::max(longest_row, view.starts[i + 1] - view.starts[i]);
    for (int k = view.starts[i]; k < view.starts[i + 1]; ++k) {
      const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(view.columns_of[k])]++);
      rows_of_[place] = static_cast<int>(i);
      column_values_[place] = view.values[k];
    }
  }
  // A column costs its entries and the writing of its sum.
  const Index target = divide_up(entries + view.columns, 256);
  pieces_.push_back(0);
  Index begun = 0;
  for (Index j = 0; j < view.columns; ++j)
    if (column_starts_[at(j + 1)] + j + 1 - begun >= target || j + 1 == view.columns) {
      pieces_.push_back(static_cast<int>(j + 1));
      begun = column_starts_[at(j + 1)] + j + 1;
    }

  margin_depth_ = static_cast<double>(longest_row + 2);
  // A column's entries one by one, or the intercept's: the rows of a chunk, the chunks; 1/n.
  sum_depth_ = static_cast<double>(std::max<Index>(longest_column, rows_in_chunk_ + chunks_) + 2);
}

struct SparseSoftmaxLoops {
  static const double* pad(const SparseView& view, const double* u, SoftmaxWorkspace& w) {
    constexpr Index rows_in_piece = 1024;
    const Index rows = view.columns + 1;
    for_each_piece(divide_up(rows, rows_in_piece), rows * w.classes_ / 4, [&](Index piece) {
      for (Index j = piece * rows_in_piece; j < std::min(rows, (piece + 1) * rows_in_piece); ++j)
        std::copy_n(u + j * w.classes_, w.classes_, w.argument_.get() + j * w.stride_);
    });
    return w.argument_.get();
  }

  /// work(first row, rows, block, chunk) for every block of every chunk; where `u` is given, its margins are
  /// in the block.
  template <class Work>
  static void over_blocks(const SparseView& view, const double* u, SoftmaxWorkspace& w, Work work) {
    for_each_piece(w.chunks_, (view.entries() + view.rows) * w.classes_, [&](Index chunk) {
      double* block = w.blocks_.get() + chunk * softmax_block_size(w.classes_);
      const Index last = std::min(view.rows, (chunk + 1) * w.rows_in_chunk_);
      w.values_[at(chunk)] = 0;
      std::fill_n(w.sums_.get() + chunk * w.stride_, w.stride_, 0.0);
      for (Index first = chunk * w.rows_in_chunk_; first < last; first += rows_in_softmax_block) {
        const Index rows = std::min<Index>(rows_in_softmax_block, last - first);
        if (u)
          table().softmax_sparse_margins(view.starts, view.columns_of, view.values, first, rows, view.columns,
                                         w.classes_, u, w.stride_, block);
        work(first, rows, block, chunk);
      }
    });
  }

  /// Keeps what is summed over the rows, and adds it up for the intercept.
  static void keep(const double* block, Index first, Index rows, Index chunk, SoftmaxWorkspace& w) {
    double* slopes = w.slopes_.get() + first * w.stride_;
    table().softmax_copy_rows(block, rows, w.classes_, slopes, w.stride_);
    double* sum = w.sums_.get() + chunk * w.stride_;
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < w.classes_; ++c) sum[c] += slopes[r * w.stride_ + c];
  }

  static void add_up(const SparseView& view, Table::SparseSums sums, SoftmaxWorkspace& w, double* out) {
    const Index pieces = static_cast<Index>(w.pieces_.size()) - 1;
    for_each_piece(pieces, (view.entries() + view.columns) * w.classes_, [&](Index piece) {
      sums(w.column_starts_.data(), w.rows_of_.data(), w.column_values_.data(), w.pieces_[at(piece)],
           w.pieces_[at(piece + 1)], w.classes_, w.slopes_.get(), w.stride_, out);
    });
    double* intercept = out + view.columns * w.classes_;
    std::fill_n(intercept, w.classes_, 0.0);
    for (Index chunk = 0; chunk < w.chunks_; ++chunk)
      for (Index c = 0; c < w.classes_; ++c) intercept[c] += w.sums_[at(chunk * w.stride_ + c)];
  }

  static double value_with_gradient(const SparseView& view, const double* u, const int* labels,
                                    const double* weights, double* gradient, double* probabilities,
                                    SoftmaxWorkspace& w) {
    over_blocks(view, pad(view, u, w), w, [&](Index first, Index rows, double* block, Index chunk) {
      w.values_[at(chunk)] +=
          table().softmax_rows(block, rows, w.classes_, labels + first, weights ? weights + first : nullptr,
                               probabilities ? probabilities + first * w.classes_ : nullptr);
      if (gradient) keep(block, first, rows, chunk, w);
    });
    if (gradient) add_up(view, table().softmax_sparse_sums, w, gradient);
    double value = 0;
    for (Index chunk = 0; chunk < w.chunks_; ++chunk) value += w.values_[at(chunk)];
    return value;
  }

  static void product(const SparseView& view, const double* probabilities, const double* weights,
                      const double* v, double* out, SoftmaxWorkspace& w) {
    over_blocks(view, pad(view, v, w), w, [&](Index first, Index rows, double* block, Index chunk) {
      table().softmax_curve(block, rows, w.classes_, probabilities + first * w.classes_,
                            weights ? weights + first : nullptr);
      keep(block, first, rows, chunk, w);
    });
    add_up(view, table().softmax_sparse_sums, w, out);
  }

  static void diagonal(const SparseView& view, const double* probabilities, const double* weights,
                       double* out, SoftmaxWorkspace& w) {
    over_blocks(view, nullptr, w, [&](Index first, Index rows, double* block, Index chunk) {
      table().softmax_variances(block, rows, w.classes_, probabilities + first * w.classes_,
                                weights ? weights + first : nullptr);
      keep(block, first, rows, chunk, w);
    });
    add_up(view, table().softmax_sparse_square_sums, w, out);
  }

  static void margins(const SparseView& view, const double* u, double* out, SoftmaxWorkspace& w) {
    over_blocks(view, pad(view, u, w), w, [&](Index first, Index rows, double* block, Index) {
      table().softmax_copy_rows(block, rows, w.classes_, out + first * w.classes_, w.classes_);
    });
  }

  static void row_dots(const SparseView& view, const double* v, const double* probabilities,
                       const int* labels, double* out, SoftmaxWorkspace& w) {
    over_blocks(view, pad(view, v, w), w, [&](Index first, Index rows, double* block, Index) {
      table().softmax_dots(block, rows, w.classes_, probabilities + first * w.classes_, labels + first,
                           out + first);
    });
  }
};

double softmax_value_with_gradient(const SparseView& view, Index classes, const double* u, const int* labels,
                                   const double* weights, double* gradient, double* probabilities,
                                   SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  return SparseSoftmaxLoops::value_with_gradient(view, u, labels, weights, gradient, probabilities,
                                                 workspace);
}
void softmax_product(const SparseView& view, Index classes, const double* probabilities,
                     const double* weights, const double* v, double* out, SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SparseSoftmaxLoops::product(view, probabilities, weights, v, out, workspace);
}
void softmax_margins(const SparseView& view, Index classes, const double* u, double* margins,
                     SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SparseSoftmaxLoops::margins(view, u, margins, workspace);
}
void softmax_diagonal(const SparseView& view, Index classes, const double* probabilities,
                      const double* weights, double* out, SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SparseSoftmaxLoops::diagonal(view, probabilities, weights, out, workspace);
}
void softmax_row_dots(const SparseView& view, Index classes, const double* v, const double* probabilities,
                      const int* labels, double* out, SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SparseSoftmaxLoops::row_dots(view, v, probabilities, labels, out, workspace);
}

}  // namespace bilevel::problems::kernels
