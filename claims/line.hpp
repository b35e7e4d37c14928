#pragma once

#include <cmath>

#include "dense_curvature.hpp"

namespace claims {

/// One variable and every term that an error bound can have, each on its own:
///   L_in = ½hφ² + rφ³/6 − θ(mφ + sφ²/2),   L_out = bφ + ½lφ² − kθφ
/// At θ = 0: φ* = 0, ∂φ² L_in = h + rφ, ∂θ∂φ L_in = −(m + sφ), ∂θ L_out = −kφ and ∇θ = bm/h.
class Line final : public Dense<bilevel::Problem<Vec>> {
 public:
  struct Terms {
    double h = 1, r = 0, m = 0, s = 0, b = 0, l = 0, k = 0;
  };
  explicit Line(const Terms& terms) : t_(terms) {}

  Vec initial_phi() const override { return Vec::Zero(1); }
  Vec initial_theta() const override { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const double x = phi[0], pull = t_.m * x + t_.s * x * x / 2;
    if (wanted.phi) (*wanted.phi)[0] = t_.h * x + t_.r * x * x / 2 - theta[0] * (t_.m + t_.s * x);
    if (wanted.theta) (*wanted.theta)[0] = -pull;
    return t_.h * x * x / 2 + t_.r * x * x * x / 6 - theta[0] * pull;
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const double x = phi[0];
    if (wanted.phi) (*wanted.phi)[0] = t_.b + t_.l * x - t_.k * theta[0];
    if (wanted.theta) (*wanted.theta)[0] = -t_.k * x;
    return t_.b * x + t_.l * x * x / 2 - t_.k * theta[0] * x;
  }

  /// φ_β at θ = 0: the root of ½rφ² + (h + βl)φ + βb near 0, without cancellation.
  Vec settled(double beta) const {
    const double slope = t_.h + beta * t_.l, pull = beta * t_.b;
    return Vec::Constant(1, -2 * pull / (slope + std::sqrt(slope * slope - 2 * t_.r * pull)));
  }
  double gradient() const { return t_.b * t_.m / t_.h; }

 protected:
  void fill(DenseCurvature& c, const Vec& phi, const Vec& theta, double beta) override {
    c.hessian = Mat::Constant(1, 1, t_.h + t_.r * phi[0] - theta[0] * t_.s + beta * t_.l);
    c.cross = Mat::Constant(1, 1, -(t_.m + t_.s * phi[0]) - beta * t_.k);
  }

 private:
  Terms t_;
};

}  // namespace claims
