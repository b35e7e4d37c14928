#pragma once

#include <conformance/block_vector.hpp>

#include <bilevel/torch/tensor.hpp>

namespace bilevel::conformance {

template <>
struct Shaped<at::Tensor> {
  static at::Tensor zeros(Index n) { return at::zeros({n}, at::kDouble); }
};
template <>
struct Shaped<torch::SingleTensor> {
  static torch::SingleTensor zeros(Index n) { return torch::SingleTensor(at::zeros({n}, at::kFloat)); }
};

}  // namespace bilevel::conformance
