#pragma once

#include <numeric>

#include <bilevel/gradient/differenced_solves.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct FiniteDifferenceOptions {
  /// 2: (f(θ+h) − f(θ−h))/2h, two solves an element. 4: with ±2h as well, four solves an element, an error of
  /// order h⁴, and therefore longer steps that noise hurts less. 2 is half the price.
  int order = 2;
  /// h_i = step·max(1, |θ_i|); 0, the default, chooses (ε_f/scale)^{1/(order+1)} from the measured accuracy
  /// of the values. Zero or more.
  double step = 0;
  /// With order 2, this many elements, those of largest |f″|, are differenced at ±2h too, and the largest
  /// |f‴| found there stands for all: what the truncation error is estimated from. More are looked at while
  /// kinks are found. At least 1; 3 cost little.
  long probes = 3;
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// The share of the gradient that the bound may be of (CertificateOptions::trust); in (0, 1].
  double trust = Certificate::usual_trust;

  Violations validate() const {
    Violations v("finite_difference");
    v.require(order == 2 || order == 4, "order", order, "must be 2 or 4");
    v.not_negative("step", step)
        .at_least("probes", probes, 1)
        .not_negative("outer_tolerance", outer_tolerance);
    require_trust(v, trust);
    return v;
  }
};

/// ∇θ by central differences of the whole solve, one element of θ at a time: no derivative is asked for but
/// the inner residual, and the cost grows with |θ|. The certificate is estimated: noise of the values over h,
/// and the truncation as seen between h and 2h. The problem and the inner solver must outlive the estimator.
template <Vector V>
class FiniteDifference final : public Estimator<V> {
 public:
  FiniteDifference(Equilibrium<V>& problem, InnerSolver<V>& inner, FiniteDifferenceOptions options = {})
      : options_(options), solves_(problem, inner) {
    options_.validate().throw_if_any();
    require_shapes<V>(problem, nullptr, nullptr, name());
  }

  std::string_view name() const override { return "finite-difference"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double /*adjoint*/) override { solves_.set_tolerance(inner); }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return solves_.initial_phi(); }
  V initial_theta() const override { return solves_.initial_theta(); }

 private:
  /// Values at θ ± steps·h along one element, and how far apart the two points really are: in single
  /// precision θ_i + h is rounded visibly.
  struct Pair {
    double plus, minus, distance;
    double slope() const { return (plus - minus) / distance; }
    double bend(double between) const { return 2 * (plus - 2 * between + minus) / distance; }
  };
  Pair pair(Index i, double h);
  void look_closer(const Eigen::VectorXd& h, const Eigen::VectorXd& slope, const Eigen::VectorXd& error,
                   double step, Certificate& certificate);

  FiniteDifferenceOptions options_;
  DifferencedSolves<V> solves_;
  std::vector<double> theta_, moved_, rounded_;
  V point_;
};

extern template class FiniteDifference<Eigen::VectorXd>;
extern template class FiniteDifference<Eigen::VectorXf>;

}  // namespace bilevel
