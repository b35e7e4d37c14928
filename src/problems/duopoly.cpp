#include <bilevel/problems/duopoly.hpp>

#include <cmath>

#include <bilevel/problem/gamma.hpp>

#include "scalar_curvature.hpp"

namespace bilevel::problems {
namespace {

using Vec = Eigen::VectorXd;

}  // namespace

Violations DuopolyOptions::validate() const {
  Violations v("duopoly");
  v.positive("demand", demand).positive("slope", slope);
  v.not_negative("leader_cost", leader_cost).not_negative("follower_cost", follower_cost);
  return v;
}

Duopoly::Duopoly(const DuopolyOptions& options) : market_(options) {
  options.validate().throw_if_any();
}

double Duopoly::inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  const double p = phi[0], b = market_.slope,
               margin = market_.demand - b * (theta[0] + p) - market_.follower_cost;
  if (wanted.phi) (*wanted.phi)[0] = b * p - margin;
  if (wanted.theta) (*wanted.theta)[0] = b * p;
  return -p * margin;
}

double Duopoly::outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
  const double t = theta[0], b = market_.slope,
               margin = market_.demand - b * (t + phi[0]) - market_.leader_cost;
  if (wanted.phi) (*wanted.phi)[0] = b * t;
  if (wanted.theta) (*wanted.theta)[0] = b * t - margin;
  return -t * margin;
}

void Duopoly::linearise(const Vec&, const Vec&, double beta, std::unique_ptr<Curvature<Vec>>& reuse) {
  if (!reuse) reuse = std::make_unique<ScalarCurvature>();
  auto& curvature = static_cast<ScalarCurvature&>(*reuse);
  // L_out is linear in φ: the nudge leaves the Hessian alone, and adds ∂θ∂φ L_out = b to χ.
  curvature.hessian = 2 * market_.slope;
  curvature.cross = (1 + beta) * market_.slope;
}

Constants Duopoly::constants(const Vec& theta, const Vec&, double) {
  const double b = market_.slope;
  Constants c;
  c.mu = c.smoothness = 2 * b;
  c.hessian_lipschitz = c.cross_lipschitz = 0;
  c.cross_norm = b;
  c.outer_lipschitz = b * std::abs(theta[0]) * (1 + 0x1p-52);
  c.outer_smoothness = 0;
  c.outer_cross_lipschitz = b;
  return c;
}

Rounding Duopoly::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  // No term goes through more roundings than the index of its γ, which also covers those of the bound itself.
  const double b = market_.slope, p = std::abs(phi[0]), t = std::abs(theta[0]), q = std::abs(pi[0]);
  Rounding r;
  r.residual = gamma(10) * (market_.demand + market_.follower_cost + b * (t + 2 * p));
  r.adjoint = gamma(6) * b * (t + 2 * q);
  r.curvature = gamma(2) * 2 * b;
  r.inner_theta = gamma(3) * b * p;
  r.gradient = gamma(12) * (market_.demand + market_.leader_cost + b * (2 * t + p + q));
  return r;
}

std::optional<Vec> Duopoly::settled(const Vec& theta) const {
  return Vec::Constant(
      1, (market_.demand - market_.slope * theta[0] - market_.follower_cost) / (2 * market_.slope));
}

std::optional<Vec> Duopoly::outer_gradient(const Vec& theta) const {
  return Vec::Constant(
      1, market_.slope * theta[0] + market_.leader_cost - 0.5 * (market_.demand + market_.follower_cost));
}

std::optional<Vec> Duopoly::best_theta() const {
  return Vec::Constant(
      1, (market_.demand - 2 * market_.leader_cost + market_.follower_cost) / (2 * market_.slope));
}

}  // namespace bilevel::problems
