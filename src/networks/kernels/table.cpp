#include "table.hpp"

#include <bilevel/problems/kernels.hpp>

namespace bilevel::networks::kernels {

/// The target that the other kernels of the library use.
template <>
const Table<float>& table<float>() {
#ifdef BILEVEL_X86_KERNELS
  if (problems::kernels::chosen() == problems::kernels::Target::avx512) return avx512_float;
  if (problems::kernels::chosen() == problems::kernels::Target::avx2) return avx2_float;
#endif
  return baseline_float;
}

template <>
const Table<double>& table<double>() {
#ifdef BILEVEL_X86_KERNELS
  if (problems::kernels::chosen() == problems::kernels::Target::avx512) return avx512_double;
  if (problems::kernels::chosen() == problems::kernels::Target::avx2) return avx2_double;
#endif
  return baseline_double;
}

}  // namespace bilevel::networks::kernels
