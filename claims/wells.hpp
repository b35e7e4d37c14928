#pragma once

#include <optional>

#include <Eigen/Cholesky>
#include <Eigen/LU>

#include "laboratory.hpp"

namespace claims {

/// L_in = ¼Σφ_i⁴ + ½φᵀAφ − φᵀ(Jθ + b), L_out = ½‖φ − y‖²: bounded below, with many wells.
struct Wells {
  Mat a, j;
  Vec b, y;

  Mat hessian(const Vec& phi) const { return a + Mat((3 * phi.array().square()).matrix().asDiagonal()); }
  Vec force(const Vec& phi, const Vec& theta) const {
    return phi.array().cube().matrix() + a * phi - j * theta - b;
  }
  /// The saddle that Newton's method finds from there, or the point itself; empty where no eigenvalue of the
  /// Hessian is below −0.05.
  std::optional<Vec> stopped(Vec phi, const Vec& theta, bool saddle) const {
    for (int k = 0; saddle && k < 60; ++k) phi -= hessian(phi).partialPivLu().solve(force(phi, theta));
    if (saddle && !(force(phi, theta).norm() < 1e-12)) return {};
    const Mat shifted = hessian(phi) + 0.05 * Mat::Identity(phi.size(), phi.size());
    if (shifted.llt().info() == Eigen::Success) return {};
    return phi;
  }
  bilevel::Functions<Vec> functions() const {
    return {.initial_phi = [n = b.size()] { return Vec(Vec::Zero(n)); },
            .initial_theta = [m = j.cols()] { return Vec(Vec::Zero(m)); },
            .inner =
                [w = *this](const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) {
                  if (wanted.phi) *wanted.phi = w.force(phi, theta);
                  if (wanted.theta) *wanted.theta = -w.j.transpose() * phi;
                  return phi.array().square().square().sum() / 4 + phi.dot(w.a * phi) / 2 -
                         phi.dot(w.j * theta + w.b);
                },
            .outer =
                [w = *this](const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) {
                  if (wanted.phi) *wanted.phi = phi - w.y;
                  if (wanted.theta) wanted.theta->setZero();
                  return (phi - w.y).squaredNorm() / 2;
                },
            .hessian_times = [w = *this](const Vec& phi, const Vec&, double beta, const Vec& v,
                                         Vec& out) { out = w.hessian(phi) * v + beta * v; },
            .cross_times = [w = *this](const Vec&, const Vec&, double, const Vec& v,
                                       Vec& out) { out = -w.j.transpose() * v; },
            .cross_apply = [w = *this](const Vec&, const Vec&, double, const Vec& u,
                                       Vec& out) { out = -w.j * u; },
            .dense = [w = *this](
                         const Vec& phi, const Vec&, double beta,
                         Mat& out) { out = w.hessian(phi) + beta * Mat::Identity(phi.size(), phi.size()); }};
  }
};

}  // namespace claims
