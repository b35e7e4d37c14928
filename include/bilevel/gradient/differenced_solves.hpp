#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/gradient/second_look.hpp>
#include <bilevel/gradient/settled_value.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What the estimators that difference whole solves share: the free solve at θ, values at other θ (all
/// settled from the free solution, so that they do not depend on each other's order), and how wrong those
/// values are.
///
/// A value's error is π·r for the residual r that its solve left; π is not known here, but |ΔL_out|/|Δ‖r‖| is
/// seen whenever a solve lowers its residual, and by pushing the state. With s the largest such slope and r
/// the largest residual left,
///   ε_f = safety·s·r + 4u·scale,   scale = the larger of |L_out| at the free solution and at the start.
template <Vector V>
class DifferencedSolves {
 public:
  DifferencedSolves(Equilibrium<V>& problem, InnerSolver<V>& solver)
      : problem_(problem),
        solver_(solver),
        value_(problem, solver),
        residual_(Space<V>::zeros_like(problem.initial_phi())) {}

  /// Settles at θ. Fills phi, pi (zeros: there is no adjoint), values and statuses of `e`; false where
  /// nothing can follow. The gradient is NaN until there is one.
  bool begin(const V& theta, const Warm<V>& warm, Estimate<V>& e);
  /// L_out(φ*(θ), θ), settled from the free solution.
  double value(const V& theta);
  /// ε_f, of the values so far.
  double noise() const { return std::max(safety * slope(), soft_slope_) * residual_left_ + rounding_; }
  /// (ε_f/scale)^{1/(order+1)}: where noise ε_f/h and truncation ∝ h^order are alike if the derivatives of
  /// L_out are of its own size. Foresees residuals up to the tolerance, and is 0.1 at most.
  double relative_step(int order) const;
  /// With gradient and certificate (but for the verdict) in place: statuses, verdict, cost. No bound holds
  /// where the free solution, pushed a little, did not come back, or where the residual is a loss's and that
  /// bends downwards.
  void conclude(std::string_view message, double outer_tolerance, Estimate<V>& e);

  long solves() const { return solves_; }
  V initial_phi() const { return problem_.initial_phi(); }
  V initial_theta() const { return problem_.initial_theta(); }
  void set_tolerance(double tolerance) { solver_.set_tolerance(tolerance); }

 private:
  /// The slope seen on the way of one solve stands for directions it did not see.
  static constexpr double safety = 4;

  struct Point {
    double value, residual;
  };
  Point look(const V& phi, const V& theta);
  static void observe(const Point& before, const Point& after, double rounding, double& slope);
  double slope() const { return fine_slope_ > 0 ? fine_slope_ : coarse_slope_; }
  Settled<V> settle(const V& start, const V& theta);
  void refine(const Settled<V>& from, const V& theta);
  void push(const V& theta, const Point& free);
  void look_at_curvature(const V& theta);

  CountedEquilibrium<V> problem_;
  InnerSolver<V>& solver_;
  SettledValue<V> value_;
  V residual_, free_;
  long refined_ = 0;  // values settled further, to see how wrong they were
  double free_residual_ = 0;
  long stood_still_ = 0;  // solves that found the free state good enough for another θ
  double scale_ = 1, rounding_ = 0, tolerance_ = 0;
  double fine_slope_ = 0;    // from solves that started near their end
  double soft_slope_ = 0;    // along the softest direction, as computed
  double coarse_slope_ = 0;  // from the way of the free solve, where nothing better was seen
  double residual_left_ = 0;
  long solves_ = 0;
  Status worst_ = Status::converged;
  std::string trouble_, unstable_;
  Cost cost_;
};

extern template class DifferencedSolves<Eigen::VectorXd>;
extern template class DifferencedSolves<Eigen::VectorXf>;

}  // namespace bilevel
