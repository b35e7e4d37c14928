#include "threads/one_blas_thread.hpp"

#include <mutex>

#include <cblas.h>

namespace bilevel {
namespace {

// The number is one for the whole process: the first to come sets it, the last to leave restores it.
std::mutex guard;
int present = 0, before = 1;

}  // namespace

OneBlasThread::OneBlasThread() {
  const std::lock_guard lock(guard);
  if (present++ > 0) return;
  before = openblas_get_num_threads();
  if (before != 1) openblas_set_num_threads(1);
}

OneBlasThread::~OneBlasThread() {
  const std::lock_guard lock(guard);
  if (--present == 0 && before != 1) openblas_set_num_threads(before);
}

}  // namespace bilevel
