#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/inner/recorded_run.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct UnrolledOptions {
  /// Ten times as many steps as a minimiser may take: these cannot search.
  RunOptions run = {.max_steps = 100000};
  /// K: follow only the last K steps back; ≥ 0. 0, the default, follows all. A run that has settled forgets
  /// what lies further back than a few times κ steps of gradient descent.
  long truncate = 0;
  /// Bytes that the estimator may hold, snapshots and working vectors; 0, the default, holds every state. Any
  /// other number holds as many snapshots as fit and computes the rest again, at r forward steps for one
  /// where C(s + r, s) ≥ T with s snapshots. The gradient is the same to the last bit.
  std::size_t memory_budget = 0;
  /// With no memory_budget given: one of room for some dozens of states.
  bool checkpointed = false;
  CertificateOptions certificate = {};
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// What is differentiated, where the estimator is made from these options alone. The default settles in the
  /// fewest steps whose length follows from the problem's own constants.
  InnerChoice step = NesterovOptions{};

  Violations validate() const {
    Violations v("unrolled");
    v.add(bilevel::validate(step)).add(run.validate("unrolled")).at_least("truncate", truncate, 0);
    return v.not_negative("outer_tolerance", outer_tolerance).add(certificate.validate());
  }
};

/// unrolled, unrolled-truncated where `truncate` is set, else unrolled-checkpointed with a memory budget.
inline std::string_view name(const UnrolledOptions& options) {
  return options.truncate > 0                                ? "unrolled-truncated"
         : options.memory_budget > 0 || options.checkpointed ? "unrolled-checkpointed"
                                                             : "unrolled";
}

/// Backpropagation through time: the gradient of θ ↦ L_out(φ_T(θ), θ), where φ_T is what T steps of a
/// minimiser make of a start that is held fixed. With λ_T = ∂φ L_out and c_k the cotangent that step k gives
/// to its gradient,
///   λ_k = ∂φ(step)ᵀλ_{k+1} + H_k c_k,   ∇θ = ∂θ L_out + Σ c_k·χ_k,
/// from Hessian and cross products at φ_k; nothing of the problem's code is recorded. Step length and
/// momentum count as constants, though they may have been chosen with θ in view.
///
/// The effective adjoint is π̂ = −Σ c_k; its residual at φ_T is what the certificate starts from.
/// The problem must outlive the estimator.
template <Vector V>
class Unrolled final : public Estimator<V> {
 public:
  Unrolled(Problem<V>& problem, std::unique_ptr<Step<V>> step, UnrolledOptions options = {});

  std::string_view name() const override { return bilevel::name(options_); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double) override { run_.set_tolerance(inner); }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

  /// Most states that may be held at once; 0 for all of them.
  long snapshots() const { return snapshots_; }
  /// Of the last estimate, those that were computed again among them.
  long forward_steps() const { return run_.forward_steps(); }

  /// The memory_budget with which this many snapshots can be held.
  static std::size_t bytes_for(const V& phi, const V& theta, const Step<V>& step, std::size_t snapshots) {
    return RecordedRun<V>::work_bytes(phi, theta, step) + estimate_bytes(phi, theta) +
           snapshots * RecordedRun<V>::snapshot_bytes(phi, step);
  }

 private:
  // Start, φ̂, π̂, ĝ, the inner residual, that of π̂; the gradient, ∂θ L_out, the gradient beside it.
  static std::size_t estimate_bytes(const V& phi, const V& theta) {
    return 6 * bytes_of(phi) + 3 * bytes_of(theta);
  }
  static UnrolledOptions with_budget(Problem<V>& problem, UnrolledOptions options);
  static long affordable_snapshots(Problem<V>& problem, const Step<V>* step, const UnrolledOptions& options);

  CountedEquilibrium<V> problem_;
  UnrolledOptions options_;
  long snapshots_;
  RecordedRun<V> run_;
  SettleAndCertify<V> settled_;
  std::unique_ptr<Curvature<V>> curvature_;  // at φ_T
};

extern template class Unrolled<Eigen::VectorXd>;
extern template class Unrolled<Eigen::VectorXf>;

}  // namespace bilevel
