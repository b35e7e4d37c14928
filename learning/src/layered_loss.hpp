#pragma once

#include <vector>

#include <bilevel/torch/tensor.hpp>

namespace bilevel::learning {

using torch::Tensor;

/// Mean losses of layers of tanh units, for tasks with weights of their own: LibTorch's
/// operations on many small matrices take several times as long as the arithmetic, so on a CPU all tasks are
/// run through by one loop over the cores.
struct LayeredLoss {
  std::vector<long> sizes;  ///< of the layers, inputs and outputs among them
  bool classes = false;     ///< cross-entropy of targets that are shares of classes, else squared errors

  /// Whether tensors like this one can be run through here.
  static bool suits(const Tensor& weights);
  /// One number a task. `weights`: tasks × parameters, W (outputs × inputs) and then b of each layer;
  /// x, y: tasks × rows × numbers. Twice differentiable in the weights, and in nothing else.
  Tensor operator()(const Tensor& weights, const Tensor& x, const Tensor& y) const;
};

}  // namespace bilevel::learning
