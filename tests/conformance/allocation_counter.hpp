#pragma once

// Counts calls of the allocator, whoever makes them: operator new of libstdc++ and Eigen's own allocation
// both end in malloc. Defines malloc, so include it in exactly one file of a program. Sanitisers bring their
// own malloc: there BILEVEL_COUNTS_ALLOCATIONS is 0 and nothing is counted.

#include <atomic>
#include <cstddef>
#include <cstdlib>

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
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  ++bilevel::conformance::allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  ++bilevel::conformance::allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  ++bilevel::conformance::allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++bilevel::conformance::allocations;
  return __libc_memalign(alignment, size);
}
}
#endif
