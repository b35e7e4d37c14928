#include "phases.hpp"

#include <bilevel/problems/kernels.hpp>

namespace bilevel::learning::kernels {
namespace {

const PhaseTarget& phases_chosen() {
#ifdef BILEVEL_X86_KERNELS
  using problems::kernels::Target;
  const Target target = problems::kernels::chosen();
  if (target == Target::avx512) return avx512_phases;
  if (target == Target::avx2) return avx2_phases;
#endif
  return baseline_phases;
}

}  // namespace

template <>
const PhaseLoops<float>& phase_loops<float>() {
  return phases_chosen().single;
}
template <>
const PhaseLoops<double>& phase_loops<double>() {
  return phases_chosen().whole;
}

}  // namespace bilevel::learning::kernels
