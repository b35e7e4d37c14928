#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace bilevel::torch {

/// ⟨x, ys_k⟩ as a tensor of the device, accumulated in double with every element read once. Undefined where x
/// is not on a CUDA device or its kernel was not built.
at::Tensor device_dots(const at::Tensor& x, const std::vector<at::Tensor>& ys);

}  // namespace bilevel::torch
