// Your own two losses as a plain struct: a line through noisy points, whose penalty exp(θ) is learned from
// points that were kept aside.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;

struct Line {
  Eigen::Vector3d x{1, 2, 3}, y{1.2, 1.9, 3.4};  // to fit φ·x to
  Eigen::Vector2d x_kept{1.5, 2.5}, y_kept{1.3, 2.3};

  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const Eigen::Vector3d r = phi[0] * x - y;
    if (wanted.phi) *wanted.phi = Vec::Constant(1, x.dot(r) + std::exp(theta[0]) * phi[0]);
    if (wanted.theta) *wanted.theta = Vec::Constant(1, 0.5 * std::exp(theta[0]) * phi[0] * phi[0]);
    return 0.5 * r.squaredNorm() + 0.5 * std::exp(theta[0]) * phi[0] * phi[0];
  }
  double outer(const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) const {
    const Eigen::Vector2d r = phi[0] * x_kept - y_kept;
    if (wanted.phi) *wanted.phi = Vec::Constant(1, x_kept.dot(r));
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * r.squaredNorm();
  }
  // Second derivatives of L_in + β·L_out: one Hessian product and the cross derivative from both sides.
  void hessian_times(const Vec&, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    out = (x.squaredNorm() + std::exp(theta[0]) + beta * x_kept.squaredNorm()) * v;
  }
  void cross_times(const Vec& phi, const Vec& theta, double, const Vec& v, Vec& out) const {
    out = std::exp(theta[0]) * phi[0] * v;
  }
  void cross_apply(const Vec& phi, const Vec& theta, double, const Vec& u, Vec& out) const {
    out = std::exp(theta[0]) * phi[0] * u;
  }
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  // Are the derivatives right? Ask before trusting anything built on them.
  auto problem = bilevel::make_problem(Line{});
  fmt::print("derivatives {}\n", bilevel::check_derivatives<Vec>(problem, Vec::Ones(1), Vec::Ones(1)).passed()
                                     ? "agree"
                                     : "are wrong");

  const bilevel::Summary s = bilevel::minimise(Line{});

  // The best slope for the kept points is x·y/x·x = 7.7/8.5; the penalty that gives it is exp θ = 15.2/slope
  // − 14.
  fmt::print("{}: penalty {:.4f} gives slope {:.4f}; gradient {}\n", name(s.status), std::exp(s.theta[0]),
             s.phi[0], name(s.certificate.verdict));

  // Every method can be chosen, by an object with its options or by its name.
  const bilevel::Summary other = bilevel::minimise(
      problem, {.inner = bilevel::LbfgsOptions{.memory = 5},
                .estimator = bilevel::ImplicitMethod{.adjoint = bilevel::ConjugateGradientOptions{}},
                .optimizer = "gradient-descent"});
  fmt::print("{}, {}: slope {:.4f}\n", other.estimator, other.optimizer, other.phi[0]);
}
