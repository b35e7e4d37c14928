#pragma once

#include <memory>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct ImplicitOptions {
  CertificateOptions certificate;
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;

  Violations validate() const {
    Violations v = certificate.validate();
    v.not_negative("outer_tolerance", outer_tolerance);
    return v;
  }
};

/// What every estimator that settles once does before it differentiates: start from the better of the
/// warm and the initial state, settle, measure the result afresh.
template <Vector V>
class FirstPhase {
 public:
  FirstPhase(Equilibrium<V>& problem, InnerSolver<V>& solver)
      : problem_(problem),
        solver_(solver),
        residual_(Space<V>::zeros_like(problem.initial_phi())),
        outer_phi_(Space<V>::zeros_like(residual_)),
        outer_theta_(Space<V>::zeros_like(problem.initial_theta())) {}

  /// Fills phi, outer value, statuses and cost of `estimate`; false where nothing can follow.
  bool run(const V& theta, const Warm<V>& warm, Estimate<V>& estimate);

  const V& residual() const { return residual_; }
  const V& outer_phi() const { return outer_phi_; }
  const V& outer_theta() const { return outer_theta_; }

 private:
  V better_start(const V& theta, const Warm<V>& warm);

  Equilibrium<V>& problem_;
  InnerSolver<V>& solver_;
  V residual_, outer_phi_, outer_theta_;
};

/// Implicit differentiation with any solver of phase 2:
///   ∇θ = ∂θ L_out − π̂·∂θ∂φ L_in,   π̂·∂φ² L_in = ∂φ L_out     (paper, Algorithm 1)
/// The zero solver gives the first-order approximation ∂θ L_out, the identity the one-step one.
/// The problem and the inner solver must outlive the estimator.
template <Vector V>
class Implicit final : public Estimator<V> {
 public:
  Implicit(Equilibrium<V>& problem, InnerSolver<V>& inner, std::unique_ptr<AdjointSolver<V>> adjoint,
           ImplicitOptions options = {});

  std::string_view name() const override { return name_; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    inner_.set_tolerance(inner);
    adjoint_->set_tolerance(adjoint);
  }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  std::string name_;
  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  std::unique_ptr<AdjointSolver<V>> adjoint_;
  ImplicitOptions options_;
  FirstPhase<V> first_;
  Sensitivity<V> sensitivity_;
};

/// The dense reference: forms J and χ, solves for the whole of dφ*/dθ with full pivoting, and applies
/// the chain rule. For small problems and for checking everything else.
template <Vector V>
class Exact final : public Estimator<V> {
 public:
  /// Largest |φ|: forming and factoring J takes |φ|² numbers and |φ|³ operations.
  static constexpr Index limit = 3000;

  Exact(Equilibrium<V>& problem, InnerSolver<V>& inner, ImplicitOptions options = {});

  std::string_view name() const override { return "exact"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double) override { inner_.set_tolerance(inner); }
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  ImplicitOptions options_;
  FirstPhase<V> first_;
  Sensitivity<V> sensitivity_;
};

/// The zero and identity solvers turn implicit differentiation into approximations with names of their own.
inline std::string estimator_name(std::string_view adjoint) {
  if (adjoint == "zero") return "first-order";
  if (adjoint == "identity") return "one-step";
  return fmt::format("implicit-{}", adjoint);
}

template <Vector V>
void fill_not_a_number(V& x) {
  const std::vector<double> host(static_cast<std::size_t>(Space<V>::size(x)), unknown);
  Space<V>::from_host(host.data(), x);
}

template <Vector V>
V FirstPhase<V>::better_start(const V& theta, const Warm<V>& warm) {
  V initial = problem_.initial_phi();
  if (!warm.phi || Space<V>::size(*warm.phi) != Space<V>::size(initial) || !all_finite(*warm.phi))
    return initial;
  problem_.residual(initial, theta, residual_);
  const double from_initial = norm(residual_);
  problem_.residual(*warm.phi, theta, residual_);
  const double from_warm = norm(residual_);
  return from_warm <= from_initial || std::isnan(from_initial) ? *warm.phi : initial;
}

template <Vector V>
bool FirstPhase<V>::run(const V& theta, const Warm<V>& warm, Estimate<V>& estimate) {
  require_shapes<V>(problem_, nullptr, &theta, "estimate");
  estimate.gradient = Space<V>::zeros_like(theta);
  fill_not_a_number(estimate.gradient);
  estimate.pi = Space<V>::zeros_like(residual_);

  Stopwatch watch;
  Solution<V> settled = solver_.solve(theta, 0, better_start(theta, warm));
  estimate.phi = std::move(settled.phi);
  estimate.inner_status = estimate.status = settled.status;
  estimate.inner_iterations = settled.iterations;
  estimate.cost += settled.cost;
  estimate.message = fmt::format("phase 1 ({}): {}", solver_.name(), settled.message);
  if (Space<V>::size(estimate.phi) != Space<V>::size(residual_))
    throw InvalidInput(fmt::format("inner solver {} returned a state of {} elements, the problem wants {}",
                                   solver_.name(), Space<V>::size(estimate.phi), Space<V>::size(residual_)));
  bool usable = all_finite(estimate.phi);
  if (usable) {
    problem_.residual(estimate.phi, theta, residual_);
    estimate.outer_value = problem_.outer(estimate.phi, theta, {.phi = &outer_phi_, .theta = &outer_theta_});
    const bool outer_finite =
        std::isfinite(estimate.outer_value) && all_finite(outer_phi_) && all_finite(outer_theta_);
    if (!outer_finite)
      estimate.message += "; the outer loss or its derivatives are not finite at the settled state";
    usable = outer_finite && all_finite(residual_);
  }
  if (!usable) {
    estimate.status = Status::not_finite;
    estimate.certificate.reason = estimate.message;
  }
  estimate.cost.seconds_inner = watch.seconds();
  return usable;
}

template <Vector V>
Implicit<V>::Implicit(Equilibrium<V>& problem, InnerSolver<V>& inner,
                      std::unique_ptr<AdjointSolver<V>> adjoint, ImplicitOptions options)
    : name_(estimator_name(adjoint->name())),
      problem_(problem),
      inner_(inner),
      adjoint_(std::move(adjoint)),
      options_(options),
      first_(problem_, inner),
      sensitivity_(problem_) {
  options_.validate().throw_if_any();
  require_shapes<V>(problem, nullptr, nullptr, name_);
  if (!problem.capabilities().curvature && adjoint_->name() != "zero")
    throw InvalidInput(fmt::format(
        "{} needs Hessian and cross products, and this problem offers first derivatives only: use "
        "first-order, a method without second derivatives, or with_difference_products()",
        name_));
}

template <Vector V>
Estimate<V> Implicit<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  if (first_.run(theta, warm, e)) {
    Stopwatch watch;
    const bool curved = problem_.capabilities().curvature;
    double adjoint_residual = norm(first_.outer_phi());
    LinearSolution<V> solution;
    if (curved) {
      sensitivity_.move_to(e.phi, theta);
      const V* start = warm.pi && Space<V>::size(*warm.pi) == Space<V>::size(e.phi) ? &*warm.pi : nullptr;
      solution = sensitivity_.pullback(first_.outer_phi(), *adjoint_, e.gradient, start);
      Space<V>::axpy(1, first_.outer_theta(), e.gradient);
      e.pi = std::move(solution.x);
      adjoint_residual = solution.residual_norm;
      e.adjoint_status = solution.status;
      e.adjoint_iterations = solution.iterations;
      e.message += fmt::format("; phase 2 ({}): {}", adjoint_->name(), solution.message);
    } else {
      Space<V>::copy(first_.outer_theta(), e.gradient);
      e.adjoint_status = Status::approximate;
      e.message += "; phase 2 left out: the gradient is ∂θ L_out alone";
    }
    e.cost.factorizations += solution.factorizations;
    e.cost.seconds_adjoint = watch.seconds();
    if (succeeded(e.status)) e.status = e.adjoint_status;
    if (!all_finite(e.gradient)) e.status = Status::not_finite;
    e.corrected_value = e.outer_value - Space<V>::dot(e.pi, first_.residual());

    Stopwatch certificate_watch;
    e.certificate = certify<V>(problem_, curved ? &sensitivity_.curvature() : nullptr,
                               {.theta = theta,
                                .phi = e.phi,
                                .pi = e.pi,
                                .inner_residual = first_.residual(),
                                .adjoint_residual = adjoint_residual,
                                .outer_phi = first_.outer_phi(),
                                .outer_theta = first_.outer_theta(),
                                .gradient = e.gradient,
                                .smallest_ritz = solution.smallest_ritz,
                                .largest_ritz = solution.largest_ritz,
                                .good_enough = std::max(0.1 * norm(e.gradient), options_.outer_tolerance)},
                               options_.certificate);
    e.certificate.judge(norm(e.gradient), options_.outer_tolerance, succeeded(e.status));
    e.cost.seconds_certificate = certificate_watch.seconds();
    e.cost.bytes = std::max(e.cost.bytes, 5 * bytes_of(e.phi) + 3 * bytes_of(theta) + solution.bytes);
  }
  e.cost += problem_.cost();
  return e;
}

template <Vector V>
Exact<V>::Exact(Equilibrium<V>& problem, InnerSolver<V>& inner, ImplicitOptions options)
    : problem_(problem), inner_(inner), options_(options), first_(problem_, inner), sensitivity_(problem_) {
  options_.validate().throw_if_any();
  require_shapes<V>(problem, nullptr, nullptr, "exact");
  if (!problem.capabilities().curvature)
    throw InvalidInput(
        "exact needs Hessian and cross products, and this problem offers first derivatives only");
  if (const Index n = Space<V>::size(problem.initial_phi()); n > limit)
    throw InvalidInput(fmt::format(
        "exact forms a dense matrix and is for at most {} inner variables; this problem has {}", limit, n));
}

template <Vector V>
Estimate<V> Exact<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  problem_.cost() = {};
  if (first_.run(theta, warm, e)) {
    Stopwatch watch;
    sensitivity_.move_to(e.phi, theta);
    Curvature<V>& curvature = sensitivity_.curvature();
    const Eigen::MatrixXd j = dense_matrix(curvature, e.phi), chi = dense_cross(curvature, e.phi, theta);
    const Eigen::FullPivLU<Eigen::MatrixXd> lu(j);
    e.cost.factorizations = 1;
    Eigen::VectorXd g(j.rows()), gradient(chi.cols()), pi = Eigen::VectorXd::Zero(j.rows());
    Space<V>::to_host(first_.outer_phi(), g.data());
    Space<V>::to_host(first_.outer_theta(), gradient.data());
    if (!lu.isInvertible()) {
      e.adjoint_status = Status::singular;
      e.message += fmt::format("; phase 2 (exact): the {0}x{0} Jacobian has rank {1}", j.rows(), lu.rank());
    } else {
      pi = lu.transpose().solve(g);
      gradient -= chi.transpose() * pi;
      Space<V>::from_host(gradient.data(), e.gradient);
      e.adjoint_status = Status::converged;
      e.message += "; phase 2 (exact): full-pivoting LU";
    }
    Space<V>::from_host(pi.data(), e.pi);
    e.corrected_value = e.outer_value - Space<V>::dot(e.pi, first_.residual());
    e.cost.seconds_adjoint = watch.seconds();
    if (succeeded(e.status)) e.status = e.adjoint_status;

    Stopwatch certificate_watch;
    if (succeeded(e.adjoint_status)) {
      V residual = Space<V>::zeros_like(e.phi);
      curvature.transpose_times(e.pi, residual);
      Space<V>::axpy(-1, first_.outer_phi(), residual);
      e.certificate = certify<V>(problem_, &curvature,
                                 {.theta = theta,
                                  .phi = e.phi,
                                  .pi = e.pi,
                                  .inner_residual = first_.residual(),
                                  .adjoint_residual = norm(residual),
                                  .outer_phi = first_.outer_phi(),
                                  .outer_theta = first_.outer_theta(),
                                  .gradient = e.gradient,
                                  .good_enough = std::max(0.1 * norm(e.gradient), options_.outer_tolerance)},
                                 options_.certificate);
    } else {
      e.certificate.reason = e.message;
    }
    e.certificate.judge(norm(e.gradient), options_.outer_tolerance, succeeded(e.status));
    e.cost.seconds_certificate = certificate_watch.seconds();
    e.cost.bytes = std::max(e.cost.bytes, 8 * static_cast<std::size_t>(2 * j.size() + chi.size()));
  }
  e.cost += problem_.cost();
  return e;
}

extern template class FirstPhase<Eigen::VectorXd>;
extern template class FirstPhase<Eigen::VectorXf>;
extern template class Implicit<Eigen::VectorXd>;
extern template class Implicit<Eigen::VectorXf>;
extern template class Exact<Eigen::VectorXd>;
extern template class Exact<Eigen::VectorXf>;

}  // namespace bilevel
