#pragma once

#include <memory>
#include <vector>

#include <bilevel/adjoint/conjugate_gradient.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/inner/tangent_run.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct ForwardModeOptions {
  /// Ten times as many steps as a minimiser may take: these cannot search.
  RunOptions run = {.max_steps = 100000};
  /// Bytes that the sensitivity dφ_k/dθ and the working vectors may take; > 0. The |φ|·|θ| numbers, times one
  /// more for each vector of momentum, are why this method is for few parameters: 1 GiB is reached by 10⁴
  /// inner variables with 10⁴ parameters of gradient descent.
  std::size_t memory_limit = std::size_t{1} << 30;
  /// Residual, relative to ‖ĝ‖, of the adjoint that the certificate leans on.
  double adjoint_tolerance = 1e-10;
  CertificateOptions certificate = {};
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// What is differentiated, where the estimator is made from these options alone. As of UnrolledOptions.
  InnerChoice step = NesterovOptions{};

  Violations validate() const {
    Violations v("forward-mode");
    v.add(bilevel::validate(step))
        .add(run.validate("forward-mode"))
        .at_least("memory_limit", memory_limit > 0 ? 1 : 0, 1);
    v.positive("adjoint_tolerance", adjoint_tolerance);
    return v.not_negative("outer_tolerance", outer_tolerance).add(certificate.validate());
  }
};

/// Real-time recurrent learning: the gradient of θ ↦ L_out(φ_T(θ), θ) by carrying S_k = dφ_k/dθ along,
///   ∇θ = ∂θ L_out + ∂φ L_out·S_T.
/// Nothing is stored of the way, whatever T; |θ| Hessian and cross products a step. Start, step length and
/// momentum count as constants.
///
/// Its certificate needs an adjoint, which forward mode does not have: conjugate gradients find one at φ_T.
/// The problem must outlive the estimator.
template <Vector V>
class ForwardMode final : public Estimator<V> {
 public:
  ForwardMode(Problem<V>& problem, std::unique_ptr<Step<V>> step, ForwardModeOptions options = {});

  std::string_view name() const override { return "forward-mode"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    run_.set_tolerance(inner);
    adjoint_.set_tolerance(adjoint);
  }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

  /// Bytes that an estimate will hold.
  static std::size_t bytes_needed(const V& phi, const V& theta, const Step<V>& step) {
    // Beyond the run: start, φ̂, π̂, ĝ, the inner residual, that of π̂, nine of the adjoint's solver; the
    // gradient, ∂θ L_out, the gradient beside it.
    return TangentRun<V>::bytes_needed(phi, theta, step) + 15 * bytes_of(phi) + 3 * bytes_of(theta);
  }

 private:
  static std::unique_ptr<Step<V>> affordable(Problem<V>& problem, std::unique_ptr<Step<V>> step,
                                             const ForwardModeOptions& options);

  CountedEquilibrium<V> problem_;
  ForwardModeOptions options_;
  TangentRun<V> run_;
  SettleAndCertify<V> settled_;
  Sensitivity<V> sensitivity_;
  ConjugateGradient<V> adjoint_;
};

extern template class ForwardMode<Eigen::VectorXd>;
extern template class ForwardMode<Eigen::VectorXf>;

}  // namespace bilevel
