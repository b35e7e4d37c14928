// The critic of cart_pole.cpp, and what the actor asks of it.
#pragma once

#include <bilevel/bilevel.hpp>

#include "cart_pole.hpp"

namespace cart_pole {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

constexpr double discount = 0.97, ridge = 1e-4, caution = 1e-3;
constexpr int basis = 15;

/// 1, the scaled state, and the products of its elements.
inline Eigen::Vector<double, basis> features(const State& s) {
  const State z = scaled(s);
  Eigen::Vector<double, basis> g;
  g << 1, z, z * z[0], z.tail(3) * z[1], z.tail(2) * z[2], z[3] * z[3];
  return g;
}

/// The policy goes right with probability p(s) = 1/(1 + exp(−θ·s)). The critic's Q(s, a) = φ_a·features(s) is
/// to be what the policy earns from there, −1 where the pole falls and nothing else, each step later worth
/// 0.97 of it. It settles where what is left of Bellman's equation has no correlation with its features f:
///   F(φ, θ) = mean f(s, a)·(Q(s, a) − r − 0.97·E_p Q(s′, ·)) + ridge·φ = A(θ)φ − b
///   L_out = −mean E_p Q(s, ·) + ½·caution·‖θ − θ_before‖²
struct ActorCritic {
  Mat here, ahead_left,
      ahead_apart;      ///< f(s, a), f(s′, left), and f(s′, right) − f(s′, left); 0 after a fall
  Mat from, to, value;  ///< scaled s and s′, features of s
  Vec reward, before;
  Mat system;  ///< A at θ = `at`
  Vec at, slope;

  ActorCritic(const std::vector<Move>& moves, const Vec& theta) : before(theta) {
    const auto n = static_cast<Eigen::Index>(moves.size());
    here = ahead_left = ahead_apart = Mat::Zero(n, 2 * basis);
    from.resize(n, 4), to.resize(n, 4), value.resize(n, basis);
    reward = Vec::Zero(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      const Move& m = moves[static_cast<std::size_t>(i)];
      from.row(i) = scaled(m.from), to.row(i) = scaled(m.to), value.row(i) = features(m.from);
      here.row(i).segment(m.right ? basis : 0, basis) = value.row(i);
      if (fallen(m.to)) {
        reward[i] = -1;
      } else {
        ahead_left.row(i).head(basis) = features(m.to);
        ahead_apart.row(i) << -features(m.to).transpose(), features(m.to).transpose();
      }
    }
  }
  double n() const { return static_cast<double>(reward.size()); }
  static Vec chance(const Mat& z, const Vec& theta) { return 1 / (1 + (-(z * theta)).array().exp()); }
  Vec outer_slope(const Vec& theta) const {
    const Vec p = chance(from, theta);
    return p.array() * (1 - p.array()) / n();
  }
  void move_to(const Vec& theta) {
    if (at.size() > 0 && at == theta) return;
    at = theta;
    const Vec p = chance(to, theta);
    slope = -discount / n() * p.array() * (1 - p.array());
    system = here.transpose() * (here - discount * (ahead_left + p.asDiagonal() * ahead_apart)) / n();
    system.diagonal().array() += ridge;
  }

  Vec initial_phi() const { return Vec::Zero(2 * basis); }
  Vec initial_theta() const { return before; }
  void residual(const Vec& phi, const Vec& theta, Vec& out) {
    move_to(theta);
    out = system * phi - here.transpose() * reward / n();
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const Vec p = chance(from, theta), left = value * phi.head(basis), right = value * phi.tail(basis);
    if (wanted.phi)
      *wanted.phi << value.transpose() * (p.array() - 1).matrix() / n(), value.transpose() * -p / n();
    if (wanted.theta)
      *wanted.theta =
          caution * (theta - before) -
          from.transpose() * (p.array() * (1 - p.array()) * (right - left).array()).matrix() / n();
    return -(left + p.cwiseProduct(right - left)).mean() + 0.5 * caution * (theta - before).squaredNorm();
  }
  void dense(const Vec&, const Vec& theta, double, Mat& out) { move_to(theta), out = system; }
  void hessian_times(const Vec&, const Vec& theta, double, const Vec& v, Vec& out) {
    move_to(theta), out = system * v;
  }
  void hessian_transpose_times(const Vec&, const Vec& theta, double, const Vec& v, Vec& out) {
    move_to(theta), out = system.transpose() * v;
  }
  void cross_times(const Vec& phi, const Vec& theta, double beta, const Vec& v, Vec& out) {
    move_to(theta);
    out = to.transpose() * slope.cwiseProduct(here * v).cwiseProduct(ahead_apart * phi) -
          from.transpose() * beta * outer_slope(theta).cwiseProduct(value * (v.tail(basis) - v.head(basis)));
  }
  void cross_apply(const Vec& phi, const Vec& theta, double beta, const Vec& u, Vec& out) {
    move_to(theta);
    const Vec outer = value.transpose() * beta * outer_slope(theta).cwiseProduct(from * u);
    out = here.transpose() * slope.cwiseProduct(to * u).cwiseProduct(ahead_apart * phi);
    out.head(basis) += outer, out.tail(basis) -= outer;
  }
};

}  // namespace cart_pole
