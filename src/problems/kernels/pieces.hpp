#pragma once

// How a pass is divided among threads, and the loops of the chosen target.

#include <bilevel/problems/kernels.hpp>

#include "threads/pool.hpp"
#include "table.hpp"

namespace bilevel::problems::kernels {

const Table& table();

/// work(i) for i in [0, count), each exactly once, on as many threads as `elements` make worth while.
template <class Work>
void for_each_piece(Index count, Index elements, Work work) {
  table();  // a bad BILEVEL_KERNELS is refused here: nothing may be thrown among threads
  // Waking a thread costs some tens of microseconds: each must have at least as long to do.
  constexpr Index worth_while = 1 << 16;
  if (count > 1 && elements >= 2 * worth_while) {
    // Which thread takes a piece has no effect on the result, so a busy core may take fewer.
    pool::for_each(static_cast<std::size_t>(count), static_cast<std::size_t>(elements / worth_while),
                   [&](std::size_t i) { work(static_cast<Index>(i)); });
    return;
  }
  for (Index i = 0; i < count; ++i) work(i);
}

inline Index divide_up(Index a, Index b) {
  return (a + b - 1) / b;
}

inline std::size_t at(Index i) {
  return static_cast<std::size_t>(i);
}

/// Doubles of scratch for a block of rows: their margins and their probabilities.
inline Index softmax_block_size(Index classes) {
  return 2 * classes * rows_in_softmax_block;
}

}  // namespace bilevel::problems::kernels
