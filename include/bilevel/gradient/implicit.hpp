#pragma once

#include <memory>

#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// The zero and identity solvers turn implicit differentiation into approximations with names of their own.
inline std::string estimator_name(std::string_view adjoint) {
  if (adjoint == "zero") return "first-order";
  if (adjoint == "identity") return "one-step";
  return fmt::format("implicit-{}", adjoint);
}

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
  void set_outer_tolerance(double tolerance) override {
    options_.outer_tolerance = options_.good_enough = tolerance;
  }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  std::string name_;
  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  std::unique_ptr<AdjointSolver<V>> adjoint_;
  ImplicitOptions options_;
  SettleAndCertify<V> settled_;
  Sensitivity<V> sensitivity_;
};

extern template class Implicit<Eigen::VectorXd>;
extern template class Implicit<Eigen::VectorXf>;

}  // namespace bilevel
