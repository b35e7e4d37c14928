#include <bilevel/torch/memory_use.hpp>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace bilevel::torch {
namespace {

// The totals of a report are int64_t until LibTorch 1.13 and size_t since.
template <class>
struct TotalOf;
template <class Total>
struct TotalOf<void (c10::MemoryReportingInfoBase::*)(void*, std::int64_t, Total, Total, c10::Device)> {
  using type = Total;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::type;

}  // namespace

class MemoryUse::Count : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* place, std::int64_t bytes, Total, Total, c10::Device) override {
    const std::lock_guard lock(mutex_);
    if (bytes > 0) {
      ours_.insert(place);
    } else if (ours_.erase(place) == 0) {
      return;  // taken before
    }
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

 private:
  mutable std::mutex mutex_;  // a device's backward pass runs on a thread of its own
  std::unordered_set<void*> ours_;
  std::int64_t held_ = 0, peak_ = 0;
};

struct MemoryUse::Scope {
  explicit Scope(const std::shared_ptr<Count>& count) : guard(c10::DebugInfoKind::PROFILER_STATE, count) {}
  c10::DebugInfoGuard guard;
};

MemoryUse::MemoryUse() : count_(std::make_shared<Count>()), scope_(std::make_unique<Scope>(count_)) {}
MemoryUse::~MemoryUse() = default;

std::int64_t MemoryUse::held() const {
  return count_->held();
}
std::int64_t MemoryUse::peak() const {
  return count_->peak();
}

}  // namespace bilevel::torch
