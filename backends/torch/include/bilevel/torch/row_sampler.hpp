#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <bilevel/torch/tensor.hpp>

namespace bilevel::torch {

struct RowSamplerOptions {
  long rows = 0;   ///< to draw from, ≥ 1
  long batch = 0;  ///< rows of one draw, in 1 … rows
  std::uint64_t seed = 1;
  at::Device device = at::kCPU;  ///< where the numbers go

  Violations validate() const;
};

/// Rows in random order without replacement: everyone once, then in a new order. Each loss has one of its
/// own, so that what one has seen does not decide what the other sees. A batch that does not fit any more
/// into a round starts the next one: all batches have the same size.
class RowSampler {
 public:
  explicit RowSampler(RowSamplerOptions options);

  /// int64, on the device.
  Tensor next();
  long rounds() const { return rounds_; }  ///< begun

 private:
  void shuffle();

  RowSamplerOptions options_;
  std::mt19937_64 engine_;
  std::vector<std::int64_t> order_;
  long at_ = 0, rounds_ = 0;
};

}  // namespace bilevel::torch
