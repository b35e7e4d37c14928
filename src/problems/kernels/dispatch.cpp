#include <bilevel/problems/kernels.hpp>

#include <algorithm>
#include <cmath>

#include "pieces.hpp"

namespace bilevel::problems::kernels {
namespace {

Index packed_size(Index stride) {
  return stride * (rows_in_packed_block + 1);
}

}  // namespace

Chunking::Chunking(Index rows, Index stride) : stride_(stride) {
  // A block is read again before the loads of the next one are due: a few KiB, see distance() in loops.inc.
  const Index row_bytes = std::max<Index>(stride, row_multiple) * 8;
  rows_in_block = std::clamp<Index>((Index{4096} / row_bytes) / 8 * 8, 8, max_rows_in_block);
  // At most 256 chunks; a chunk of 32 rows keeps the partial sums a small part of X.
  rows_in_chunk = std::max<Index>(32, divide_up(divide_up(rows, 256), 8) * 8);
  chunks = divide_up(rows, rows_in_chunk);
  // Partial sums of XᵀDX are whole matrices: up to 64 of them, within 64 MiB.
  const Index affordable = std::clamp<Index>((Index{1} << 23) / std::max<Index>(1, stride * stride), 1, 64);
  rows_in_gram_chunk =
      std::max<Index>(4 * rows_in_packed_block, divide_up(divide_up(rows, affordable), 8) * 8);
  gram_chunks = divide_up(rows, rows_in_gram_chunk);
}

// A product, stride/2 additions in each lane of the narrowest target, one over its two lanes.
double Chunking::margin_depth() const {
  return static_cast<double>(stride_ / 2 + 2);
}
// A product, the rows of a block, the blocks of a chunk, the chunks, the factor 1/n.
double Chunking::sum_depth() const {
  return static_cast<double>(rows_in_block + divide_up(rows_in_chunk, rows_in_block) + chunks + 2);
}
// √D twice, its products with x twice, their product; the rows of a packed block, the blocks, the chunks;
// 1/n.
double Chunking::gram_depth() const {
  return static_cast<double>(6 + rows_in_packed_block + divide_up(rows_in_gram_chunk, rows_in_packed_block) +
                             gram_chunks);
}

Workspace::Workspace(const View& view)
    : chunking(view.rows, view.stride),
      stride(view.stride),
      argument(allocate(view.stride)),
      sums(allocate(view.stride * chunking.chunks)),
      values(allocate(chunking.chunks)) {}

std::size_t Workspace::bytes() const {
  const Index grams = gram_sums ? stride * stride * chunking.gram_chunks : 0;
  const Index packs = packed_threads * packed_size(stride);
  return static_cast<std::size_t>(stride * (1 + chunking.chunks) + chunking.chunks + grams + packs) *
         sizeof(double);
}

namespace {

const double* pad(const View& view, const double* argument, Workspace& w) {
  std::copy_n(argument, view.columns, w.argument.get());
  return w.argument.get();
}

/// work(x, rows, first row, chunk) for every chunk.
template <class Work>
void over_chunks(const View& view, const Workspace& w, Work work) {
  const Chunking& c = w.chunking;
  for_each_piece(c.chunks, view.rows * view.stride, [&](Index chunk) {
    const Index first = chunk * c.rows_in_chunk;
    work(view.x + first * view.stride, std::min(c.rows_in_chunk, view.rows - first), first, chunk);
  });
}

void add_up(const View& view, const Workspace& w, double* out) {
  std::fill_n(out, view.columns, 0.0);
  for (Index chunk = 0; chunk < w.chunking.chunks; ++chunk) {
    const double* sum = w.sums.get() + chunk * view.stride;
    for (Index j = 0; j < view.columns; ++j) out[j] += sum[j];
  }
}

}  // namespace

double value_with_gradient(Loss loss, const View& view, const double* phi, const Rows& data, double* gradient,
                           double* curvature, Workspace& w) {
  const auto kernel = table().value_with_gradient[static_cast<std::size_t>(loss)];
  const double* argument = pad(view, phi, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
    w.values[static_cast<std::size_t>(chunk)] = kernel(
        x, rows, view.stride, w.chunking.rows_in_block, argument, data, first,
        gradient ? w.sums.get() + chunk * view.stride : nullptr, curvature ? curvature + first : nullptr);
  });
  if (gradient) add_up(view, w, gradient);
  double value = 0;
  for (Index chunk = 0; chunk < w.chunking.chunks; ++chunk)
    value += w.values[static_cast<std::size_t>(chunk)];
  return value;
}

void curvature(Loss loss, const View& view, const double* phi, const Rows& data, double* out, Workspace& w) {
  const auto kernel = table().curvature[static_cast<std::size_t>(loss)];
  const double* argument = pad(view, phi, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index) {
    kernel(x, rows, view.stride, argument, data, first, out + first);
  });
}

void margins(const View& view, const double* phi, const double* offsets, double* out, Workspace& w) {
  const double* argument = pad(view, phi, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index) {
    table().margins(x, rows, view.stride, argument, offsets ? offsets + first : nullptr, out + first);
  });
}

void product(const View& view, const double* weights, const double* v, double* out, Workspace& w) {
  const double* argument = pad(view, v, w);
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
    table().product(x, rows, view.stride, w.chunking.rows_in_block, weights ? weights + first : nullptr,
                    argument, w.sums.get() + chunk * view.stride);
  });
  add_up(view, w, out);
}

void gram_diagonal(const View& view, const double* weights, double* out, Workspace& w) {
  over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
    table().gram_diagonal(x, rows, view.stride, weights ? weights + first : nullptr,
                          w.sums.get() + chunk * view.stride);
  });
  add_up(view, w, out);
}

void gram(const View& view, const double* weights, double* out, Workspace& w) {
  const Chunking& c = w.chunking;
  const Index square = view.stride * view.stride, packed = packed_size(view.stride);
  if (!w.gram_sums) w.gram_sums = allocate(square * c.gram_chunks);
  if (w.packed_threads < threads()) {
    w.packed_threads = threads();
    w.packed = allocate(packed * w.packed_threads);
  }
  // A piece is a band of the matrix over a chunk of rows, so that few chunks still use all threads.
  const Index bands = divide_up(view.stride, gram_band), panels = view.stride / row_multiple;
  const Index panels_in_band = gram_band / row_multiple;
  // Sixteen products in the time of an element of a pass, which has to come from memory.
  for_each_piece(c.gram_chunks * bands, view.rows * square / 32, [&](Index piece) {
    const Index chunk = piece / bands, band = piece % bands, first = chunk * c.rows_in_gram_chunk;
    table().gram(view.x + first * view.stride, std::min(c.rows_in_gram_chunk, view.rows - first), view.stride,
                 weights ? weights + first : nullptr, band * panels_in_band,
                 std::min(panels, (band + 1) * panels_in_band), w.packed.get() + packed * pool::number(),
                 w.gram_sums.get() + chunk * square);
  });
  for_each_piece(view.columns, view.columns * view.columns * c.gram_chunks / 8, [&](Index i) {
    double* row = out + i * view.columns;
    std::fill(row + i, row + view.columns, 0.0);
    for (Index chunk = 0; chunk < c.gram_chunks; ++chunk) {
      const double* sum = w.gram_sums.get() + chunk * square + i * view.stride;
      for (Index j = i; j < view.columns; ++j) row[j] += sum[j];
    }
  });
  for (Index i = 1; i < view.columns; ++i)
    for (Index j = 0; j < i; ++j) out[i * view.columns + j] = out[j * view.columns + i];
}

}  // namespace bilevel::problems::kernels
