#pragma once

#include <cmath>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::problems {

/// Curvature where φ and θ are one number each.
struct ScalarCurvature final : Curvature<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;

  void times(const Vec& v, Vec& out) override { out[0] = hessian * v[0]; }
  void cross_times(const Vec& v, Vec& out) override { out[0] = cross * v[0]; }
  void cross_apply(const Vec& u, Vec& out) override { out[0] = cross * u[0]; }
  bool dense(Eigen::MatrixXd& out) override {
    out.setConstant(1, 1, hessian);
    return true;
  }
  bool diagonal(Vec& out) override {
    out.setConstant(1, hessian);
    return true;
  }
  double cross_norm() override { return std::abs(cross); }

  double hessian = unknown, cross = unknown;
};

}  // namespace bilevel::problems
