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
    : chunking_(view.rows, view.stride),
      stride_(view.stride),
      argument_(allocate(view.stride)),
      sums_(allocate(view.stride * chunking_.chunks)),
      values_(allocate(chunking_.chunks)) {}

std::size_t Workspace::bytes() const {
  const Index grams = gram_sums_ ? stride_ * stride_ * chunking_.gram_chunks : 0;
  const Index packs = packed_threads_ * packed_size(stride_);
  return static_cast<std::size_t>(stride_ * (1 + chunking_.chunks) + chunking_.chunks + grams + packs) *
         sizeof(double);
}

/// The parts that see into a Workspace.
struct Loops {
  static const double* pad(const View& view, const double* argument, Workspace& w) {
    std::copy_n(argument, view.columns, w.argument_.get());
    return w.argument_.get();
  }

  /// work(x, rows, first row, chunk) for every chunk.
  template <class Work>
  static void over_chunks(const View& view, const Workspace& w, Work work) {
    const Chunking& c = w.chunking_;
    for_each_piece(c.chunks, view.rows * view.stride, [&](Index chunk) {
      const Index first = chunk * c.rows_in_chunk;
      work(view.x + first * view.stride, std::min(c.rows_in_chunk, view.rows - first), first, chunk);
    });
  }

  static void add_up(const View& view, const Workspace& w, double* out) {
    std::fill_n(out, view.columns, 0.0);
    for (Index chunk = 0; chunk < w.chunking_.chunks; ++chunk) {
      const double* sum = w.sums_.get() + chunk * view.stride;
      for (Index j = 0; j < view.columns; ++j) out[j] += sum[j];
    }
  }

  static double value_with_gradient(Loss loss, const View& view, const double* phi, const Rows& data,
                                    double* gradient, double* curvature, Workspace& w) {
    const auto kernel = table().value_with_gradient[static_cast<std::size_t>(loss)];
    const double* argument = pad(view, phi, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
      w.values_[static_cast<std::size_t>(chunk)] = kernel(
          x, rows, view.stride, w.chunking_.rows_in_block, argument, data, first,
          gradient ? w.sums_.get() + chunk * view.stride : nullptr, curvature ? curvature + first : nullptr);
    });
    if (gradient) add_up(view, w, gradient);
    double value = 0;
    for (Index chunk = 0; chunk < w.chunking_.chunks; ++chunk)
      value += w.values_[static_cast<std::size_t>(chunk)];
    return value;
  }

  static void curvature(Loss loss, const View& view, const double* phi, const Rows& data, double* out,
                        Workspace& w) {
    const auto kernel = table().curvature[static_cast<std::size_t>(loss)];
    const double* argument = pad(view, phi, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index) {
      kernel(x, rows, view.stride, argument, data, first, out + first);
    });
  }

  static void margins(const View& view, const double* phi, const double* offsets, double* out, Workspace& w) {
    const double* argument = pad(view, phi, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index) {
      table().margins(x, rows, view.stride, argument, offsets ? offsets + first : nullptr, out + first);
    });
  }

  static void product(const View& view, const double* weights, const double* v, double* out, Workspace& w) {
    const double* argument = pad(view, v, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
      table().product(x, rows, view.stride, w.chunking_.rows_in_block, weights ? weights + first : nullptr,
                      argument, w.sums_.get() + chunk * view.stride);
    });
    add_up(view, w, out);
  }

  static void gram_diagonal(const View& view, const double* weights, double* out, Workspace& w) {
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
      table().gram_diagonal(x, rows, view.stride, weights ? weights + first : nullptr,
                            w.sums_.get() + chunk * view.stride);
    });
    add_up(view, w, out);
  }

  static void gram(const View& view, const double* weights, double* out, Workspace& w) {
    const Chunking& c = w.chunking_;
    const Index square = view.stride * view.stride, packed = packed_size(view.stride);
    if (!w.gram_sums_) w.gram_sums_ = allocate(square * c.gram_chunks);
    if (w.packed_threads_ < threads()) {
      w.packed_threads_ = threads();
      w.packed_ = allocate(packed * w.packed_threads_);
    }
    // A piece is a band of the matrix over a chunk of rows, so that few chunks still use all threads.
    const Index bands = divide_up(view.stride, gram_band), panels = view.stride / row_multiple;
    const Index panels_in_band = gram_band / row_multiple;
    // Sixteen products in the time of an element of a pass, which has to come from memory.
    for_each_piece(c.gram_chunks * bands, view.rows * square / 32, [&](Index piece) {
      const Index chunk = piece / bands, band = piece % bands, first = chunk * c.rows_in_gram_chunk;
      table().gram(view.x + first * view.stride, std::min(c.rows_in_gram_chunk, view.rows - first),
                   view.stride, weights ? weights + first : nullptr, band * panels_in_band,
                   std::min(panels, (band + 1) * panels_in_band), w.packed_.get() + packed * pool::number(),
                   w.gram_sums_.get() + chunk * square);
    });
    for_each_piece(view.columns, view.columns * view.columns * c.gram_chunks / 8, [&](Index i) {
      double* row = out + i * view.columns;
      std::fill(row + i, row + view.columns, 0.0);
      for (Index chunk = 0; chunk < c.gram_chunks; ++chunk) {
        const double* sum = w.gram_sums_.get() + chunk * square + i * view.stride;
        for (Index j = i; j < view.columns; ++j) row[j] += sum[j];
      }
    });
    for (Index i = 1; i < view.columns; ++i)
      for (Index j = 0; j < i; ++j) out[i * view.columns + j] = out[j * view.columns + i];
  }
};

double value_with_gradient(Loss loss, const View& view, const double* phi, const Rows& rows, double* gradient,
                           double* curvature, Workspace& workspace) {
  return Loops::value_with_gradient(loss, view, phi, rows, gradient, curvature, workspace);
}
void curvature(Loss loss, const View& view, const double* phi, const Rows& rows, double* out,
               Workspace& workspace) {
  Loops::curvature(loss, view, phi, rows, out, workspace);
}
void margins(const View& view, const double* phi, const double* offsets, double* out, Workspace& workspace) {
  Loops::margins(view, phi, offsets, out, workspace);
}
void product(const View& view, const double* weights, const double* v, double* out, Workspace& workspace) {
  Loops::product(view, weights, v, out, workspace);
}
void gram(const View& view, const double* weights, double* out, Workspace& workspace) {
  Loops::gram(view, weights, out, workspace);
}
void gram_diagonal(const View& view, const double* weights, double* out, Workspace& workspace) {
  Loops::gram_diagonal(view, weights, out, workspace);
}
}  // namespace bilevel::problems::kernels
