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

template <class S>
void run_groups(const Phases<S>& phases, const PhaseTasks<S>* groups, int count, int threads) {
  const auto run = phase_loops<S>().run;
  // LibTorch's own parallel_for is a plain loop where the caller is compiled without OpenMP.
#pragma omp parallel for schedule(static, 1) num_threads(threads < count ? threads : count)
  for (int g = 0; g < count; ++g) run(phases, groups[g]);
}
template void run_groups(const Phases<float>&, const PhaseTasks<float>*, int, int);
template void run_groups(const Phases<double>&, const PhaseTasks<double>*, int, int);

}  // namespace bilevel::learning::kernels
