#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <bilevel/outcome/violations.hpp>

#include "pieces.hpp"

namespace bilevel::problems::kernels {
namespace {

constexpr std::array targets{Target::baseline, Target::avx2, Target::avx512};

const Table& table_of([[maybe_unused]] Target target) {
#ifdef BILEVEL_X86_KERNELS
  if (target == Target::avx2) return avx2_table;
  if (target == Target::avx512) return avx512_table;
#endif
  return baseline_table;
}

Target best() {
  if (const char* wish = std::getenv("BILEVEL_KERNELS"); wish && *wish) {
    for (Target target : targets)
      if (name(target) == wish) {
        if (!available(target))
          throw InvalidInput(
              fmt::format("BILEVEL_KERNELS = {}: this processor or this build does not have it", wish));
        return target;
      }
    throw InvalidInput(fmt::format("BILEVEL_KERNELS = {} must be baseline, avx2 or avx512", wish));
  }
  if (available(Target::avx512)) return Target::avx512;
  return available(Target::avx2) ? Target::avx2 : Target::baseline;
}

struct Choice {
  Target target = best();
  const Table* table = &table_of(target);
};

Choice& choice() {
  static Choice current;
  return current;
}

}  // namespace

const Table& table() {
  return *choice().table;
}

std::string_view name(Target target) {
  constexpr std::array<std::string_view, 3> names{"baseline", "avx2", "avx512"};
  return names[static_cast<std::size_t>(target)];
}

bool available(Target target) {
  if (target == Target::baseline) return true;
#ifdef BILEVEL_X86_KERNELS
  __builtin_cpu_init();
  if (target == Target::avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

Target chosen() {
  return choice().target;
}

void use(Target target) {
  if (!available(target)) throw InvalidInput(fmt::format("kernels: {} is not available here", name(target)));
  choice() = {target, &table_of(target)};
}

int threads() {
  return pool::threads();
}

void set_threads([[maybe_unused]] int count) {
  if (count < 1) throw InvalidInput(fmt::format("kernels: {} threads; there must be at least one", count));
#ifdef _OPENMP
  omp_set_num_threads(count);
#endif
}

Buffer allocate(Index count) {
  const auto bytes = static_cast<std::size_t>(std::max<Index>(count, 1)) * sizeof(double);
  Buffer buffer(static_cast<double*>(::operator new[](bytes, std::align_val_t{64})));
#ifdef __linux__
  // Pages of 2 MiB where there are any to have: a stream through X then misses the address cache less.
  // Advice only; that it is not taken is no error.
  constexpr std::uintptr_t large_page = 1 << 21;
  const auto start = (reinterpret_cast<std::uintptr_t>(buffer.get()) + large_page - 1) & ~(large_page - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(buffer.get()) + bytes) & ~(large_page - 1);
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#endif
  std::memset(buffer.get(), 0, bytes);
  return buffer;
}

void exponential(const double* x, double* out, Index count) {
  table().exponential(x, out, count);
}
void softplus_of_minus_abs(const double* x, double* out, Index count) {
  table().softplus_of_minus_abs(x, out, count);
}

}  // namespace bilevel::problems::kernels
