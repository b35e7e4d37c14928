#pragma once

#include <vector>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Options of the estimators that settle once and then solve for the adjoint.
struct ImplicitOptions {
  CertificateOptions certificate;
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// A rigorous bound above this is sharpened at the cost of a spectrum. NaN, the default: above what the
  /// verdict "trusted" takes. The outer loop, which judges by the projected gradient, sets its own.
  double good_enough = unknown;

  Violations validate() const {
    Violations v("estimator");
    return v.not_negative("outer_tolerance", outer_tolerance).add(certificate.validate());
  }
};

/// What phase 2 found, as far as the certificate wants to know.
struct AdjointFindings {
  double residual_norm;  ///< ‖ĝ − π̂Ĥ‖
  double smallest_ritz = unknown;
  double largest_ritz = unknown;
};

/// What every estimator that settles once does before and after it solves for the adjoint: start from the
/// better of the warm and the initial state, settle, measure the result afresh; then judge the gradient.
template <Vector V>
class SettleAndCertify {
 public:
  SettleAndCertify(Equilibrium<V>& problem, InnerSolver<V>& solver);

  /// Fills phi, outer value, statuses and cost of `estimate`; false where nothing can follow.
  bool settle(const V& theta, const Warm<V>& warm, Estimate<V>& estimate);
  /// With gradient, pi and the adjoint's status in place: the overall status, the corrected value and the
  /// certificate. A solver that does not say what it was to reach is asked beside θ before an estimated one
  /// is trusted (look_beside): it may project, and leave residuals on purpose. `curvature` is that at φ̂, null
  /// for a first-order problem.
  void certify(const V& theta, Curvature<V>* curvature, const AdjointFindings& adjoint,
               const ImplicitOptions& options, Estimate<V>& estimate);

  const V& residual() const { return residual_; }        ///< ∂φ L_in(φ̂)
  const V& outer_phi() const { return outer_phi_; }      ///< ĝ
  const V& outer_theta() const { return outer_theta_; }  ///< ∂θ L_out(φ̂)

 private:
  Equilibrium<V>& problem_;
  InnerSolver<V>& solver_;
  V residual_, outer_phi_, outer_theta_;
  double tolerance_ = unknown;  // what the solver says it was to reach
};

extern template class SettleAndCertify<Eigen::VectorXd>;
extern template class SettleAndCertify<Eigen::VectorXf>;

}  // namespace bilevel
