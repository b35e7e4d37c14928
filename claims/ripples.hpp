#pragma once

#include <cmath>

#include "dense_curvature.hpp"

namespace claims {

/// A loss that is not convex, with a known minimum at θ = 0. With d = φ − φ°:
///   L_in = ½ dᵀSd + Σ_k c_k [cos(w_kᵀd + p_k) + sin(p_k)·w_kᵀd] − dᵀJθ,   S = T + Σ_k c_k cos(p_k)·w_k w_kᵀ
///   ∂φ² L_in = S − Σ_k c_k cos(w_kᵀd + p_k)·w_k w_kᵀ,   which is T at φ° and ρ-Lipschitz, ρ = Σ_k c_k‖w_k‖³
///   L_out = ½ ‖φ − y − Kθ‖²
class Ripples final : public Dense<bilevel::Problem<Vec>> {
 public:
  /// The w_k are columns.
  Ripples(const Mat& t, Vec minimum, Mat waves, Vec heights, Vec phases, Mat j, Mat k, Vec y)
      : s_(t),
        j_(std::move(j)),
        k_(std::move(k)),
        waves_(std::move(waves)),
        minimum_(std::move(minimum)),
        heights_(std::move(heights)),
        phases_(std::move(phases)),
        y_(std::move(y)) {
    const Vec weights = heights_.array() * phases_.array().cos();
    s_ += waves_ * weights.asDiagonal() * waves_.transpose();
  }

  Vec initial_phi() const override { return minimum_; }
  Vec initial_theta() const override { return Vec::Zero(j_.cols()); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec d = phi - minimum_, along = waves_.transpose() * d, angle = along + phases_, force = j_ * theta;
    const Vec still = phases_.array().sin();
    if (wanted.phi)
      *wanted.phi =
          s_ * d + waves_ * (heights_.array() * (still.array() - angle.array().sin())).matrix() - force;
    if (wanted.theta) *wanted.theta = -(j_.transpose() * d);
    return 0.5 * d.dot(s_ * d) - d.dot(force) +
           heights_.dot((angle.array().cos() + still.array() * along.array()).matrix());
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec c = phi - y_ - k_ * theta;
    if (wanted.phi) *wanted.phi = c;
    if (wanted.theta) *wanted.theta = -(k_.transpose() * c);
    return 0.5 * c.squaredNorm();
  }

  double hessian_lipschitz() const {
    return heights_.cwiseAbs().dot(waves_.colwise().norm().array().cube().matrix().transpose());
  }
  const Mat& waves() const { return waves_; }

 protected:
  void fill(DenseCurvature& c, const Vec& phi, const Vec&, double beta) override {
    const Vec weights = heights_.array() * (waves_.transpose() * (phi - minimum_) + phases_).array().cos();
    c.hessian = s_ - waves_ * weights.asDiagonal() * waves_.transpose();
    c.hessian.diagonal().array() += beta;
    c.cross = -j_ - beta * k_;
  }

 private:
  Mat s_, j_, k_, waves_;
  Vec minimum_, heights_, phases_, y_;
};

}  // namespace claims
