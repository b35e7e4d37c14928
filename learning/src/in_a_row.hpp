#pragma once

#include <vector>

#include <bilevel/torch/tensor.hpp>

// Tensors one after the other in a row of numbers, as vectors of the library hold them.
namespace bilevel::learning {

using Shapes = std::vector<std::vector<std::int64_t>>;

inline Shapes shapes_of(const torch::Tensors& parts) {
  Shapes shapes;
  for (const torch::Tensor& each : parts) shapes.push_back(each.sizes().vec());
  return shapes;
}

/// Of their numbers: no graph leads back to the parts.
inline torch::Tensor in_a_row(const torch::Tensors& parts) {
  torch::Tensors rows;
  for (const torch::Tensor& each : parts) rows.push_back(each.detach().reshape({-1}));
  return at::cat(rows);
}

/// Views of the row.
inline torch::Tensors parts_of(const torch::Tensor& row, const Shapes& shapes) {
  torch::Tensors parts;
  std::int64_t at = 0;
  for (const auto& shape : shapes) {
    const std::int64_t count = c10::multiply_integers(shape);
    parts.push_back(row.narrow(0, at, count).view(shape));
    at += count;
  }
  return parts;
}

}  // namespace bilevel::learning
