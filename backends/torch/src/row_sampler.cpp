#include <bilevel/torch/row_sampler.hpp>

#include <numeric>
#include <utility>

namespace bilevel::torch {

Violations RowSamplerOptions::validate() const {
  Violations v("torch::RowSampler");
  v.at_least("rows", rows, 1);
  v.require(batch >= 1 && batch <= rows, "batch", batch, "must lie in 1 … rows");
  return v;
}

RowSampler::RowSampler(RowSamplerOptions options) : options_(options), engine_(options.seed) {
  options_.validate().throw_if_any();
  order_.resize(static_cast<std::size_t>(options_.rows));
  std::iota(order_.begin(), order_.end(), 0);
  shuffle();
}

/// Fisher and Yates, by hand: std::shuffle draws differently on different systems.
void RowSampler::shuffle() {
  for (std::size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[engine_() % (i + 1)]);
  at_ = 0;
  ++rounds_;
}

Tensor RowSampler::next() {
  if (at_ + options_.batch > options_.rows) shuffle();
  const Tensor batch =
      at::from_blob(order_.data() + at_, {options_.batch}, at::TensorOptions().dtype(at::kLong)).clone();
  at_ += options_.batch;
  return batch.to(options_.device);
}

}  // namespace bilevel::torch
