#pragma once

#include <optional>

#include <bilevel/inner/backtracking.hpp>

namespace bilevel {

struct BacktrackingDescentOptions {
  /// Length of the very first trial; > 0. Corrected by the search within a few evaluations.
  double first_step = 1;
  /// c of Armijo's condition; in (0, 1). With c the search accepts every α ≤ 2(1 − c)/L, and 1/4 lets
  /// steps grow to 1.5/L, where each eigendirection still shrinks by half or more of what it can.
  double sufficient_decrease = 0.25;

  Violations validate() const {
    Violations v("gradient-descent-backtracking");
    v.positive("first_step", first_step);
    v.require(sufficient_decrease > 0 && sufficient_decrease < 1, "sufficient_decrease", sufficient_decrease,
              "must lie in (0, 1)");
    return v;
  }
};

/// φ ← φ − α∇(φ) with α from Armijo's search. Needs no constants and no curvature: the length that
/// served last is tried first, and twice that after a trial that succeeded at once.
template <Vector V>
class BacktrackingDescent final : public Step<V> {
 public:
  explicit BacktrackingDescent(BacktrackingDescentOptions options = {});
  std::string_view name() const override { return "gradient-descent-backtracking"; }
  void check(Nudged<V>&, const State<V>&) override {}
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  bool searches() const override { return true; }
  std::size_t bytes() const override { return search_ ? search_->bytes() + bytes_of(*direction_) : 0; }

 private:
  BacktrackingDescentOptions options_;
  std::optional<Backtracking<V>> search_;
  std::optional<V> direction_;
  double length_ = 1;
};

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

extern template class BacktrackingDescent<Eigen::VectorXd>;
extern template class BacktrackingDescent<Eigen::VectorXf>;

}  // namespace bilevel
