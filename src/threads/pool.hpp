#pragma once

// The threads behind side_by_side and the loops of the kernels. Not OpenMP's: those wait for each other at
// the end of every loop, also for one that has not been given a core yet, and spin meanwhile. Here whoever
// began a loop works it off himself as far as nobody else comes to help, and waits only for pieces that were
// begun; so a busy machine costs little, and a loop within a piece is helped by whoever has nothing to do.

#include <cstddef>
#include <memory>

namespace bilevel::pool {

/// How many threads may work for the caller at the same time: OpenMP's number (OMP_NUM_THREADS, or what
/// omp_set_num_threads said on the thread that began the outermost loop).
int threads();

/// Which of them the caller is, from 0 to threads() − 1: never the same for two that work at the same loop.
int number();

/// A plain reference to something callable, so that a loop allocates nothing.
struct Work {
  void (*call)(void* what, std::size_t piece);
  void* what;
};

/// work(0) … work(count − 1), each exactly once, by at most `most` threads. Which thread takes a piece is not
/// fixed: results must not depend on it. What a piece throws is thrown here, once all that were begun are
/// done.
void for_each(std::size_t count, std::size_t most, Work work);

template <class Callable>
void for_each(std::size_t count, std::size_t most, Callable&& work) {
  using Plain = std::remove_reference_t<Callable>;
  for_each(count, most,
           Work{[](void* what, std::size_t piece) { (*static_cast<Plain*>(what))(piece); },
                const_cast<void*>(static_cast<const void*>(std::addressof(work)))});
}

}  // namespace bilevel::pool
