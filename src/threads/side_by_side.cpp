#include "threads/side_by_side.hpp"

#include "threads/pool.hpp"

namespace bilevel {

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  pool::for_each(count, count, work);
}

}  // namespace bilevel
