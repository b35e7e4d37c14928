#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <bilevel/gradient/certify_by_adjoint.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/inner/recorded_run.hpp>

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

template <Vector V>
UnrolledOptions Unrolled<V>::with_budget(Problem<V>& problem, UnrolledOptions options) {
  if (options.checkpointed && options.memory_budget == 0)
    options.memory_budget = 96 * bytes_of(problem.initial_phi()) + 16 * bytes_of(problem.initial_theta());
  return options;
}

template <Vector V>
long Unrolled<V>::affordable_snapshots(Problem<V>& problem, const Step<V>* step,
                                       const UnrolledOptions& options) {
  options.validate().throw_if_any();
  if (options.memory_budget == 0 || !step) return 0;
  const V phi = problem.initial_phi(), theta = problem.initial_theta();
  const std::size_t work = bytes_for(phi, theta, *step, 0), least = bytes_for(phi, theta, *step, 1);
  if (options.memory_budget < least)
    throw InvalidInput(
        fmt::format("unrolled.memory_budget = {} bytes is too small: {} needs {} for its working vectors and "
                    "{} for each snapshot, at least {} bytes",
                    options.memory_budget, step->name(), work, least - work, least));
  return static_cast<long>((options.memory_budget - work) / std::max<std::size_t>(least - work, 1));
}

template <Vector V>
Unrolled<V>::Unrolled(Problem<V>& problem, std::unique_ptr<Step<V>> step, UnrolledOptions options)
    : problem_(problem),
      options_(with_budget(problem, std::move(options))),
      snapshots_(affordable_snapshots(problem, step.get(), options_)),
      run_(problem, std::move(step), options_.run, options_.truncate, snapshots_, bilevel::name(options_)),
      settled_(problem_, run_) {}

template <Vector V>
Estimate<V> Unrolled<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  // A run that ends by tolerance would take no step from its own solution, and nothing depends on θ then.
  const bool usable = settled_.settle(theta, options_.run.steps > 0 ? warm : Warm<V>{}, e);
  if (usable && run_.complete()) {
    Stopwatch watch;
    run_.cost() = {};
    Space<V>::copy(settled_.outer_theta(), e.gradient);
    const auto stop = run_.reverse(settled_.outer_phi(), e.gradient, e.pi);
    e.cost += run_.cost();
    e.adjoint_iterations = run_.followed_steps();
    e.adjoint_status = stop                                         ? stop->status
                       : run_.reversed_steps() < e.inner_iterations ? Status::approximate
                                                                    : Status::converged;
    e.message += fmt::format("; phase 2 ({}): {} of {} steps followed back", name(), e.adjoint_iterations,
                             e.inner_iterations);
    if (!stop && run_.followed_steps() < run_.reversed_steps())
      e.message += ", where the cotangents vanished";
    if (snapshots_ > 0)
      e.message += fmt::format(", {} snapshots held, {} steps taken again", run_.snapshots_held(),
                               run_.forward_steps() - e.inner_iterations);
    if (stop) e.message += "; " + stop->message;
    if (problem_.capabilities().differenced) e.message += "; products by finite differences, as asked";
    e.cost.seconds_adjoint = watch.seconds();
    if (stop) {
      Space<V>::fill(unknown, e.gradient);
      e.status = stop->status;
      e.certificate.reason = e.message;
    } else {
      problem_.linearise(e.phi, theta, 0, curvature_);
      certify_by_adjoint<V>(
          settled_, *curvature_, theta,
          {.certificate = options_.certificate, .outer_tolerance = options_.outer_tolerance}, e);
    }
  } else {
    e.certificate.reason = e.message;
  }
  e.cost.bytes = run_.bytes() + estimate_bytes(e.phi, theta);
  e.cost += problem_.cost();
  return e;
}

extern template class Unrolled<Eigen::VectorXd>;
extern template class Unrolled<Eigen::VectorXf>;

}  // namespace bilevel
