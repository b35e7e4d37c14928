#pragma once

#include <cstddef>
#include <functional>

namespace bilevel {

/// work(0) … work(count − 1), each on a thread of its own as far as there are cores; loops inside stay on
/// that thread. Returns when all are done; what one of them throws is thrown here.
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace bilevel
