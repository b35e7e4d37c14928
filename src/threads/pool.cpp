#include "threads/pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __unix__
#include <csignal>
#endif

namespace bilevel::pool {
namespace {

/// More would be a slip of the pen (OMP_NUM_THREADS=100000), and BLAS has buffers for so many.
constexpr int most_threads = 128;

thread_local int own_number = 0;
thread_local int inherited = 0;  // threads() within a piece that another thread handed over; 0: nobody did

/// One loop. It lives on the stack of the thread that began it.
struct Loop {
  Work work;
  std::size_t count;
  std::size_t helpers;  // that may still come
  int limit;            // only threads of a lower number may
  std::atomic<std::size_t> next{0};
  std::atomic<int> active{0};  // helpers at work; falls under the lock only
  std::exception_ptr failure{};
  std::condition_variable done{};
  Loop* before = nullptr;
  Loop* after = nullptr;

  bool open() const { return helpers > 0 && next.load(std::memory_order_relaxed) < count; }

  /// Takes pieces until none is left.
  std::exception_ptr work_off() {
    std::exception_ptr own;
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        work.call(work.what, i);
      } catch (...) {
        own = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
    return own;
  }
};

/// Waking a thread takes some tens of microseconds, and the next loop often comes sooner: looks that long
/// whether it does.
template <class Ready>
bool watch(Ready ready) {
  constexpr auto patience = std::chrono::microseconds(20);
  const auto end = std::chrono::steady_clock::now() + patience;
  do {
    for (int k = 0; k < 32; ++k) {
      if (ready()) return true;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

class Pool {
 public:
  void run(Loop& loop);

 private:
  void grow(int workers);
  void serve(int number);
  Loop* open_loop(int number);
  void wake(std::size_t wanted);

  std::mutex mutex_;
  std::condition_variable wake_;
  Loop* first_ = nullptr;  // the oldest, hence the outermost, first: a whole task is worth more than a piece
  Loop* last_ = nullptr;
  std::atomic<unsigned> posted_{0};
  int workers_ = 0, sleepers_ = 0;
  bool refused_ = false;  // the system gives no more threads
};

/// Never destroyed: its threads may outlive every static object.
Pool& the_pool() {
  static Pool* const pool = new Pool;
  return *pool;
}

/// Under the lock, as open_loop and wake.
void Pool::grow(int workers) {
#ifdef __unix__
  // Signals are for the threads that a program made itself.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
  while (workers_ < workers && !refused_) {
    try {
      std::thread([this, number = workers_ + 1] { serve(number); }).detach();
      ++workers_;
    } catch (const std::exception&) {
      refused_ = true;  // no thread, or no memory for one: fewer do as well
    }
  }
#ifdef __unix__
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
}

Loop* Pool::open_loop(int number) {
  for (Loop* loop = first_; loop; loop = loop->after)
    if (loop->open() && number < loop->limit) return loop;
  return nullptr;
}

/// Two at most: whoever comes wakes the next ones, so that nobody calls fifteen.
void Pool::wake(std::size_t wanted) {
  if (sleepers_ == 0 || wanted == 0) return;
  if (last_ && workers_ >= last_->limit) return wake_.notify_all();  // some of them may not come
  wake_.notify_one();
  if (wanted > 1 && sleepers_ > 1) wake_.notify_one();
}

void Pool::serve(int number) {
  own_number = number;
#ifdef _OPENMP
  omp_set_num_threads(1);  // a team of its own within a piece would take cores that are taken
#endif
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Loop* loop = open_loop(number)) {
      --loop->helpers;
      loop->active.fetch_add(1, std::memory_order_relaxed);
      wake(loop->open() ? loop->helpers : 0);
      lock.unlock();
      inherited = loop->limit;
      const std::exception_ptr failure = loop->work_off();
      lock.lock();
      if (failure && !loop->failure) loop->failure = failure;
      if (loop->active.fetch_sub(1, std::memory_order_release) == 1) loop->done.notify_one();
      continue;
    }
    const unsigned seen = posted_.load(std::memory_order_relaxed);
    const auto fresh = [&] { return posted_.load(std::memory_order_relaxed) != seen; };
    lock.unlock();
    const bool soon = watch(fresh);
    lock.lock();
    if (soon || fresh()) continue;
    ++sleepers_;
    wake_.wait(lock);
    --sleepers_;
  }
}

void Pool::run(Loop& loop) {
  {
    const std::lock_guard lock(mutex_);
    if (workers_ < loop.limit - 1) grow(loop.limit - 1);
    loop.before = last_;
    (last_ ? last_->after : first_) = &loop;
    last_ = &loop;
    posted_.fetch_add(1, std::memory_order_relaxed);
    wake(loop.helpers);
  }
  const std::exception_ptr failure = loop.work_off();
  std::unique_lock lock(mutex_);
  (loop.before ? loop.before->after : first_) = loop.after;
  (loop.after ? loop.after->before : last_) = loop.before;
  if (loop.active.load(std::memory_order_relaxed) > 0) {
    lock.unlock();
    watch([&] { return loop.active.load(std::memory_order_acquire) == 0; });
    lock.lock();  // also where it is zero: the helper lets go of the loop with the lock
    loop.done.wait(lock, [&] { return loop.active.load(std::memory_order_relaxed) == 0; });
  }
  if (!loop.failure) loop.failure = failure;
}

}  // namespace

int threads() {
  if (inherited > 0) return inherited;
#ifdef _OPENMP
  return std::clamp(omp_get_max_threads(), 1, most_threads);
#else
  return 1;
#endif
}

int number() {
  return own_number;
}

void for_each(std::size_t count, std::size_t most, Work work) {
  const int limit = threads();
  const std::size_t together = std::min({count, most, static_cast<std::size_t>(limit)});
  if (together < 2) {
    for (std::size_t i = 0; i < count; ++i) work.call(work.what, i);
    return;
  }
  Loop loop{.work = work, .count = count, .helpers = together - 1, .limit = limit};
  the_pool().run(loop);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace bilevel::pool
