#pragma once

#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// The dense reference: forms J column by column and solves with full pivoting. For small problems and for
/// checking everything else.
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

extern template class Exact<Eigen::VectorXd>;
extern template class Exact<Eigen::VectorXf>;

}  // namespace bilevel
