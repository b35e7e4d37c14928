#include "small_products.hpp"

#include <bilevel/problems/kernels.hpp>

namespace bilevel::learning::kernels {
namespace {

const Products& chosen() {
#ifdef BILEVEL_X86_KERNELS
  if (problems::kernels::chosen() != problems::kernels::Target::baseline) return avx2_products;
#endif
  return baseline_products;
}

}  // namespace

template <>
Product<float>* product<float>() {
  return chosen().single;
}
template <>
Product<double>* product<double>() {
  return chosen().whole;
}

}  // namespace bilevel::learning::kernels
