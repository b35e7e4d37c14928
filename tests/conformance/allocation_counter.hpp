#pragma once

// Counts calls of the allocator, whoever makes them: operator new of libstdc++ and Eigen's own allocation
// both end in malloc. Only those of OpenBLAS itself are left out: on some processors its products of small
// matrices allocate, whatever they are given. Defines malloc, so include it in exactly one file of a program.
// Sanitisers bring their own malloc: there BILEVEL_COUNTS_ALLOCATIONS is 0 and nothing is counted.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define BILEVEL_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BILEVEL_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef BILEVEL_COUNTS_ALLOCATIONS
#define BILEVEL_COUNTS_ALLOCATIONS 1
#endif

namespace bilevel::conformance {
inline std::atomic<long> allocations{0};
}

#if BILEVEL_COUNTS_ALLOCATIONS
#include <link.h>

namespace bilevel::conformance {

/// Where the code of OpenBLAS lies; found before main.
inline std::uintptr_t blas_begin = 0, blas_end = 0;

[[gnu::constructor]] inline void find_blas() {
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void*) {
        if (std::strstr(library->dlpi_name, "openblas") == nullptr) return 0;
        blas_begin = library->dlpi_addr;
        for (int i = 0; i < library->dlpi_phnum; ++i) {
          const std::uintptr_t end =
              library->dlpi_addr + library->dlpi_phdr[i].p_vaddr + library->dlpi_phdr[i].p_memsz;
          if (library->dlpi_phdr[i].p_type == PT_LOAD && end > blas_end) blas_end = end;
        }
        return 1;
      },
      nullptr);
}

inline void count(void* caller) {
  const auto from = reinterpret_cast<std::uintptr_t>(caller);
  if (from < blas_begin || from >= blas_end) ++allocations;
}

}  // namespace bilevel::conformance

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  bilevel::conformance::count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  bilevel::conformance::count(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  bilevel::conformance::count(__builtin_return_address(0));
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  bilevel::conformance::count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}
}
#endif
