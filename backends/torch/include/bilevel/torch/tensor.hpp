#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include <bilevel/outcome/violations.hpp>
#include <bilevel/space/space.hpp>

namespace bilevel::torch {

using Tensor = at::Tensor;
using Tensors = std::vector<at::Tensor>;

/// A tensor of float32 as a vector. How accurate its numbers are is part of a vector's type
/// (`unit_roundoff`), of a tensor's it is not: at::Tensor stands for float64, this for float32. Copies share
/// their elements, as tensors' do.
struct SingleTensor {
  SingleTensor() = default;
  explicit SingleTensor(Tensor elements) : tensor(std::move(elements)) {}

  Tensor tensor;
};

inline const Tensor& tensor_of(const Tensor& x) {
  return x;
}
inline Tensor& tensor_of(Tensor& x) {
  return x;
}
inline const Tensor& tensor_of(const SingleTensor& x) {
  return x.tensor;
}
inline Tensor& tensor_of(SingleTensor& x) {
  return x.tensor;
}

/// How often this thread has fetched numbers of a tensor to the host, each time waiting for everything that
/// was asked of the device before: one for a scalar, one for a whole vector. Counted on the CPU too, where it
/// costs nothing, so that a program can be judged without a device.
long synchronisations();
/// The scalar, fetched and counted.
double fetch(const Tensor& scalar);

/// What Space asks, on tensors of any device and shape. They are contiguous and no gradient is recorded.
namespace elements {

double dot(const Tensor& x, const Tensor& y);
/// Of x with each, fetched together.
void dots(const Tensor& x, const Tensors& ys, double* out);
void axpy(double a, const Tensor& x, Tensor& y);
void scale(double a, Tensor& x);
void fill(double a, Tensor& x);
void unit(Index j, Tensor& x);
void copy(const Tensor& x, Tensor& y);
/// Throws InvalidInput for a tensor of another type than `type`: its numbers would be taken for more, or
/// less, accurate than they are.
Tensor zeros_like(const Tensor& x, at::ScalarType type);
void multiply(const Tensor& x, Tensor& y);
void divide(const Tensor& x, Tensor& y);
void sqrt(Tensor& x);
void clamp(const Tensor& lower, const Tensor& upper, Tensor& x);
double max_abs(const Tensor& x);
/// Drawn on the host, so that every device sees the same, and the same as vectors of Eigen.
void random(std::uint64_t seed, Tensor& x);
Index size(const Tensor& x);
void to_host(const Tensor& x, double* host);
void from_host(const double* host, Tensor& x);

}  // namespace elements

/// Both spaces: only what a number is differs.
template <class V, class S>
struct SpaceOfTensors {
  using Scalar = S;
  static constexpr at::ScalarType type = sizeof(S) == 4 ? at::kFloat : at::kDouble;

  static double dot(const V& x, const V& y) { return elements::dot(tensor_of(x), tensor_of(y)); }
  static void dots(const V& x, std::span<const V* const> ys, double* out) {
    Tensors tensors;
    for (const V* y : ys) tensors.push_back(tensor_of(*y));
    elements::dots(tensor_of(x), tensors, out);
  }
  static void axpy(double a, const V& x, V& y) { elements::axpy(a, tensor_of(x), tensor_of(y)); }
  static void scale(double a, V& x) { elements::scale(a, tensor_of(x)); }
  static void fill(double a, V& x) { elements::fill(a, tensor_of(x)); }
  static void unit(Index j, V& x) { elements::unit(j, tensor_of(x)); }
  static void copy(const V& x, V& y) { elements::copy(tensor_of(x), tensor_of(y)); }
  static V zeros_like(const V& x) { return V(elements::zeros_like(tensor_of(x), type)); }
  static void multiply(const V& x, V& y) { elements::multiply(tensor_of(x), tensor_of(y)); }
  static void divide(const V& x, V& y) { elements::divide(tensor_of(x), tensor_of(y)); }
  static void sqrt(V& x) { elements::sqrt(tensor_of(x)); }
  static void clamp(const V& lower, const V& upper, V& x) {
    elements::clamp(tensor_of(lower), tensor_of(upper), tensor_of(x));
  }
  static long synchronisations() { return bilevel::torch::synchronisations(); }
  static double max_abs(const V& x) { return elements::max_abs(tensor_of(x)); }
  static void random(std::uint64_t seed, V& x) { elements::random(seed, tensor_of(x)); }
  static Index size(const V& x) { return elements::size(tensor_of(x)); }
  static void to_host(const V& x, double* host) { elements::to_host(tensor_of(x), host); }
  static void from_host(const double* host, V& x) { elements::from_host(host, tensor_of(x)); }
};

}  // namespace bilevel::torch

template <>
struct bilevel::Space<at::Tensor> : bilevel::torch::SpaceOfTensors<at::Tensor, double> {};
template <>
struct bilevel::Space<bilevel::torch::SingleTensor>
    : bilevel::torch::SpaceOfTensors<bilevel::torch::SingleTensor, float> {};

namespace bilevel::torch {
static_assert(Vector<Tensor> && Vector<SingleTensor>);
}
