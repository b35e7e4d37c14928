// A quadratic programme whose limits θ moves: capacity that is bought. The state holds the prices of the
// limits as well, and settles where the KKT conditions hold. Gradient and optimum beside the system of these
// conditions.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>
#include <bilevel/inner/variational_inequality.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// [Q Nᵀ; N 0]⁻¹ for the active rows N: what a small change of (gradient, limits) does to (φ, multipliers).
Mat inverse_kkt(const Mat& q, const Mat& rows) {
  const auto n = q.rows(), k = rows.rows();
  Mat kkt = Mat::Zero(n + k, n + k);
  kkt << q, rows.transpose(), rows, Mat::Zero(k, k);
  return kkt.fullPivLu().inverse();
}

/// min ½φᵀQφ − c·φ over Aφ ≤ b + Bθ: constraints that move. The state is (φ, λ), with the prices λ ≥ 0 of the
/// limits, and settles where the KKT conditions hold, which no loss minimises:
///   Qφ − c + Aᵀλ = 0,   λ ≥ 0,   b + Bθ − Aφ ≥ 0 with equality where λ > 0.
/// θ buys capacity: L_out = −u·φ + ½‖θ‖².
struct Plant {
  Mat q{{2, 0.5, 0}, {0.5, 1, 0.2}, {0, 0.2, 1.5}}, a{{1, 1, 0}, {0, 1, 1}, {1, 0, 1}},
      b_theta{{1, 0}, {0, 1}, {0, 0.5}};
  Vec c = Eigen::Vector3d(4, 3, 2), b = Eigen::Vector3d(1, 0.5, 4), u = Eigen::Vector3d(1, 2, 0.5);

  Vec initial_phi() const { return Vec::Zero(6); }
  Vec initial_theta() const { return Vec::Zero(2); }
  bilevel::PhiConstraints phi_constraints() const {
    Vec lower = Vec::Constant(6, -bilevel::everywhere);
    lower.tail(3).setZero();
    return bilevel::PhiConstraints::box(lower, {});
  }
  void residual(const Vec& state, const Vec& theta, Vec& out) const {
    hessian_times(state, theta, 0, state, out);
    out.head(3) -= c;
    out.tail(3) += b + b_theta * theta;
  }
  double outer(const Vec& state, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi << -u, Vec::Zero(3);
    if (wanted.theta) *wanted.theta = theta;
    return -u.dot(state.head(3)) + 0.5 * theta.squaredNorm();
  }
  void hessian_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = Vec(6);
    out << q * v.head(3) + a.transpose() * v.tail(3), -(a * v.head(3));
  }
  void hessian_transpose_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = Vec(6);
    out << q * v.head(3) - a.transpose() * v.tail(3), a * v.head(3);
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = b_theta.transpose() * v.tail(3);
  }
  void cross_apply(const Vec&, const Vec&, double, const Vec& w, Vec& out) const {
    out = Vec(6);
    out << Vec::Zero(3), b_theta * w;
  }
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  const Plant mine;
  auto problem = bilevel::make_problem(mine);
  // What a limit that holds does to φ is a column of the inverse; what none does is 0.
  const auto best = [&](const Vec& state) {
    Mat rows(0, 3), moves(0, 2);
    for (int i = 0; i < 3; ++i) {
      if (state[3 + i] < 1e-9) continue;
      rows.conservativeResize(rows.rows() + 1, 3), moves.conservativeResize(moves.rows() + 1, 2);
      rows.bottomRows(1) = mine.a.row(i), moves.bottomRows(1) = mine.b_theta.row(i);
    }
    return Vec(moves.transpose() * inverse_kkt(mine.q, rows).topRightCorner(3, rows.rows()).transpose() *
               mine.u);
  };
  bilevel::VariationalInequality settled(problem);
  const auto inner = settled.solver(bilevel::NewtonKrylovOptions{}, {.gradient_tolerance = 1e-12});
  bilevel::Equilibrium<Vec>& equilibrium = settled;
  const Vec theta = Eigen::Vector2d(0.3, -0.2);
  const auto e = bilevel::make_estimator<Vec>("implicit-direct", equilibrium, *inner)->estimate(theta, {});
  fmt::print("plant: gradient {}, that of the KKT system to 1e-8: {}\n", name(e.certificate.verdict),
             (e.gradient - (theta - best(e.phi))).norm() <= 1e-8);
  const bilevel::Summary s = bilevel::minimise(problem);
  fmt::print("plant: {}, {}; the best limits to 1e-6: {}; prices {}\n", name(s.status),
             name(s.certificate.verdict), (s.theta - best(s.phi)).norm() <= 1e-6,
             s.phi.tail(3).minCoeff() >= 0 ? "not negative" : "negative");
}
