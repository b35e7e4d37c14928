// A quadratic programme inside a loss: a portfolio that answers to views θ under constraints. Its gradients
// and its optimum beside the system of the KKT conditions. Constraints that θ moves: moving_limits.cpp.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>

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

Mat covariance() {
  const Mat factors{{0.3, 0.1}, {0.2, -0.2}, {0.4, 0.3}, {0.1, 0.2}, {0.25, -0.1}};
  return factors * factors.transpose() +
         Mat(Eigen::Vector<double, 5>(0.1, 0.05, 0.2, 0.04, 0.08).asDiagonal());
}

/// φ are the shares of five assets, θ two views that shift their expected returns m + Fθ:
///   L_in = ½φᵀΣφ − (m + Fθ)·φ  over  Σφ = 1, 0 ≤ φ ≤ 0.4, φ₀ + φ₁ ≤ 0.5
///   L_out = ½‖φ − wanted‖² + ½ρ‖θ‖²,  the mildest views that explain a portfolio
struct Portfolio {
  Mat sigma = covariance();
  Mat views{{1, 0}, {-1, 0}, {0, 1}, {0.5, 0.5}, {0, -1}};
  Vec returns = Eigen::Vector<double, 5>(0.08, 0.05, 0.12, 0.04, 0.02);
  Vec wanted = Eigen::Vector<double, 5>(0.1, 0.3, 0.15, 0.4, 0.05);
  double rho = 0.01;

  Vec initial_phi() const { return Vec::Constant(5, 0.2); }
  Vec initial_theta() const { return Vec::Zero(2); }
  bilevel::PhiConstraints phi_constraints() const {
    auto c = bilevel::PhiConstraints::box(Vec::Zero(5), Vec::Constant(5, 0.4));
    c.equal = Mat::Ones(1, 5);
    c.equal_to = Vec::Ones(1);
    c.below = Eigen::RowVector<double, 5>(1, 1, 0, 0, 0);
    c.below_to = Vec::Constant(1, 0.5);
    return c;
  }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted_) const {
    const Vec risk = sigma * phi, expected = returns + views * theta;
    if (wanted_.phi) *wanted_.phi = risk - expected;
    if (wanted_.theta) *wanted_.theta = -(views.transpose() * phi);
    return 0.5 * phi.dot(risk) - expected.dot(phi);
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted_) const {
    if (wanted_.phi) *wanted_.phi = phi - wanted;
    if (wanted_.theta) *wanted_.theta = rho * theta;
    return 0.5 * (phi - wanted).squaredNorm() + 0.5 * rho * theta.squaredNorm();
  }
  void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = sigma * v + beta * v;
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = -(views.transpose() * v);
  }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const { out = -(views * u); }

  /// The rows that φ meets.
  Mat active(const Vec& phi) const {
    const auto c = phi_constraints();
    Mat rows = c.equal;
    const auto add = [&](const Eigen::RowVectorXd& row) {
      rows.conservativeResize(rows.rows() + 1, 5);
      rows.bottomRows(1) = row;
    };
    for (int i = 0; i < 5; ++i)
      if (phi[i] < 1e-9 || phi[i] > 0.4 - 1e-9) add(Vec::Unit(5, i).transpose());
    if (c.below.row(0).dot(phi) > 0.5 - 1e-9) add(c.below.row(0));
    return rows;
  }
  /// dφ/dθ while they are the same.
  Mat response(const Vec& phi) const { return inverse_kkt(sigma, active(phi)).topLeftCorner(5, 5) * views; }
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  const Portfolio mine;
  auto problem = bilevel::make_problem(mine);
  const auto inner = bilevel::make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-12});
  const auto estimator = bilevel::make_estimator<Vec>("implicit-direct", problem, *inner);
  for (const Vec& theta :
       {Vec(Vec::Zero(2)), Vec(Eigen::Vector2d(0.02, -0.03)), Vec(Eigen::Vector2d(0.2, 0.1))}) {
    const auto e = estimator->estimate(theta, {});
    const Vec truth = mine.rho * theta + mine.response(e.phi).transpose() * (e.phi - mine.wanted);
    fmt::print(
        "views {:g}, {:g}: {} of 12 constraints hold; gradient {}, that of the KKT system to 1e-8: {}\n",
        theta[0], theta[1], mine.active(e.phi).rows(), name(e.certificate.verdict),
        (e.gradient - truth).norm() <= 1e-8);
  }
  // Between the views above there are some at which the fourth asset just reaches its limit.
  Vec below = Vec::Zero(2), above = Eigen::Vector2d(0.2, 0.1);
  for (int i = 0; i < 60; ++i) {
    const Vec middle = 0.5 * (below + above);
    (estimator->estimate(middle, {}).phi[3] < 0.4 - 1e-12 ? below : above) = middle;
  }
  const auto corner = estimator->estimate(below, {});
  fmt::print("where a limit is just reached: gradient {}, for {}\n", name(corner.certificate.verdict),
             corner.certificate.doubt.find("upper bound of element 3") != std::string::npos
                 ? "the upper bound of element 3"
                 : corner.certificate.reason);

  const bilevel::Summary s = bilevel::minimise(problem);
  // While the same constraints hold, φ(θ) = φ(θₛ) + G(θ − θₛ).
  const Mat g = mine.response(s.phi);
  const Vec best = (g.transpose() * g + mine.rho * Mat::Identity(2, 2))
                       .llt()
                       .solve(g.transpose() * (mine.wanted - (s.phi - g * s.theta)));
  fmt::print("portfolio: {}, {}; the best views to 1e-6: {}\n", name(s.status), name(s.certificate.verdict),
             (s.theta - best).norm() <= 1e-6);
}
