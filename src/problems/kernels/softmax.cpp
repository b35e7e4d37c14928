#include <bilevel/problems/softmax_kernels.hpp>

#include <algorithm>

#include <bilevel/outcome/violations.hpp>

#include "pieces.hpp"

namespace bilevel::problems::kernels {

void SoftmaxWorkspace::cut(Index rows, Index most_chunks) {
  const Index count = divide_up(rows, rows_in_softmax_block);
  rows_in_chunk = std::max<Index>(1, divide_up(count, most_chunks)) * rows_in_softmax_block;
  chunks = divide_up(rows, rows_in_chunk);
}

SoftmaxWorkspace::SoftmaxWorkspace(const View& view, Index count) : classes(count), stride(view.stride) {
  // Partial sums of classes × stride stay below half of X.
  cut(view.rows, std::clamp<Index>(view.rows / (2 * classes), 2, 64));
  argument_count = classes * stride;
  sums_count = classes * stride * chunks;
  argument = allocate(argument_count);
  sums = allocate(sums_count);
  values = allocate(chunks);
  blocks = allocate(softmax_block_size(classes) * chunks);
  // A product, stride/2 additions in each lane of the narrowest target, its lanes, the panels of columns.
  margin_depth = static_cast<double>(stride / 2 + 2 + divide_up(stride, 256));
  // A product, the rows of a block, the blocks of a chunk (of eight rows at least), the chunks, 1/n.
  sum_depth = static_cast<double>(rows_in_softmax_block + rows_in_chunk / 8 + chunks + 2 + classes);
}

void SoftmaxWorkspace::require(Index count) const {
  if (count != classes)
    throw InvalidInput(fmt::format("softmax: {} classes, but the workspace was made for {}", count, classes));
}

std::size_t SoftmaxWorkspace::bytes() const {
  const Index doubles = argument_count + sums_count + slopes_count +
                        chunks * (1 + softmax_block_size(classes)) + static_cast<Index>(column_values.size());
  const std::size_t integers = column_starts.size() + rows_of.size() + pieces.size();
  return static_cast<std::size_t>(doubles) * sizeof(double) + integers * sizeof(int);
}

namespace {

/// Coefficients class by class.
const double* turn(const View& view, const double* u, SoftmaxWorkspace& w) {
  for (Index j = 0; j < view.columns; ++j)
    for (Index c = 0; c < w.classes; ++c) w.argument[at(c * w.stride + j)] = u[j * w.classes + c];
  return w.argument.get();
}

/// work(x, rows, first row, chunk, block) for every chunk.
template <class Work>
void over_chunks(const View& view, const SoftmaxWorkspace& w, Work work) {
  for_each_piece(w.chunks, view.rows * view.stride * w.classes, [&](Index chunk) {
    const Index first = chunk * w.rows_in_chunk;
    work(view.x + first * view.stride, std::min(w.rows_in_chunk, view.rows - first), first, chunk,
         w.blocks.get() + chunk * softmax_block_size(w.classes));
  });
}

double* sum_of(const SoftmaxWorkspace& w, Index chunk) {
  return w.sums.get() + chunk * w.classes * w.stride;
}

/// The chunks' sums, in their order, turned back: out[j·classes + c].
void add_up(const View& view, SoftmaxWorkspace& w, double* out) {
  constexpr Index columns_in_piece = 64;
  for_each_piece(
      divide_up(view.columns, columns_in_piece), w.classes * w.stride * w.chunks, [&](Index piece) {
        const Index first = piece * columns_in_piece, last = std::min(view.columns, first + columns_in_piece);
        double total[columns_in_piece];
        for (Index c = 0; c < w.classes; ++c) {
          std::fill_n(total, columns_in_piece, 0.0);
          for (Index chunk = 0; chunk < w.chunks; ++chunk) {
            const double* part = sum_of(w, chunk) + c * w.stride;
            for (Index j = first; j < last; ++j) total[j - first] += part[j];
          }
          for (Index j = first; j < last; ++j) out[j * w.classes + c] = total[j - first];
        }
      });
}

}  // namespace

double softmax_value_with_gradient(const View& view, Index classes, const double* u, const int* labels,
                                   const double* weights, double* gradient, double* probabilities,
                                   SoftmaxWorkspace& w) {
  w.require(classes);
  const double* argument = turn(view, u, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk, double* block) {
    w.values[at(chunk)] = table().softmax_value_with_gradient(
        x, rows, view.stride, w.classes, argument, labels + first, weights ? weights + first : nullptr,
        gradient ? sum_of(w, chunk) : nullptr, probabilities ? probabilities + first * w.classes : nullptr,
        block);
  });
  if (gradient) add_up(view, w, gradient);
  double value = 0;
  for (Index chunk = 0; chunk < w.chunks; ++chunk) value += w.values[at(chunk)];
  return value;
}

void softmax_product(const View& view, Index classes, const double* probabilities, const double* weights,
                     const double* v, double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  const double* argument = turn(view, v, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk, double* block) {
    table().softmax_product(x, rows, view.stride, w.classes, probabilities + first * w.classes,
                            weights ? weights + first : nullptr, argument, sum_of(w, chunk), block);
  });
  add_up(view, w, out);
}

void softmax_diagonal(const View& view, Index classes, const double* probabilities, const double* weights,
                      double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk, double* block) {
    table().softmax_diagonal(x, rows, view.stride, w.classes, probabilities + first * w.classes,
                             weights ? weights + first : nullptr, sum_of(w, chunk), block);
  });
  add_up(view, w, out);
}

void softmax_margins(const View& view, Index classes, const double* u, double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  const double* argument = turn(view, u, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index, double* block) {
    table().softmax_margins(x, rows, view.stride, w.classes, argument, out + first * w.classes, block);
  });
}

void softmax_row_dots(const View& view, Index classes, const double* v, const double* probabilities,
                      const int* labels, double* out, SoftmaxWorkspace& w) {
  w.require(classes);
  const double* argument = turn(view, v, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index, double* block) {
    table().softmax_row_dots(x, rows, view.stride, w.classes, argument, probabilities + first * w.classes,
                             labels + first, out + first, block);
  });
}

}  // namespace bilevel::problems::kernels
