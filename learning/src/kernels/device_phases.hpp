#pragma once

#include "phases.hpp"

namespace bilevel::learning::kernels {

/// Numbers of a block's own memory that may be asked for, in bytes, on devices from compute capability 9 on;
/// a device that has less says so when it is asked.
inline constexpr long most_device_room = 224 << 10;

/// Both phases of `count` tasks, a block each: `first` is the first one's, whose count is 1 and whose results
/// every other task's follow. By by_center and by_allowed each has a row of its own. `stream` is a
/// cudaStream_t. Returns CUDA's words where it refused, else null.
template <class S>
const char* launch_phases(const Phases<S>& phases, const PhaseTasks<S>& first, int count, void* stream);

}  // namespace bilevel::learning::kernels
