// Inner products accumulated in double. Bound by memory: a conversion to double beforehand would write and read
// three times what is read here.

#include <cuda_runtime_api.h>

#include "device_dots_kernel.hpp"

namespace bilevel::torch {

namespace {

constexpr int threads = 256;

template <class S>
struct Factors {
  const S* y[dot_products_a_pass];
};

/// The sum over a block's threads, in thread 0; the same order every time.
__device__ double block_sum(double each) {
  __shared__ double warps[threads / 32];
  for (int distance = 16; distance > 0; distance /= 2) each += __shfl_down_sync(0xffffffffu, each, distance);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = each;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0)
    for (const double warp : warps) sum += warp;
  __syncthreads();
  return sum;
}

template <class S, int count>
__global__ void partial_dots(const S* x, Factors<S> with, long long size, double* partial) {
  double sums[count] = {};
  const long long stride = static_cast<long long>(gridDim.x) * threads;
#pragma unroll 4
  for (long long i = static_cast<long long>(blockIdx.x) * threads + threadIdx.x; i < size; i += stride) {
    const double each = x[i];
#pragma unroll
    for (int k = 0; k < count; ++k) sums[k] += each * static_cast<double>(with.y[k][i]);
  }
#pragma unroll
  for (int k = 0; k < count; ++k) {
    const double sum = block_sum(sums[k]);
    if (threadIdx.x == 0) partial[k * dot_blocks + blockIdx.x] = sum;
  }
}

/// One block a product.
__global__ void sum_up(const double* partial, double* out) {
  double sum = 0;
  for (int i = threadIdx.x; i < dot_blocks; i += threads) sum += partial[blockIdx.x * dot_blocks + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

template <class S>
void launch(const void* x, const void* const* ys, int count, long long size, double* partial, double* out,
            cudaStream_t stream) {
  static_assert(dot_products_a_pass == 4);
  Factors<S> with{};
  for (int k = 0; k < count; ++k) with.y[k] = static_cast<const S*>(ys[k]);
  const S* from = static_cast<const S*>(x);
  switch (count) {
    case 1: partial_dots<S, 1><<<dot_blocks, threads, 0, stream>>>(from, with, size, partial); break;
    case 2: partial_dots<S, 2><<<dot_blocks, threads, 0, stream>>>(from, with, size, partial); break;
    case 3: partial_dots<S, 3><<<dot_blocks, threads, 0, stream>>>(from, with, size, partial); break;
    case 4: partial_dots<S, 4><<<dot_blocks, threads, 0, stream>>>(from, with, size, partial); break;
  }
  sum_up<<<count, threads, 0, stream>>>(partial, out);
}

}  // namespace

void launch_dots(const void* x, const void* const* ys, int count, long long size, bool single,
                 double* partial, double* out, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (single)
    launch<float>(x, ys, count, size, partial, out, on);
  else
    launch<double>(x, ys, count, size, partial, out, on);
}

}  // namespace bilevel::torch
