#pragma once

namespace bilevel {

/// Keeps BLAS on the calling thread while one of these lives, on any thread: what is divided among the cores
/// are samples, tiles and tasks, in a way that does not depend on how many cores there are. BLAS's own
/// threads would take cores that are taken, and wait by spinning.
class OneBlasThread {
 public:
  OneBlasThread();
  ~OneBlasThread();
  OneBlasThread(const OneBlasThread&) = delete;
  OneBlasThread& operator=(const OneBlasThread&) = delete;
};

}  // namespace bilevel
