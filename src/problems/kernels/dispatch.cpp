#include <bilevel/problems/kernels.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif

#include <bilevel/outcome/violations.hpp>

#include "table.hpp"

namespace bilevel::problems::kernels {
namespace {

constexpr std::array targets{Target::baseline, Target::avx2, Target::avx512};

const Table& table_of([[maybe_unused]] Target target) {
#ifdef BILEVEL_X86_KERNELS
  if (target == Target::avx2) return avx2_table;
  if (target == Target::avx512) return avx512_table;
#endif
  return baseline_table;
}

Target best() {
  if (const char* wish = std::getenv("BILEVEL_KERNELS"); wish && *wish) {
    for (Target target : targets)
      if (name(target) == wish) {
        if (!available(target))
          throw InvalidInput(
              fmt::format("BILEVEL_KERNELS = {}: this processor or this build does not have it", wish));
        return target;
      }
    throw InvalidInput(fmt::format("BILEVEL_KERNELS = {} must be baseline, avx2 or avx512", wish));
  }
  if (available(Target::avx512)) return Target::avx512;
  return available(Target::avx2) ? Target::avx2 : Target::baseline;
}

struct Choice {
  Target target = best();
  const Table* table = &table_of(target);
};

Choice& choice() {
  static Choice current;
  return current;
}

const Table& table() {
  return *choice().table;
}

/// work(i) for i in [0, count), each exactly once, on all threads where `elements` make it worth while.
template <class Work>
void for_each_piece(Index count, [[maybe_unused]] Index elements, Work work) {
  table();  // a bad BILEVEL_KERNELS is refused here: nothing may be thrown among threads
  // Waking the threads costs some microseconds, and milliseconds where other work has the cores: only passes
  // that take some tenths of a millisecond on one thread are divided.
  [[maybe_unused]] constexpr Index worth_while = 1 << 17;
#ifdef _OPENMP
  if (count > 1 && elements >= worth_while && omp_get_max_threads() > 1) {
    // Which thread takes a piece has no effect on the result, so a busy core may take fewer.
#pragma omp parallel for schedule(dynamic)
    for (Index i = 0; i < count; ++i) work(i);
    return;
  }
#endif
  for (Index i = 0; i < count; ++i) work(i);
}

int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

Index packed_size(Index stride) {
  return stride * (rows_in_packed_block + 1);
}
Index divide_up(Index a, Index b) {
  return (a + b - 1) / b;
}

}  // namespace

std::string_view name(Target target) {
  constexpr std::array<std::string_view, 3> names{"baseline", "avx2", "avx512"};
  return names[static_cast<std::size_t>(target)];
}

bool available(Target target) {
  if (target == Target::baseline) return true;
#ifdef BILEVEL_X86_KERNELS
  __builtin_cpu_init();
  if (target == Target::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

Target chosen() {
  return choice().target;
}

void use(Target target) {
  if (!available(target)) throw InvalidInput(fmt::format("kernels: {} is not available here", name(target)));
  choice() = {target, &table_of(target)};
}

int threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

void set_threads([[maybe_unused]] int count) {
  if (count < 1) throw InvalidInput(fmt::format("kernels: {} threads; there must be at least one", count));
#ifdef _OPENMP
  omp_set_num_threads(count);
#endif
}

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

Buffer allocate(Index count) {
  const auto bytes = static_cast<std::size_t>(std::max<Index>(count, 1)) * sizeof(double);
  Buffer buffer(static_cast<double*>(::operator new[](bytes, std::align_val_t{64})));
#ifdef __linux__
  // Pages of 2 MiB where there are any to have: a stream through X then misses the address cache less.
  // Advice only; that it is not taken is no error.
  constexpr std::uintptr_t large_page = 1 << 21;
  const auto start = (reinterpret_cast<std::uintptr_t>(buffer.get()) + large_page - 1) & ~(large_page - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(buffer.get()) + bytes) & ~(large_page - 1);
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#endif
  std::memset(buffer.get(), 0, bytes);
  return buffer;
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

  static double value_with_gradient(Loss loss, const View& view, const double* phi, const double* labels,
                                    double* gradient, double* curvature, Workspace& w) {
    const auto kernel = table().value_with_gradient[static_cast<std::size_t>(loss)];
    const double* argument = pad(view, phi, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index chunk) {
      w.values_[static_cast<std::size_t>(chunk)] = kernel(
          x, rows, view.stride, w.chunking_.rows_in_block, argument, labels + first,
          gradient ? w.sums_.get() + chunk * view.stride : nullptr, curvature ? curvature + first : nullptr);
    });
    if (gradient) add_up(view, w, gradient);
    double value = 0;
    for (Index chunk = 0; chunk < w.chunking_.chunks; ++chunk)
      value += w.values_[static_cast<std::size_t>(chunk)];
    return value;
  }

  static void curvature(Loss loss, const View& view, const double* phi, const double* labels, double* out,
                        Workspace& w) {
    const auto kernel = table().curvature[static_cast<std::size_t>(loss)];
    const double* argument = pad(view, phi, w);
    over_chunks(view, w, [&](const double* x, Index rows, Index first, Index) {
      kernel(x, rows, view.stride, argument, labels + first, out + first);
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
    for_each_piece(c.gram_chunks * bands, view.rows * square / 2, [&](Index piece) {
      const Index chunk = piece / bands, band = piece % bands, first = chunk * c.rows_in_gram_chunk;
      table().gram(view.x + first * view.stride, std::min(c.rows_in_gram_chunk, view.rows - first),
                   view.stride, weights ? weights + first : nullptr, band * panels_in_band,
                   std::min(panels, (band + 1) * panels_in_band), w.packed_.get() + packed * thread_number(),
                   w.gram_sums_.get() + chunk * square);
    });
    for_each_piece(view.columns, view.columns * view.columns * c.gram_chunks / 2, [&](Index i) {
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

double value_with_gradient(Loss loss, const View& view, const double* phi, const double* labels,
                           double* gradient, double* curvature, Workspace& workspace) {
  return Loops::value_with_gradient(loss, view, phi, labels, gradient, curvature, workspace);
}
void curvature(Loss loss, const View& view, const double* phi, const double* labels, double* out,
               Workspace& workspace) {
  Loops::curvature(loss, view, phi, labels, out, workspace);
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
void exponential(const double* x, double* out, Index count) {
  table().exponential(x, out, count);
}
void softplus_of_minus_abs(const double* x, double* out, Index count) {
  table().softplus_of_minus_abs(x, out, count);
}

}  // namespace bilevel::problems::kernels
