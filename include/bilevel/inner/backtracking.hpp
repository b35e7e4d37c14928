#pragma once

#include <bilevel/inner/step.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Armijo's search: the first α of first, first/2, first/4, … with
///   L(φ + αp) ≤ L(φ) + c·α·∇ᵀp,
/// or, where the promised and the actual change of the value are both within rounding, with a smaller
/// gradient norm. The
/// second clause lets a run go on to gradients far smaller than differences of values can show.
template <Vector V>
class Backtracking {
 public:
  explicit Backtracking(const V& like);

  /// On success the state holds the new point, evaluated. `slope` is ∇ᵀp, negative. A value of +∞, or an
  /// inner value of NaN, is a point outside of the domain and merely shortens the step; where the
  /// shortest step still gives NaN that is an error.
  std::optional<Stop> search(Nudged<V>& nudged, State<V>& state, const V& direction, double slope,
                             double first, double sufficient_decrease);

  double length() const { return length_; }  ///< the α of the last success
  long trials() const { return trials_; }
  std::size_t bytes() const { return 2 * bytes_of(phi_); }

 private:
  static constexpr long max_trials = 60;  // 2⁻⁶⁰ is below the spacing of double

  V phi_, gradient_;
  double length_ = unknown;
  long trials_ = 0;
};

extern template class Backtracking<Eigen::VectorXd>;
extern template class Backtracking<Eigen::VectorXf>;

}  // namespace bilevel
