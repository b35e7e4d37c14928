#pragma once

#include <Eigen/LU>

#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>

namespace bilevel {

/// The dense reference: forms J and χ column by column and solves with full pivoting. For small problems and
/// for checking everything else.
template <Vector V>
class Exact final : public Estimator<V> {
 public:
  /// Largest |φ|: forming and factoring J takes |φ|² numbers and |φ|³ operations.
  static constexpr Index limit = 3000;

  Exact(Equilibrium<V>& problem, InnerSolver<V>& inner, ImplicitOptions options = {});

  std::string_view name() const override { return "exact"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double) override { inner_.set_tolerance(inner); }
  void set_outer_tolerance(double tolerance) override {
    options_.outer_tolerance = options_.good_enough = tolerance;
  }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  ImplicitOptions options_;
  SettleAndCertify<V> settled_;
  Sensitivity<V> sensitivity_;
};

template <Vector V>
Exact<V>::Exact(Equilibrium<V>& problem, InnerSolver<V>& inner, ImplicitOptions options)
    : problem_(problem), inner_(inner), options_(options), settled_(problem_, inner), sensitivity_(problem_) {
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
  if (settled_.settle(theta, warm, e)) {
    Stopwatch watch;
    sensitivity_.move_to(e.phi, theta);
    Curvature<V>& curvature = sensitivity_.curvature();
    const Eigen::MatrixXd j = dense_matrix(curvature, e.phi), chi = dense_cross(curvature, e.phi, theta);
    const Eigen::FullPivLU<Eigen::MatrixXd> lu(j);
    Eigen::VectorXd g(j.rows()), gradient(chi.cols()), pi = Eigen::VectorXd::Zero(j.rows());
    Space<V>::to_host(settled_.outer_phi(), g.data());
    Space<V>::to_host(settled_.outer_theta(), gradient.data());
    double residual = unknown;
    if (lu.isInvertible()) {
      pi = lu.transpose().solve(g);
      gradient -= chi.transpose() * pi;
      residual = (g - j.transpose() * pi).norm();
      Space<V>::from_host(gradient.data(), e.gradient);
      e.adjoint_status = Status::converged;
      e.message += "; phase 2 (exact): LU with full pivoting";
    } else {
      e.adjoint_status = Status::singular;
      e.message += fmt::format("; phase 2 (exact): the {0}x{0} Jacobian has rank {1}", j.rows(), lu.rank());
    }
    Space<V>::from_host(pi.data(), e.pi);
    e.cost.factorizations = 1;
    e.cost.bytes =
        std::max(e.cost.bytes, sizeof(double) * static_cast<std::size_t>(2 * j.size() + chi.size()));
    e.cost.seconds_adjoint = watch.seconds();
    settled_.certify(theta, &curvature, {.residual_norm = residual}, options_, e);
  }
  e.cost += problem_.cost();
  return e;
}

extern template class Exact<Eigen::VectorXd>;
extern template class Exact<Eigen::VectorXf>;

}  // namespace bilevel
