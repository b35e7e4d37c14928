#include <bilevel/problems/sparse_kernels.hpp>

#include <algorithm>

#include "pieces.hpp"
#include "sparse_rows.hpp"

namespace bilevel::problems::kernels {
namespace {

constexpr Index rows_in_sparse_block = max_rows_in_block;
constexpr Index columns_in_piece = 4096;
/// An entry that is gathered and scattered takes as long as so many of a dense pass.
constexpr Index dense_elements = 4;

}  // namespace

SparseChunking::SparseChunking(const SparseView& view) {
  const Index length = view.columns + 1, entries = view.entries();
  const Index bytes = entries * 12 + view.rows * 4, bytes_of_sum = 8 * length;
  // A partial sum is cleared, filled at random places and read again, best from the cache: one for each 32
  // times its bytes of X (measured: one for each 4 times costs a fifth more), but enough for some cores.
  const Index affordable_sums = std::max<Index>(2, bytes / (2 * bytes_of_sum));
  const Index wanted =
      std::clamp<Index>(bytes / (32 * bytes_of_sum), std::min<Index>(8, affordable_sums), 64);
  rows_in_chunk = std::max<Index>(1, divide_up(view.rows, wanted));
  chunks = divide_up(view.rows, rows_in_chunk);
  // Partial sums of XᵀDX within 32 MiB; where that allows only few, the columns are cut as well.
  const Index affordable = std::clamp<Index>((Index{1} << 22) / (length * length), 1, 32);
  rows_in_gram_chunk = std::max<Index>(64, divide_up(view.rows, affordable));
  gram_chunks = divide_up(view.rows, rows_in_gram_chunk);
  gram_bands = std::clamp<Index>(divide_up(16, affordable), 1, length);
  for (Index i = 0; i < view.rows; ++i)
    longest_row_ = std::max<Index>(longest_row_, view.starts[i + 1] - view.starts[i]);
}

// A product and an addition for each entry of the row, the intercept, the offset.
double SparseChunking::margin_depth() const {
  return static_cast<double>(longest_row_ + 3);
}
// A product, the rows of a chunk, the chunks, the factor 1/n.
double SparseChunking::sum_depth() const {
  return static_cast<double>(rows_in_chunk + chunks + 2);
}
double SparseChunking::gram_depth() const {
  return static_cast<double>(rows_in_gram_chunk + gram_chunks + 3);
}

SparseWorkspace::SparseWorkspace(const SparseView& view)
    : chunking(view),
      length(view.columns + 1),
      sums(allocate(length * chunking.chunks)),
      values(allocate(chunking.chunks)) {}

std::size_t SparseWorkspace::bytes() const {
  const Index grams = gram_sums ? length * length * chunking.gram_chunks : 0;
  return static_cast<std::size_t>((length + 1) * chunking.chunks + grams) * sizeof(double);
}

namespace {

/// work(first row, rows, chunk) for every chunk.
template <class Work>
void over_chunks(const SparseView& view, const SparseWorkspace& w, Work work) {
  const SparseChunking& c = w.chunking;
  for_each_piece(c.chunks, dense_elements * (view.entries() + view.rows), [&](Index chunk) {
    const Index first = chunk * c.rows_in_chunk;
    work(first, std::min(c.rows_in_chunk, view.rows - first), chunk);
  });
}

/// work(first row, rows, margins) for the blocks of a chunk; margins are without offsets.
template <class Work>
void over_blocks(const SparseView& view, const double* u, Index first, Index rows, Work work) {
  alignas(64) double margins[rows_in_sparse_block];
  for (Index end = first + rows; first < end; first += rows_in_sparse_block) {
    const Index count = std::min(rows_in_sparse_block, end - first);
    for (Index r = 0; r < count; ++r) margins[r] = margin_of_row(view, first + r, u);
    work(first, count, margins);
  }
}

double* start_sum(const SparseWorkspace& w, Index chunk) {
  double* sum = w.sums.get() + chunk * w.length;
  std::fill_n(sum, w.length, 0.0);
  return sum;
}

void add_up(const SparseWorkspace& w, double* out) {
  const Index chunks = w.chunking.chunks;
  for_each_piece(divide_up(w.length, columns_in_piece), w.length * chunks / 4, [&](Index piece) {
    const Index first = piece * columns_in_piece, last = std::min(w.length, first + columns_in_piece);
    std::fill(out + first, out + last, 0.0);
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const double* sum = w.sums.get() + chunk * w.length;
      for (Index j = first; j < last; ++j) out[j] += sum[j];
    }
  });
}

/// The upper triangle's rows [low, high) of [X 1]ᵀ D [X 1], summed over some rows of X.
void add_gram(const SparseView& view, const double* weights, Index first, Index rows, Index low, Index high,
              double* sum) {
  const Index length = view.columns + 1;
  std::fill(sum + low * length, sum + high * length, 0.0);
  for (Index i = first; i < first + rows; ++i) {
    const double weight = weights ? weights[i] : 1.0;
    const int end = view.starts[i + 1];
    const int* from = std::lower_bound(view.columns_of + view.starts[i], view.columns_of + end, low);
    for (int a = static_cast<int>(from - view.columns_of); a < end && view.columns_of[a] < high; ++a) {
      const double factor = weight * view.values[a];
      double* row = sum + view.columns_of[a] * length;
      for (int b = a; b < end; ++b) row[view.columns_of[b]] += factor * view.values[b];
      row[view.columns] += factor;
    }
    if (high == length) sum[view.columns * length + view.columns] += weight;
  }
}

}  // namespace

double value_with_gradient(Loss loss, const SparseView& view, const double* u, const Rows& data,
                           double* gradient, double* curvature, SparseWorkspace& w) {
  const auto apply = table().apply_loss[static_cast<std::size_t>(loss)];
  over_chunks(view, w, [&](Index chunk_first, Index chunk_rows, Index chunk) {
    double* sum = gradient ? start_sum(w, chunk) : nullptr;
    double value = 0;
    over_blocks(view, u, chunk_first, chunk_rows, [&](Index first, Index rows, double* margins) {
      value += apply(margins, data, first, rows, curvature ? curvature + first : nullptr);
      if (sum)
        for (Index r = 0; r < rows; ++r) add_row(view, first + r, margins[r], sum);
    });
    w.values[static_cast<std::size_t>(chunk)] = value;
  });
  if (gradient) add_up(w, gradient);
  double value = 0;
  for (Index chunk = 0; chunk < w.chunking.chunks; ++chunk)
    value += w.values[static_cast<std::size_t>(chunk)];
  return value;
}

void curvature(Loss loss, const SparseView& view, const double* u, const Rows& data, double* out,
               SparseWorkspace& w) {
  const auto apply = table().apply_loss[static_cast<std::size_t>(loss)];
  over_chunks(view, w, [&](Index chunk_first, Index chunk_rows, Index) {
    over_blocks(view, u, chunk_first, chunk_rows, [&](Index first, Index rows, double* margins) {
      apply(margins, data, first, rows, out + first);
    });
  });
}

void margins(const SparseView& view, const double* u, const double* offsets, double* out,
             SparseWorkspace& w) {
  over_chunks(view, w, [&](Index first, Index rows, Index) {
    for (Index i = first; i < first + rows; ++i)
      out[i] = margin_of_row(view, i, u) + (offsets ? offsets[i] : 0.0);
  });
}

void product(const SparseView& view, const double* weights, const double* v, double* out,
             SparseWorkspace& w) {
  over_chunks(view, w, [&](Index first, Index rows, Index chunk) {
    double* sum = start_sum(w, chunk);
    for (Index i = first; i < first + rows; ++i)
      add_row(view, i, (weights ? weights[i] : 1.0) * margin_of_row(view, i, v), sum);
  });
  add_up(w, out);
}

void gram_diagonal(const SparseView& view, const double* weights, double* out, SparseWorkspace& w) {
  over_chunks(view, w, [&](Index first, Index rows, Index chunk) {
    double* sum = start_sum(w, chunk);
    for (Index i = first; i < first + rows; ++i) {
      const double weight = weights ? weights[i] : 1.0;
      for (int k = view.starts[i]; k < view.starts[i + 1]; ++k)
        sum[view.columns_of[k]] += weight * view.values[k] * view.values[k];
      sum[view.columns] += weight;
    }
  });
  add_up(w, out);
}

void gram(const SparseView& view, const double* weights, double* out, SparseWorkspace& w) {
  const SparseChunking& c = w.chunking;
  const Index length = w.length, square = length * length;
  if (!w.gram_sums) w.gram_sums = allocate(square * c.gram_chunks);
  const Index entries_in_row = view.rows == 0 ? 0 : divide_up(view.entries(), view.rows) + 1;
  // Bands of as many columns each: the later ones have less of the triangle, whoever is idle takes the
  // next.
  for_each_piece(c.gram_chunks * c.gram_bands, view.entries() * entries_in_row / 2, [&](Index piece) {
    const Index chunk = piece / c.gram_bands, band = piece % c.gram_bands;
    const Index first = chunk * c.rows_in_gram_chunk;
    add_gram(view, weights, first, std::min(c.rows_in_gram_chunk, view.rows - first),
             band * length / c.gram_bands, (band + 1) * length / c.gram_bands,
             w.gram_sums.get() + chunk * square);
  });
  for_each_piece(length, square * c.gram_chunks / 2, [&](Index i) {
    double* row = out + i * length;
    std::fill(row + i, row + length, 0.0);
    for (Index chunk = 0; chunk < c.gram_chunks; ++chunk) {
      const double* sum = w.gram_sums.get() + chunk * square + i * length;
      for (Index j = i; j < length; ++j) row[j] += sum[j];
    }
  });
  for (Index i = 1; i < length; ++i)
    for (Index j = 0; j < i; ++j) out[i * length + j] = out[j * length + i];
}

}  // namespace bilevel::problems::kernels
