#include <bilevel/problems/pitchfork.hpp>

#include <algorithm>
#include <cmath>

#include <bilevel/problem/gamma.hpp>

#include "scalar_curvature.hpp"

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;

}  // namespace

Violations PitchforkOptions::validate() const {
  Violations v("pitchfork");
  v.positive("target", target);
  return v;
}

Pitchfork::Pitchfork(const PitchforkOptions& options) : y_(options.target) {
  options.validate().throw_if_any();
}

double Pitchfork::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  const double p = phi[0], t = theta[0], square = p * p;
  if (wanted.phi) (*wanted.phi)[0] = 2 * p * (2 * square - t);
  if (wanted.theta) (*wanted.theta)[0] = -square;
  return square * (square - t);
}

double Pitchfork::outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) {
  const double difference = phi[0] - y_;
  if (wanted.phi) (*wanted.phi)[0] = difference;
  if (wanted.theta) (*wanted.theta)[0] = 0;
  return 0.5 * difference * difference;
}

void Pitchfork::linearise(const Vec& phi, const Vec& theta, double beta,
                          std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<ScalarCurvature>();
  auto& curvature = static_cast<ScalarCurvature&>(*reuse);
  curvature.hessian = 12 * phi[0] * phi[0] - 2 * theta[0] + beta;
  curvature.cross = -2 * phi[0];
}

Constants Pitchfork::constants(const Vec& theta, const Vec& center, double radius) {
  // φ runs over [c − r, c + r], so |φ| over [lowest, highest]; both rounded outwards.
  const double u = 0x1p-53, c = std::abs(center[0]), t = theta[0];
  const double lowest = std::max(0.0, (c - radius) - 2 * u * (c + radius));
  const double highest = (c + radius) * (1 + 2 * u);
  // 12φ² − 2θ grows with |φ|: its extremes on the ball are at these two.
  const double slack = 8 * u * (12 * highest * highest + 2 * std::abs(t));
  const double least_slack = 8 * u * (12 * lowest * lowest + 2 * std::abs(t));
  const double least = 12 * lowest * lowest - 2 * t - least_slack;
  const double most = 12 * highest * highest - 2 * t + slack;
  Constants k;
  if (least > 0) k.mu = least;
  k.cross_lipschitz = 2;
  k.outer_smoothness = 1;
  k.outer_cross_lipschitz = 0;
  if (std::isfinite(highest)) {
    k.smoothness = std::max(std::abs(least), std::abs(most));
    k.hessian_lipschitz = 24 * highest * (1 + 2 * u);
    k.cross_norm = 2 * highest;
    k.outer_lipschitz = (std::abs(center[0] - y_) + radius) * (1 + 4 * u);
  }
  return k;
}

Rounding Pitchfork::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  // Each quantity is a polynomial; no term goes through more roundings than the index of its γ, which also
  // covers the roundings of the bound itself.
  const double p = std::abs(phi[0]), t = std::abs(theta[0]), q = std::abs(pi[0]);
  Rounding r;
  r.residual = gamma(8) * 2 * p * (2 * p * p + t);
  r.adjoint = gamma(10) * (p + y_ + q * (12 * p * p + 2 * t));
  r.gradient = gamma(4) * 2 * p * q;
  r.inner_theta = gamma(3) * p * p;
  r.curvature = gamma(6) * (12 * p * p + 2 * t);
  return r;
}

std::optional<Vec> Pitchfork::settled(const Vec& theta) const {
  return Vec::Constant(1, theta[0] > 0 ? std::sqrt(theta[0] / 2) : 0.0);
}

std::optional<Vec> Pitchfork::outer_gradient(const Vec& theta) const {
  if (theta[0] == 0) return {};
  if (theta[0] < 0) return Vec::Zero(1);
  const double p = std::sqrt(theta[0] / 2);
  return Vec::Constant(1, (p - y_) / (4 * p));
}

std::optional<Vec> Pitchfork::best_theta() const {
  return Vec::Constant(1, 2 * y_ * y_);
}

}  // namespace bilevel::problems
