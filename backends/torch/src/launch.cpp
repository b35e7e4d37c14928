#include "launch.hpp"

#ifdef BILEVEL_TORCH_CUDA
#include <mutex>
#include <optional>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/StreamGuard.h>
#include <torch/version.h>
#endif

namespace bilevel::torch {

#ifdef BILEVEL_TORCH_CUDA

namespace {

/// Into `graph` from the current stream, with memory of `pool`; false where it was broken off.
bool record_into(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool, const c10::Device& device,
                 const std::function<void()>& work) {
  bool begun = false;
  try {
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 201
    // Other threads may go on asking their device for memory meanwhile.
    graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
#else
    graph.capture_begin(pool);
#endif
    begun = true;
    work();
    begun = false;
    graph.capture_end();
    return true;
  } catch (const std::exception&) {
    // Whoever reads the next status of CUDA, or asks for memory, is not to find this one.
    if (begun) {
      try {
        graph.capture_end();
      } catch (const std::exception&) {
      }
    }
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 202
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device.index(), pool);
    } catch (const std::exception&) {
    }
#endif
    static_cast<void>(cudaGetLastError());
    return false;
  }
}

}  // namespace

struct SideStream::Side {
  c10::Stream stream;
  at::cuda::MempoolId_t pool;
  /// A pool is one only while something that was recorded has memory of it.
  std::unique_ptr<at::cuda::CUDAGraph> first;
  at::Tensor of_first;

  std::recursive_mutex busy;
  /// The last use of the memory, and where it was.
  c10::Event used;
  std::optional<c10::Stream> used_on;

  explicit Side(const c10::Device& device)
      : stream(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
        used(device.type()) {
    renew();
  }

  /// Takes another pool. One in which a recording was broken off takes it to be still going on.
  bool renew() {
    const c10::StreamGuard guard(stream);
    const auto options = at::TensorOptions().device(stream.device());
    pool = at::cuda::graph_pool_handle();
    first = std::make_unique<at::cuda::CUDAGraph>();
    if (!record_into(*first, pool, stream.device(), [&] { of_first = at::zeros({1}, options); }))
      first.reset();
    return first != nullptr;
  }
  void put_behind_last_use(const c10::Stream& next) {
    if (used_on && *used_on != next) used.block(next);
  }
  void use(const c10::Stream& on) {
    used.record(on);
    used_on = on;
  }

  static std::shared_ptr<Side> take(const c10::Device& device);
};

/// One that nobody has any more, or a new one; none where nothing can be recorded.
std::shared_ptr<SideStream::Side> SideStream::Side::take(const c10::Device& device) {
  struct Idle {
    std::mutex busy;
    std::vector<std::unique_ptr<Side>> sides;
  };
  // Never destroyed: CUDA may have ended before.
  static Idle& idle = *new Idle;
  std::unique_ptr<Side> side;
  {
    const std::lock_guard lock(idle.busy);
    for (auto& each : idle.sides)
      if (each->stream.device() == device) {
        side = std::move(each);
        std::swap(each, idle.sides.back());
        idle.sides.pop_back();
        break;
      }
  }
  if (!side) side = std::make_unique<Side>(device);
  if (!side->first && !side->renew()) return nullptr;
  return std::shared_ptr<Side>(side.release(), [](Side* used) {
    const std::lock_guard lock(idle.busy);
    idle.sides.emplace_back(used);
  });
}

SideStream::SideStream(const at::Device& device) {
  if (!device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  side_ = Side::take(device.has_index() ? device : guard.getDevice());
}

struct SideStream::Scope::Entered {
  Side& side;  // of the SideStream, which outlives its scopes
  std::lock_guard<std::recursive_mutex> lock;
  c10::Stream caller;
  c10::StreamGuard guard;
};

SideStream::Scope::Scope(const SideStream& side) {
  if (!side) return;
  Side& s = *side.side_;
  const c10::impl::VirtualGuardImpl streams(s.stream.device_type());
  const c10::Stream caller = streams.getStream(s.stream.device());
  entered_.reset(new Entered{s, std::lock_guard(s.busy), caller, c10::StreamGuard(s.stream)});
  s.put_behind_last_use(s.stream);
  c10::Event asked(s.stream.device_type());
  asked.record(caller);
  asked.block(s.stream);
}

SideStream::Scope::~Scope() {
  if (!entered_) return;
  try {
    entered_->side.use(entered_->side.stream);
    entered_->side.used.block(entered_->caller);
  } catch (const std::exception&) {
    // The device is lost; the next thing asked of it says so.
  }
}

struct Launch::Graph {
  std::shared_ptr<SideStream::Side> side;
  at::cuda::CUDAGraph graph;
};

bool Launch::record(const SideStream& side, const std::function<void()>& work) {
  graph_.reset();
  auto recording = std::make_unique<Graph>();
  recording->side = side.side_;
  if (side.side_->first && record_into(recording->graph, side.side_->pool, side.side_->stream.device(), work))
    graph_ = std::move(recording);
  else
    side.side_->renew();
  return recorded();
}

void Launch::replay() {
  SideStream::Side& side = *graph_->side;
  const std::lock_guard lock(side.busy);
  const c10::impl::VirtualGuardImpl streams(side.stream.device_type());
  const c10::Stream caller = streams.getStream(side.stream.device());
  side.put_behind_last_use(caller);
  graph_->graph.replay();
  side.use(caller);
}

#else

struct SideStream::Side {};
struct SideStream::Scope::Entered {};
struct Launch::Graph {};

SideStream::SideStream(const at::Device&) {}
SideStream::Scope::Scope(const SideStream&) {}
SideStream::Scope::~Scope() = default;

bool Launch::record(const SideStream&, const std::function<void()>&) {
  return false;
}
void Launch::replay() {}

#endif

Launch::Launch() = default;
Launch::~Launch() = default;
Launch::Launch(Launch&&) noexcept = default;
Launch& Launch::operator=(Launch&&) noexcept = default;

void Launch::forget() {
  graph_.reset();
}

}  // namespace bilevel::torch
