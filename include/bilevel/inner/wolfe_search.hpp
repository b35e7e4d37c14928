#pragma once

#include <algorithm>
#include <limits>

#include <bilevel/inner/step.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Search along p for a point with, writing ℓ(α) = L(φ + αp), either the strong Wolfe conditions
///   ℓ(α) ≤ ℓ(0) + c₁αℓ'(0)  and  |ℓ'(α)| ≤ c₂|ℓ'(0)|
/// or, where values differ by no more than rounding, Hager and Zhang's approximate ones (2005, eq. 4.1)
///   (2c₁ − 1)ℓ'(0) ≥ ℓ'(α) ≥ c₂ℓ'(0),
/// which are Wolfe's for the parabola through the slopes and so need no digits of the value.
template <Vector V>
class WolfeSearch {
 public:
  static constexpr double sufficient_decrease = 1e-4;  // c₁
  static constexpr double slope_fraction = 0.9;        // c₂: loose, as quasi-Newton steps are well scaled

  explicit WolfeSearch(const V& like);

  /// On success the state holds the new point, evaluated. `slope` is ℓ'(0), negative. +∞, or an
  /// inner value of NaN, is a point outside of the domain and shortens the step; where the
  /// shortest step still gives NaN that is an error. A search that still descends where
  /// state.reach is passed returns that point, for the loop to call it diverged.
  std::optional<Stop> search(Nudged<V>& nudged, State<V>& state, const V& direction, double slope,
                             double first);

  std::size_t bytes() const { return 2 * bytes_of(phi_); }

 private:
  struct Point {
    double length, value, slope;
  };
  std::optional<Stop> evaluate(Nudged<V>& nudged, const State<V>& state, const V& direction, double length);
  void accept(State<V>& state);
  static double minimiser_of_cubic(const Point& a, const Point& b);
  static double inside(const Point& low, const Point& high, bool bisect);

  static constexpr int max_trials = 60;

  V phi_, gradient_;
  Point trial_{};
  double gradient_norm_ = unknown;
  std::optional<Stop> outside_;  // what to say of the last trial, where it gave NaN
};

extern template class WolfeSearch<Eigen::VectorXd>;
extern template class WolfeSearch<Eigen::VectorXf>;

}  // namespace bilevel
