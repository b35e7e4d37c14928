#pragma once

#include <bilevel/inner/backtracking.hpp>

namespace bilevel {

template <Vector V>
Backtracking<V>::Backtracking(const V& like)
    : phi_(Space<V>::zeros_like(like)), gradient_(Space<V>::zeros_like(like)) {}

template <Vector V>
std::optional<Stop> Backtracking<V>::search(Nudged<V>& nudged, State<V>& state, const V& direction,
                                            double slope, double first, double sufficient_decrease) {
  length_ = first;
  double value = unknown;
  std::optional<Stop> outside;
  for (trials_ = 1; trials_ <= max_trials; ++trials_, length_ *= 0.5) {
    Space<V>::copy(state.phi, phi_);
    Space<V>::axpy(length_, direction, phi_);
    value = nudged.value_and_gradient(phi_, gradient_);
    if (nudged.outside(value)) {
      if (std::isnan(value)) outside = nudged.fault(value, gradient_, unknown, state.iteration + 1);
      continue;
    }
    outside.reset();
    const double gradient_norm = norm(gradient_);
    if (auto stop = nudged.fault(value, gradient_, gradient_norm, state.iteration + 1)) {
      if (stop->status == Status::diverged) continue;  // a finite gradient too long for its norm: too far
      return stop;
    }
    const bool decreases =
        value < state.value && value <= state.value + sufficient_decrease * length_ * slope;
    const bool promise_is_noise = -length_ * slope <= state.value_noise();
    const bool flattens = promise_is_noise && std::abs(value - state.value) <= state.value_noise() &&
                          gradient_norm < state.gradient_norm;
    if (!decreases && !flattens) continue;
    std::swap(state.phi, phi_);
    std::swap(state.gradient, gradient_);
    state.value = value;
    state.gradient_norm = gradient_norm;
    return {};
  }
  if (outside) return outside;  // however short the step
  return Stop{Status::stalled,
              fmt::format("no step decreases the loss: slope {:.3g}, lengths {:.3g} to {:.3g}, last trial "
                          "{:.10g}",
                          slope, first, 2 * length_, value)};
}

}  // namespace bilevel
