#pragma once

#include <cmath>

#include "dense_curvature.hpp"

namespace claims {

/// A minimum whose curvature falls as fast as a ρ-Lipschitz Hessian may:
///   L_in = ½μφ² − ρ|φ|³/6 − Mθφ,   L_out = Bφ,   at θ = 0: φ* = 0, ∂φ² L_in = μ − ρ|φ|, ∇θ = MB/μ
class CubicWell final : public Dense<bilevel::Problem<Vec>> {
 public:
  CubicWell(double mu, double rho, double coupling, double pull)
      : mu_(mu), rho_(rho), coupling_(coupling), pull_(pull) {}

  Vec initial_phi() const override { return Vec::Zero(1); }
  Vec initial_theta() const override { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const double x = phi[0], size = std::abs(x);
    if (wanted.phi) (*wanted.phi)[0] = mu_ * x - rho_ / 2 * x * size - coupling_ * theta[0];
    if (wanted.theta) (*wanted.theta)[0] = -coupling_ * x;
    return mu_ / 2 * x * x - rho_ / 6 * size * size * size - coupling_ * theta[0] * x;
  }
  double outer(const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) override {
    if (wanted.phi) (*wanted.phi)[0] = pull_;
    if (wanted.theta) (*wanted.theta)[0] = 0;
    return pull_ * phi[0];
  }

 protected:
  void fill(DenseCurvature& c, const Vec& phi, const Vec&, double) override {
    c.hessian = Mat::Constant(1, 1, mu_ - rho_ * std::abs(phi[0]));
    c.cross = Mat::Constant(1, 1, -coupling_);
  }

 private:
  double mu_, rho_, coupling_, pull_;
};

}  // namespace claims
