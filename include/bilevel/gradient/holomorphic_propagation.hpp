#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include <bilevel/gradient/circle.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Holomorphic equilibrium propagation. f(b) = ∂θ L(φ_b, θ, b) with φ_b settled under L_in + b·L_out is
/// analytic around b = 0 and f′(0) = ∇θ L_out(φ*(θ), θ), by the theorem behind all equilibrium propagation.
/// Its first Taylor coefficient is an average over a circle (Cauchy),
///   ∇̂ = 1/N Σ_k f(b_k)/b_k,   b_k = β·exp(2πi(k+½)/N),   ∇̂ − ∇ = −f_{N+1}β^N + f_{2N+1}β^{2N} − …
/// so the bias falls like β^N while noise of the phases is averaged and divided by β, whatever N. The circle
/// must not reach the nearest pole of φ_b, which lies where H + bG is singular; a complex Newton would
/// converge beyond it, to a wrong gradient. What may lie there is refused with Status::negative_curvature.
/// The problem must offer `holomorphic()`; problem and inner solver must outlive the estimator.
template <Vector V>
class HolomorphicPropagation final : public Estimator<V> {
 public:
  HolomorphicPropagation(Problem<V>& problem, InnerSolver<V>& inner, HolomorphicOptions options = {});

  std::string_view name() const override { return "ep-holomorphic"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    inner_.set_tolerance(inner);
    HolomorphicOptions changed = options_;
    changed.tolerance = adjoint;
    changed.validate().throw_if_any();
    options_ = changed;
    circle_.set_tolerance(adjoint);
  }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  static Holomorphic& continuation_of(Problem<V>& problem);
  static HolomorphicOptions checked(HolomorphicOptions options) {
    options.validate().throw_if_any();
    return options;
  }
  Disc find_disc(const V& theta, const V& phi);
  CircleFindings go_round(const Disc& disc, double outer_norm, double& beta);
  void certify_it(const V& theta, const CircleFindings& findings, double beta, const Disc& disc,
                  Estimate<V>& e);

  HolomorphicOptions options_;
  CountedEquilibrium<V> problem_;
  CountedHolomorphic continuation_;
  InnerSolver<V>& inner_;
  SettleAndCertify<V> settled_;
  Circle circle_;
  Eigen::VectorXd phi_host_, theta_host_;
  std::unique_ptr<Curvature<V>> curvature_, nudged_curvature_;
};

extern template class HolomorphicPropagation<Eigen::VectorXd>;
extern template class HolomorphicPropagation<Eigen::VectorXf>;

}  // namespace bilevel
