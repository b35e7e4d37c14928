#include <bilevel/outcome/side_by_side.hpp>

#include <exception>

namespace bilevel {

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  // A single piece keeps the cores for the loops inside it: nested parallel regions have one thread.
  if (count == 1) return work(0);
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t k = 0; k < count; ++k) {
    try {
      work(k);
    } catch (...) {
#pragma omp critical(bilevel_side_by_side)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace bilevel
