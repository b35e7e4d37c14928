// How close the oracles of a generalised linear model come to what the machine can do.
//   value with gradient, Hessian product   bytes of X per second ÷ read bandwidth of a streaming sum over
//                                          an array of the same size, on the same number of threads
//   dense Hessian                          n·d(d+1)/2 multiply-adds per second ÷ peak of register-only ones
// Limit and oracle are timed alternately in one run and each by its best time, because other work on
// the machine only ever adds time. Prints a markdown table.
//
//   bench_oracles [rows = 200000] [columns = 64] [rounds = 30]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <bilevel/problems/kernels.hpp>

namespace {

namespace kernels = bilevel::problems::kernels;
using bilevel::Index;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

volatile double sink;

#if defined(__x86_64__)
typedef double Wide __attribute__((vector_size(64), aligned(64), may_alias));
typedef double Half __attribute__((vector_size(32), aligned(32), may_alias));

#define READ_LOOP(name, target_name, Pack)                                                    \
  __attribute__((target(target_name))) void name(const double* x, Index count, double* out) { \
    constexpr Index width = sizeof(Pack) / 8;                                                 \
    Pack a{}, b{}, c{}, d{};                                                                  \
    for (Index i = 0; i + 4 * width <= count; i += 4 * width) {                               \
      const Pack* p = reinterpret_cast<const Pack*>(x + i);                                   \
      __builtin_prefetch(x + i + 512);                                                        \
      if (width == 8) __builtin_prefetch(x + i + 512 + 8);                                    \
      if (width == 8) __builtin_prefetch(x + i + 512 + 16);                                   \
      __builtin_prefetch(x + i + 512 + 3 * width);                                            \
      a += p[0], b += p[1], c += p[2], d += p[3];                                             \
    }                                                                                         \
    a = (a + b) + (c + d);                                                                    \
    *out = a[0];                                                                              \
  }
READ_LOOP(read_wide, "avx512f", Wide)
READ_LOOP(read_half, "avx2", Half)

#define PEAK_LOOP(name, target_name, Pack)                                                       \
  __attribute__((target(target_name))) void name(Index count, double* out) {                     \
    Pack s[12] = {}, factor = Pack{} + 0.999999, term = Pack{} + 1e-9;                           \
    for (Pack & each : s) asm volatile("" : "+v"(each));                                         \
    for (Index i = 0; i < count; ++i) {                                                          \
      asm volatile("" : "+v"(factor), "+v"(term));                                               \
      s[0] = s[0] * factor + term, s[1] = s[1] * factor + term, s[2] = s[2] * factor + term;     \
      s[3] = s[3] * factor + term, s[4] = s[4] * factor + term, s[5] = s[5] * factor + term;     \
      s[6] = s[6] * factor + term, s[7] = s[7] * factor + term, s[8] = s[8] * factor + term;     \
      s[9] = s[9] * factor + term, s[10] = s[10] * factor + term, s[11] = s[11] * factor + term; \
    }                                                                                            \
    for (int k = 1; k < 12; ++k) s[0] += s[k];                                                   \
    *out = s[0][0];                                                                              \
  }
PEAK_LOOP(peak_wide, "avx512f,fma", Wide)
PEAK_LOOP(peak_half, "avx2,fma", Half)
#endif

void read_narrow(const double* x, Index count, double* out) {
  double s[8] = {};
  for (Index i = 0; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; ++k) s[k] += x[i + k];
  *out = s[0];
}
void peak_narrow(Index count, double* out) {
  double s[12] = {};
  for (Index i = 0; i < count; ++i)
    for (double& each : s) each = each * 0.999999 + 1e-9;
  *out = s[0];
}

/// Seconds of work(0) … work(count − 1), each on a thread that was awake before the clock started.
double seconds_on_threads(int count, const std::function<void(int)>& work) {
  std::atomic<int> awake{1}, busy{count};
  std::atomic<bool> go{false};
  std::vector<std::thread> others;
  for (int t = 1; t < count; ++t)
    others.emplace_back([&, t] {
      ++awake;
      while (!go) {
      }
      work(t);
      --busy;
    });
  while (awake < count) {
  }
  const double time = seconds_of([&] {
    go = true;
    work(0);
    --busy;
    while (busy > 0) {
    }
  });
  for (std::thread& other : others) other.join();
  return time;
}

/// The pieces are handed out one by one, as the kernels do it: a core that others use takes fewer.
double read_seconds(const double* x, Index count, int threads) {
  constexpr Index pieces = 256;
  const Index part = count / pieces / 64 * 64;
  std::vector<double> out(pieces);
  std::atomic<Index> next{0};
  const double time = seconds_on_threads(threads, [&](int) {
    for (Index piece = next++; piece < pieces; piece = next++) {
      double* place = &out[static_cast<std::size_t>(piece)];
      const double* start = x + piece * part;
#if defined(__x86_64__)
      if (kernels::available(kernels::Target::avx512)) {
        read_wide(start, part, place);
        continue;
      }
      if (kernels::available(kernels::Target::avx2)) {
        read_half(start, part, place);
        continue;
      }
#endif
      read_narrow(start, part, place);
    }
  });
  for (double each : out) sink = each;
  return time * static_cast<double>(count) / static_cast<double>(part * pieces);
}

/// Seconds for one multiply-add on that many threads together.
double peak_seconds(int threads) {
  constexpr Index rounds = 1'000'000;
  Index width = 1;
  std::vector<double> out(static_cast<std::size_t>(threads) * 8);
#if defined(__x86_64__)
  if (kernels::available(kernels::Target::avx2)) width = 4;
  if (kernels::available(kernels::Target::avx512)) width = 8;
#endif
  const double time = seconds_on_threads(threads, [&](int t) {
    double* place = &out[static_cast<std::size_t>(t) * 8];
#if defined(__x86_64__)
    if (width == 8) return peak_wide(rounds, place);
    if (width == 4) return peak_half(rounds, place);
#endif
    peak_narrow(rounds, place);
  });
  for (double each : out) sink = each;
  return time / (static_cast<double>(rounds * 12 * width) * threads);
}

}  // namespace

int main(int argc, char** argv) {
  const Index rows = argc > 1 ? std::atol(argv[1]) : 200'000, columns = argc > 2 ? std::atol(argv[2]) : 64;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 30;
  const Index stride = kernels::padded(columns);
  kernels::Buffer x = kernels::allocate(rows * stride), labels = kernels::allocate(rows),
                  weights = kernels::allocate(rows), curvatures = kernels::allocate(rows),
                  phi = kernels::allocate(stride), out = kernels::allocate(stride),
                  square = kernels::allocate(columns * columns);
  std::uint64_t state = 1;
  const auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-52 - 1;
  };
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) x.get()[i * stride + j] = next();
    labels.get()[i] = next() > 0 ? 1 : -1;
    weights.get()[i] = 0.25;
  }
  for (Index j = 0; j < columns; ++j) phi.get()[j] = next();
  const kernels::View view{x.get(), rows, columns, stride};
  kernels::Workspace workspace(view);

  const double bytes = static_cast<double>(rows * stride) * 8;
  const double multiply_adds =
      static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(columns + 1) / 2;
  fmt::print("X is {} × {} ({:.0f} MB with padding), kernels: {}, best of {}\n\n", rows, columns, bytes / 1e6,
             kernels::name(kernels::chosen()), rounds);
  fmt::print("| oracle | threads | reached | limit beside it | ratio |\n|--|--|--|--|--|\n");
  for (int threads : {1, 2}) {
    kernels::set_threads(threads);
    double read = 1e9, logistic = 1e9, squared = 1e9, product = 1e9, peak = 1e9, dense = 1e9;
    const auto keep_best = [](double& best, const std::function<void()>& work) {
      best = std::min(best, seconds_of(work));
    };
    const auto gradient_of = [&](kernels::Loss loss, double* curvature) {
      sink = kernels::value_with_gradient(loss, view, phi.get(), {labels.get()}, out.get(), curvature,
                                          workspace);
    };
    for (int round = 0; round < rounds; ++round) {
      read = std::min(read, read_seconds(x.get(), rows * stride, threads));
      // As the problem calls it: loss″ is stored on the way, for a linearisation at the same point.
      keep_best(logistic, [&] { gradient_of(kernels::Loss::logistic, curvatures.get()); });
      keep_best(squared, [&] { gradient_of(kernels::Loss::squared, nullptr); });
      keep_best(product, [&] { kernels::product(view, weights.get(), phi.get(), out.get(), workspace); });
      peak = std::min(peak, peak_seconds(threads));
      keep_best(dense, [&] { kernels::gram(view, weights.get(), square.get(), workspace); });
    }
    const auto line = [&](const char* oracle, double seconds) {
      fmt::print("| {} | {} | {:.1f} GB/s | {:.1f} GB/s | {:.2f} |\n", oracle, threads, bytes / seconds / 1e9,
                 bytes / read / 1e9, read / seconds);
    };
    line("logistic value with gradient", logistic);
    line("squared value with gradient", squared);
    line("Hessian product", product);
    fmt::print("| dense Hessian | {} | {:.1f} Gmultiply-adds/s | {:.1f} | {:.2f} |\n", threads,
               multiply_adds / dense / 1e9, 1e-9 / peak, multiply_adds * peak / dense);
  }
}
