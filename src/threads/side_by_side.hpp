#pragma once

#include <cstddef>
#include <functional>

namespace bilevel {

/// work(0) … work(count − 1), each on a thread of its own as far as there are cores, the others in turn. May
/// be nested, and loops inside are divided too: cores that have nothing to do help with them, the outermost
/// work first. Which thread does what is not fixed, and what is computed does not depend on it. Returns when
/// all are done; where one of them throws, the rest is not begun and that is thrown here.
void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace bilevel
