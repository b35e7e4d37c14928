#pragma once

#include <optional>

#include <bilevel/inner/backtracking.hpp>
#include <bilevel/space/eigen.hpp>

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

extern template class BacktrackingDescent<Eigen::VectorXd>;
extern template class BacktrackingDescent<Eigen::VectorXf>;

}  // namespace bilevel
