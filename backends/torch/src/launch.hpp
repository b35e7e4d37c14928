#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

namespace bilevel::torch {

/// Where work of one device is recorded: a stream beside that of the caller, since the usual one cannot be
/// recorded, and since a graph of autograd remembers the stream where it was made; and memory that recordings
/// share, which would otherwise be given back only when the device has none left. Copies are the same one.
class SideStream {
 public:
  SideStream() = default;
  explicit SideStream(const at::Device& device);

  /// Whether work can be recorded: on CUDA, where bilevel::torch was built with its headers.
  explicit operator bool() const { return side_ != nullptr; }

  /// Current while it lives: what is asked for then comes after all that the caller had asked for, and all
  /// that the caller asks for afterwards comes after it. One thread at a time.
  class Scope {
   public:
    explicit Scope(const SideStream& side);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    struct Entered;
    std::unique_ptr<Entered> entered_;
  };

 private:
  friend class Launch;
  struct Side;
  std::shared_ptr<Side> side_;
};

/// Work on a device that was asked for once and is asked for again as one: a graph of CUDA, which takes one
/// launch where its operations took hundreds. It runs the same operations on the same addresses; numbers that
/// the host had put into them are those of the recording.
class Launch {
 public:
  Launch();
  ~Launch();
  Launch(Launch&&) noexcept;
  Launch& operator=(Launch&&) noexcept;

  /// Records `work`, which has run before on this side stream, and does not run it; within a Scope of it.
  /// False where that cannot be: it waits for the device, or asks it for what cannot be recorded. Tensors
  /// that it makes belong to the recording.
  bool record(const SideStream& side, const std::function<void()>& work);
  bool recorded() const { return graph_ != nullptr; }
  /// On the caller's stream, after whatever else used the memory of this side stream.
  void replay();
  void forget();

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace bilevel::torch
