#include <bilevel/networks/product_memory.hpp>

#include <vector>

#include <sys/mman.h>

#include "gemm.hpp"

namespace bilevel::networks {

bool reserve_product_memory() {
  // A piece as large as OpenBLAS asks for, with some room; a second one where it has threads of its own.
  constexpr std::size_t piece = std::size_t{160} << 20;
  const std::size_t bytes = piece * (openblas_get_num_threads() == 1 ? 1 : 2);
  void* const taken = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED) return false;
  ::munmap(taken, bytes);
  // Large enough for it to be used.
  constexpr Index size = 128;
  const std::vector<float> a(size * size, 1.0F);
  std::vector<float> product(size * size);
  const OneBlasThread one;
  gemm(Transposed::no, Transposed::no, size, size, size, 1.0F, a.data(), size, a.data(), size, 0.0F,
       product.data(), size);
  return product[0] == static_cast<float>(size);
}

}  // namespace bilevel::networks
