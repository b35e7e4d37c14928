#pragma once

#include <bilevel/inner/backtracking_descent.hpp>
#include <bilevel/inner/impl/backtracking.hpp>

namespace bilevel {

template <Vector V>
BacktrackingDescent<V>::BacktrackingDescent(BacktrackingDescentOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
std::optional<Stop> BacktrackingDescent<V>::begin(Nudged<V>&, State<V>& state) {
  if (!search_) {
    search_.emplace(state.phi);
    direction_ = Space<V>::zeros_like(state.phi);
  }
  length_ = options_.first_step;
  return {};
}

template <Vector V>
std::optional<Stop> BacktrackingDescent<V>::advance(Nudged<V>& nudged, State<V>& state) {
  Space<V>::copy(state.gradient, *direction_);
  Space<V>::scale(-1, *direction_);
  const double slope = -state.gradient_norm * state.gradient_norm;
  if (auto stop = search_->search(nudged, state, *direction_, slope, length_, options_.sufficient_decrease))
    return stop;
  length_ = search_->length();
  // Where the promised decrease is rounding, success says nothing about longer steps, but a slope
  // that has not fallen to half does: the minimum along the line lies more than twice as far.
  const bool promise_counts = -slope * length_ > state.value_noise();
  if (search_->trials() == 1 && (promise_counts || Space<V>::dot(state.gradient, *direction_) < 0.5 * slope))
    length_ *= 2;
  return {};
}

}  // namespace bilevel
