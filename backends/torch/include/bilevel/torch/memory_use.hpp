#pragma once

#include <cstdint>
#include <memory>

namespace bilevel::torch {

/// Counts the bytes that tensors take while it lives, on every device: those of this thread and of the
/// backward passes that it begins. Of several, the youngest counts. What was there before is not counted, and
/// freeing it subtracts nothing.
class MemoryUse {
 public:
  MemoryUse();
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  std::int64_t held() const;  ///< taken and not given back
  std::int64_t peak() const;  ///< the most that was held at any time

 private:
  class Count;
  struct Scope;
  std::shared_ptr<Count> count_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace bilevel::torch
