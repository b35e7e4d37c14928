// Both phases on a device: a block settles a task, whose numbers stay in the block's own memory. What would be
// hundreds of launches is one.

#include <cuda_runtime_api.h>

#include "device_phases.hpp"

#define BILEVEL_EVERYWHERE __device__

namespace bilevel::learning::kernels {
namespace {

constexpr int threads = 512;

template <class S>
struct Lanes {
  using Vector = S;
  using Mask = bool;
  static constexpr int count = 1;
};

__device__ int begin() {
  return static_cast<int>(threadIdx.x);
}
__device__ constexpr int stride() {
  return threads;
}
__device__ void together() {
  __syncthreads();
}
/// In every thread, and in the same order every time.
template <class S>
__device__ S total(S each) {
  __shared__ S warps[threads / 32];
  for (int distance = 16; distance > 0; distance /= 2) each += __shfl_down_sync(0xffffffffu, each, distance);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = each;
  __syncthreads();
  S sum = 0;
  for (const S warp : warps) sum += warp;
  return sum;
}
template <class S>
__device__ S lane(S of, int) {
  return of;
}
template <class S>
__device__ void set_lane(S& of, int, S value) {
  of = value;
}
__device__ bool any(bool mask) {
  return mask;
}
template <class S>
__device__ S root(S x) {
  return sqrt(x);
}
template <class S>
__device__ S hyperbolic_tangent(S x) {
  return tanh(x);
}

/// C (+)= A·B, as for the lanes of a processor.
template <class S>
struct Factors {
  int rows, inner, columns;
  const S* a;
  int a_row, a_inner;
  const S* b;
  int b_inner, b_column;
  const S* bias;
  bool add;
};

template <class S>
__device__ void multiply(const Factors<S>& f, S* c) {
  for (int i = begin(); i < f.rows * f.columns; i += stride()) {
    const int row = i / f.columns;
    const S *a = f.a + row * f.a_row, *b = f.b + (i - row * f.columns) * f.b_column;
    S sum = f.bias ? f.bias[row] : f.add ? c[i] : S(0);
#pragma unroll 8
    for (int k = 0; k < f.inner; ++k) sum += a[k * f.a_inner] * b[k * f.b_inner];
    c[i] = sum;
  }
}

}  // namespace
}  // namespace bilevel::learning::kernels

#include "phases.inc"

namespace bilevel::learning::kernels {
namespace {

template <class S>
__global__ void __launch_bounds__(threads) settle(const Phases<S> phases, PhaseTasks<S> t) {
  extern __shared__ double room[];
  const int task = static_cast<int>(blockIdx.x);
  const int in = phases.layer[0].in, out = phases.layer[phases.layers - 1].out;
  t.support_x += task * phases.support * in;
  t.support_y += task * phases.support * out;
  t.query_x += task * phases.query * in;
  t.query_y += task * phases.query * out;
  S** const rows[] = {&t.phi, &t.by_center, &t.by_allowed};
  for (S** each : rows) *each += task * phases.parameters;
  S** const numbers[] = {&t.loss, &t.residual, &t.left};
  for (S** each : numbers) *each += task;
  Group<S>(phases, t, room).run();
}

}  // namespace

template <class S>
const char* launch_phases(const Phases<S>& phases, const PhaseTasks<S>& first, int count, void* stream) {
  const int bytes = static_cast<int>(phase_room(phases) * static_cast<long>(sizeof(S)));
  cudaError_t error = cudaFuncSetAttribute(settle<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) {
    settle<S><<<count, threads, bytes, static_cast<cudaStream_t>(stream)>>>(phases, first);
    error = cudaGetLastError();
  }
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template const char* launch_phases(const Phases<float>&, const PhaseTasks<float>&, int, void*);
template const char* launch_phases(const Phases<double>&, const PhaseTasks<double>&, int, void*);

}  // namespace bilevel::learning::kernels
