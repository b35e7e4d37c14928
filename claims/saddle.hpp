#pragma once

#include <Eigen/QR>

#include <bilevel/problems/log_cosh.hpp>

#include "dense_curvature.hpp"

namespace claims {

/// A problem whose only stationary point is a saddle, a maximum or a minimum, as the eigenvalues of H say:
///   L_in = ½ φᵀHφ + ε Σ ln cosh(φ − Jθ)_i,   L_out = Σ ln cosh(φ − y − Kθ)_i
/// The Hessian H + ε diag sech²(φ − Jθ) has its eigenvalues within [0, ε] above those of H, so for |λ(H)| ≥ 1
/// and ε = ½ it is invertible everywhere, with as many negative eigenvalues as H has.
class Saddle final : public Dense<bilevel::Problem<Vec>> {
 public:
  static constexpr double epsilon = 0.5;

  /// |λ(H)| in [1, 3], `negative` of them below zero; draws from `first` on.
  Saddle(const Laboratory& lab, Index phi, Index theta, Index negative, std::uint64_t first)
      : j_(lab.matrix(phi, theta, first + 1)),
        k_(lab.matrix(phi, theta, first + 2)),
        y_(lab.vector(phi, first + 3)) {
    const Mat q = Eigen::HouseholderQR<Mat>(lab.matrix(phi, phi, first)).householderQ();
    Vec lambda = Vec::LinSpaced(phi, 1, 3);
    lambda.head(negative) *= -1;
    h_ = q * lambda.asDiagonal() * q.transpose();
  }

  Vec initial_phi() const override { return Vec::Zero(h_.rows()); }
  Vec initial_theta() const override { return Vec::Ones(j_.cols()); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec a = phi - j_ * theta, t = a.array().tanh();
    if (wanted.phi) *wanted.phi = h_ * phi + epsilon * t;
    if (wanted.theta) *wanted.theta = -epsilon * (j_.transpose() * t);
    return 0.5 * phi.dot(h_ * phi) + epsilon * a.unaryExpr(&bilevel::problems::log_cosh).sum();
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec c = phi - y_ - k_ * theta, t = c.array().tanh();
    if (wanted.phi) *wanted.phi = t;
    if (wanted.theta) *wanted.theta = -(k_.transpose() * t);
    return c.unaryExpr(&bilevel::problems::log_cosh).sum();
  }

 protected:
  void fill(DenseCurvature& c, const Vec& phi, const Vec& theta, double beta) override {
    const Vec s = epsilon * Vec(phi - j_ * theta).unaryExpr(&bilevel::problems::sech_squared);
    const Vec r = beta * Vec(phi - y_ - k_ * theta).unaryExpr(&bilevel::problems::sech_squared);
    c.hessian = h_;
    c.hessian.diagonal() += s + r;
    c.cross = -(s.asDiagonal() * j_) - r.asDiagonal() * k_;
  }

 private:
  Mat h_, j_, k_;
  Vec y_;
};

}  // namespace claims
