#include <bilevel/problems/softmax_kernels.hpp>

#include <algorithm>

#include <bilevel/outcome/violations.hpp>

#include "pieces.hpp"

namespace bilevel::problems::kernels {
void SoftmaxWorkspace::cut(Index rows, Index most_chunks) {
  const Index blocks = divide_up(rows, rows_in_softmax_block);
  rows_in_chunk_ = std::max<Index>(1, divide_up(blocks, most_chunks)) * rows_in_softmax_block;
  chunks_ = divide_up(rows, rows_in_chunk_);
}

SoftmaxWorkspace::SoftmaxWorkspace(const View& view, Index classes)
    : classes_(classes), stride_(view.stride) {
  // Partial sums of classes × stride stay below half of X.
  cut(view.rows, std::clamp<Index>(view.rows / (2 * classes), 2, 64));
  argument_count_ = classes * stride_;
  sums_count_ = classes * stride_ * chunks_;
  argument_ = allocate(argument_count_);
  sums_ = allocate(sums_count_);
  values_ = allocate(chunks_);
  blocks_ = allocate(softmax_block_size(classes) * chunks_);
  // A product, stride/2 additions in each lane of the narrowest target, its lanes, the panels of columns.
  margin_depth_ = static_cast<double>(stride_ / 2 + 2 + divide_up(stride_, 256));
  // A product, the rows of a block, the blocks of a chunk (of eight rows at least), the chunks, 1/n.
  sum_depth_ = static_cast<double>(rows_in_softmax_block + rows_in_chunk_ / 8 + chunks_ + 2);
}

void SoftmaxWorkspace::require(Index classes) const {
  if (classes != classes_)
    throw InvalidInput(
        fmt::format("softmax: {} classes, but the workspace was made for {}", classes, classes_));
}

std::size_t SoftmaxWorkspace::bytes() const {
  const Index doubles = argument_count_ + sums_count_ + slopes_count_ +
                        chunks_ * (1 + softmax_block_size(classes_)) +
                        static_cast<Index>(column_values_.size());
  const std::size_t integers = column_starts_.size() + rows_of_.size() + pieces_.size();
  return static_cast<std::size_t>(doubles) * sizeof(double) + integers * sizeof(int);
}

struct SoftmaxLoops {
  /// Coefficients class by class.
  static const double* turn(const View& view, const double* u, SoftmaxWorkspace& w) {
    for (Index j = 0; j < view.columns; ++j)
      for (Index c = 0; c < w.classes_; ++c) w.argument_[at(c * w.stride_ + j)] = u[j * w.classes_ + c];
    return w.argument_.get();
  }

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  /// work(x, rows, first row, chunk, block) for every chunk.
  template <class Work>
  static void over_chunks(const View& view, const SoftmaxWorkspace& w, Work work) {
    for_each_piece(w.chunks_, view.rows * view.stride * w.classes_, [&](Index chunk) {
      const Index first = chunk * w.rows_in_chunk_;
      work(view.x + first * view.stride, std::min(w.rows_in_chunk_, view.rows - first), first, chunk,
           w.blocks_.get() + chunk * softmax_block_size(w.classes_));
    });
  }

  static double* sum(const SoftmaxWorkspace& w, Index chunk) {
    return w.sums_.get() + chunk * w.classes_ * w.stride_;
  }

  /// The chunks' sums, in their order, turned back: out[j·classes + c].
  static void add_up(const View& view, SoftmaxWorkspace& w, double* out) {
    constexpr Index columns_in_piece = 64;
    for_each_piece(divide_up(view.columns, columns_in_piece), w.classes_ * w.stride_ * w.chunks_,
                   [&](Index piece) {
                     const Index first = piece * columns_in_piece,
                                 last = std::min(view.columns, first + columns_in_piece);
                     double total[columns_in_piece];
                     for (Index c = 0; c < w.classes_; ++c) {
                       std::fill_n(total, columns_in_piece, 0.0);
                       for (Index chunk = 0; chunk < w.chunks_; ++chunk) {
                         const double* part = sum(w, chunk) + c * w.stride_;
                         for (Index j = first; j < last; ++j) total[j - first] += part[j];
                       }
                       for (Index j = first; j < last; ++j) out[j * w.classes_ + c] = total[j - first];
                     }
                   });
  }

  static double value_with_gradient(const View& view, const double* u, const int* labels,
                                    const double* weights, double* gradient, double* probabilities,
                                    SoftmaxWorkspace& w) {
    const double* argument = turn(view, u, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk, double* block) {
      w.values_[at(chunk)] = table().softmax_value_with_gradient(
          x, rows, view.stride, w.classes_, argument, labels + first, weights ? weights + first : nullptr,
          gradient ? sum(w, chunk) : nullptr, probabilities ? probabilities + first * w.classes_ : nullptr,
          block);
    });
    if (gradient) add_up(view, w, gradient);
    double value = 0;
    for (Index chunk = 0; chunk < w.chunks_; ++chunk) value += w.values_[at(chunk)];
    return value;
  }

  static void product(const View& view, const double* probabilities, const double* weights, const double* v,
                      double* out, SoftmaxWorkspace& w) {
    const double* argument = turn(view, v, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk, double* block) {
      table().softmax_product(x, rows, view.stride, w.classes_, probabilities + first * w.classes_,
                              weights ? weights + first : nullptr, argument, sum(w, chunk), block);
    });
    add_up(view, w, out);
  }

  static void diagonal(const View& view, const double* probabilities, const double* weights, double* out,
                       SoftmaxWorkspace& w) {
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk, double* block) {
      table().softmax_diagonal(x, rows, view.stride, w.classes_, probabilities + first * w.classes_,
                               weights ? weights + first : nullptr, sum(w, chunk), block);
    });
    add_up(view, w, out);
  }

  static void margins(const View& view, const double* u, double* out, SoftmaxWorkspace& w) {
    const double* argument = turn(view, u, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index, double* block) {
      table().softmax_margins(x, rows, view.stride, w.classes_, argument, out + first * w.classes_, block);
    });
  }

  static void row_dots(const View& view, const double* v, const double* probabilities, const int* labels,
                       double* out, SoftmaxWorkspace& w) {
    const double* argument = turn(view, v, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index, double* block) {
      table().softmax_row_dots(x, rows, view.stride, w.classes_, argument, probabilities + first * w.classes_,
                               labels + first, out + first, block);
    });
  }
};

double softmax_value_with_gradient(const View& view, Index classes, const double* u, const int* labels,
                                   const double* weights, double* gradient, double* probabilities,
                                   SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  return SoftmaxLoops::value_with_gradient(view, u, labels, weights, gradient, probabilities, workspace);
}
void softmax_product(const View& view, Index classes, const double* probabilities, const double* weights,
                     const double* v, double* out, SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SoftmaxLoops::product(view, probabilities, weights, v, out, workspace);
}
void softmax_margins(const View& view, Index classes, const double* u, double* margins,
                     SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SoftmaxLoops::margins(view, u, margins, workspace);
}
void softmax_diagonal(const View& view, Index classes, const double* probabilities, const double* weights,
                      double* out, SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SoftmaxLoops::diagonal(view, probabilities, weights, out, workspace);
}
void softmax_row_dots(const View& view, Index classes, const double* v, const double* probabilities,
                      const int* labels, double* out, SoftmaxWorkspace& workspace) {
  workspace.require(classes);
  SoftmaxLoops::row_dots(view, v, probabilities, labels, out, workspace);
}

}  // namespace bilevel::problems::kernels
