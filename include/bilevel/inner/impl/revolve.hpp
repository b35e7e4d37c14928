#pragma once

#include <algorithm>

namespace bilevel {

/// Binomial checkpointing (Griewank and Walther 2000, "Revolve"): steps are reversed, last to first, while at
/// most s states are held, the first one among them. With r repetitions of any step that reaches
///   C(s + r, s)
/// steps, and no schedule needs fewer forward steps than the one that splits as below.
class Revolve {
 public:
  /// `length` ≥ 1 steps, `snapshots` ≥ 1 states held.
  Revolve(long length, long snapshots) : length_(length), snapshots_(std::min(snapshots, length)) {
    // C(s + r, s) from C(s + r − 1, s); as `here` < length before each product, 10⁹ steps do not overflow.
    while (here_ < length_) {
      ++repetitions_;
      before_last_ = last_;
      last_ = here_;
      here_ = here_ * (snapshots_ + repetitions_) / repetitions_;
    }
  }

  /// r, how often the most repeated step is taken; 0 for a single step.
  long repetitions() const { return repetitions_; }

  /// Forward steps until all are reversed: r·T − C(s + r, s + 1).
  long forward_steps() const {
    // C(s + r, s + 1) = Σ_{i<r} C(s + i, s), summed as the terms come.
    long sum = 0, term = 1;
    for (long i = 0; i < repetitions_; ++i) {
      sum += term;
      term = term * (snapshots_ + i + 1) / (i + 1);
    }
    return repetitions_ * length_ - sum;
  }

  /// Where the next state is to be held, in steps from the first one; in [1, length). Needs length ≥ 2 and
  /// snapshots ≥ 2. With b_r = C(s + r, s) both parts are then as long as r repetitions of the right one and
  /// r − 1 of the left one reach.
  long split() const { return std::min(last_, length_ - (last_ - before_last_)); }

 private:
  long length_, snapshots_;
  long repetitions_ = 0;
  long before_last_ = 0, last_ = 0, here_ = 1;  // b_{r−2}, b_{r−1}, b_r
};

}  // namespace bilevel
