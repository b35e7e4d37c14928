#pragma once

// How a pass is divided among threads, and the loops of the chosen target.

#include <bilevel/problems/kernels.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "table.hpp"

namespace bilevel::problems::kernels {

const Table& table();

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

inline int thread_number() {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

inline Index divide_up(Index a, Index b) {
  return (a + b - 1) / b;
}

/// Doubles of scratch for a block of rows: their margins and their probabilities.
inline Index softmax_block_size(Index classes) {
  return 2 * classes * rows_in_softmax_block;
}

}  // namespace bilevel::problems::kernels
