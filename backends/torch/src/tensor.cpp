#include <algorithm>
#include <cmath>
#include <cstring>

#include <bilevel/space/eigen.hpp>
#include <bilevel/torch/tensor.hpp>

#include "device_dots.hpp"

namespace bilevel::torch {

namespace {

thread_local long fetched = 0;

/// The elements in a row, as they lie in memory.
Tensor in_a_row(const Tensor& x) {
  return x.dim() == 1 ? x : x.view({-1});
}

/// Floats whose products Eigen adds up in double as it reads them; LibTorch would have to convert them first.
bool floats_on_host(const Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous();
}

Eigen::Map<const Eigen::VectorXf> floats(const Tensor& x) {
  return {x.data_ptr<float>(), static_cast<Index>(x.numel())};
}

}  // namespace

long synchronisations() {
  return fetched;
}

double fetch(const Tensor& scalar) {
  ++fetched;
  return scalar.item<double>();
}

namespace elements {

double dot(const Tensor& x, const Tensor& y) {
  double product = 0;
  dots(x, {y}, &product);
  return product;
}

void dots(const Tensor& x, const Tensors& ys, double* out) {
  if (ys.empty()) return;
  if (size(x) == 0) {
    std::fill_n(out, ys.size(), 0.0);
    return;
  }
  const at::NoGradGuard guard;
  if (const Tensor found = device_dots(x, ys); found.defined()) return to_host(found, out);
  const auto like_x = [&](const Tensor& y) { return floats_on_host(y) && y.numel() == x.numel(); };
  if (floats_on_host(x) && std::all_of(ys.begin(), ys.end(), like_x)) {
    ++fetched;
    for (const Tensor& y : ys) *out++ = floats(x).cast<double>().dot(floats(y).cast<double>());
    return;
  }
  const bool exact = x.scalar_type() == at::kDouble;
  const Tensor a = exact ? in_a_row(x) : in_a_row(x).to(at::kDouble);
  Tensors products;
  for (const Tensor& y : ys)
    products.push_back(at::dot(a, exact ? in_a_row(y) : x.is_same(y) ? a : in_a_row(y).to(at::kDouble)));
  if (products.size() == 1)
    *out = fetch(products.front());
  else
    to_host(at::stack(products), out);
}

void axpy(double a, const Tensor& x, Tensor& y) {
  const at::NoGradGuard guard;
  y.add_(x, a);
}

void scale(double a, Tensor& x) {
  const at::NoGradGuard guard;
  if (a == 0)
    x.zero_();
  else
    x.mul_(a);
}

void fill(double a, Tensor& x) {
  const at::NoGradGuard guard;
  x.fill_(a);
}

void unit(Index j, Tensor& x) {
  const at::NoGradGuard guard;
  x.zero_();
  in_a_row(x).narrow(0, j, 1).fill_(1);
}

void copy(const Tensor& x, Tensor& y) {
  const at::NoGradGuard guard;
  if (y.defined() && x.defined() && y.sizes() == x.sizes())
    y.copy_(x);
  else
    y = x.defined() ? x.detach().clone(at::MemoryFormat::Contiguous) : Tensor();
}

Tensor zeros_like(const Tensor& x, at::ScalarType type) {
  const at::NoGradGuard guard;
  if (!x.defined()) return at::zeros({0}, type);
  if (x.scalar_type() != type)
    throw InvalidInput(fmt::format(
        "a tensor of {} was given as a vector of {}: {}", c10::toString(x.scalar_type()), c10::toString(type),
        "at::Tensor stands for float64, bilevel::torch::SingleTensor for float32"));
  return at::zeros(x.sizes(), x.options().requires_grad(false));
}

void multiply(const Tensor& x, Tensor& y) {
  const at::NoGradGuard guard;
  y.mul_(x);
}

void divide(const Tensor& x, Tensor& y) {
  const at::NoGradGuard guard;
  y.div_(x);
}

void sqrt(Tensor& x) {
  const at::NoGradGuard guard;
  x.sqrt_();
}

void clamp(const Tensor& lower, const Tensor& upper, Tensor& x) {
  const at::NoGradGuard guard;
  x.clamp_(lower, upper);
}

double max_abs(const Tensor& x) {
  if (size(x) == 0) return 0;
  const at::NoGradGuard guard;
  return fetch(at::linalg_vector_norm(x, INFINITY));
}

void random(std::uint64_t seed, Tensor& x) {
  if (size(x) == 0) return;
  Eigen::VectorXd host(size(x));
  Space<Eigen::VectorXd>::random(seed, host);
  from_host(host.data(), x);
}

Index size(const Tensor& x) {
  return x.defined() ? static_cast<Index>(x.numel()) : 0;
}

void to_host(const Tensor& x, double* host) {
  if (size(x) == 0) return;
  const at::NoGradGuard guard;
  ++fetched;
  const Tensor there = x.detach().to(at::kCPU, at::kDouble).contiguous();
  std::memcpy(host, there.data_ptr<double>(), static_cast<std::size_t>(there.numel()) * sizeof(double));
}

void from_host(const double* host, Tensor& x) {
  if (size(x) == 0) return;
  const at::NoGradGuard guard;
  // from_blob takes what is not const, and is only read from.
  x.copy_(at::from_blob(const_cast<double*>(host), x.sizes(), at::TensorOptions().dtype(at::kDouble)));
}

}  // namespace elements

}  // namespace bilevel::torch
