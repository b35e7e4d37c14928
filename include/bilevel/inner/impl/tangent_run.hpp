#pragma once

#include <bilevel/inner/tangent_run.hpp>
#include <bilevel/inner/impl/plain_run.hpp>

namespace bilevel {

template <Vector V>
TangentRun<V>::TangentRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options,
                          std::string_view who)
    : PlainRun<V>(problem, std::move(step), options, who),
      product_(Space<V>::zeros_like(this->state_.phi)),
      cross_(Space<V>::zeros_like(this->state_.phi)),
      unit_(Space<V>::zeros_like(problem.initial_theta())) {
  const auto columns = static_cast<std::size_t>(Space<V>::size(unit_));
  tangents_.reserve(columns);
  for (std::size_t j = 0; j < columns; ++j)
    tangents_.emplace_back(this->state_.phi, this->step_->footprint().memory);
}

/// The gradient of step k moves by H_k·S_k + χ_k, column by column.
template <Vector V>
std::optional<Stop> TangentRun<V>::before_step() {
  State<V>& state = this->state_;
  Curvature<V>& curvature = this->nudged_.curvature(state.phi);
  if (!this->step_->linear()) this->step_->differentiate(state);
  for (std::size_t j = 0; j < tangents_.size(); ++j) {
    Motion<V>& tangent = tangents_[j];
    Space<V>::unit(static_cast<Index>(j), unit_);
    curvature.times(tangent.phi, product_);
    curvature.cross_apply(unit_, cross_);
    Space<V>::axpy(1, cross_, product_);
    if (const double largest = Space<V>::max_abs(product_); !std::isfinite(largest))
      return Stop{Status::not_finite,
                  fmt::format("the derivative of the inner gradient by parameter {} is {} at iteration {}", j,
                              largest, state.iteration)};
    this->step_->pushforward(product_, tangent);
  }
  return {};
}

}  // namespace bilevel
