// A layer that settles, φ = tanh(W φ + input), inside something larger: its input is a block of θ, and the
// layer is differentiated from both sides with one linearisation.
#include <fmt/format.h>
#include <bilevel/bilevel.hpp>

#include "arguments.hpp"

using Vec = Eigen::VectorXd;

struct Layer {
  Eigen::Matrix2d w{{0.2, 0.5}, {-0.4, 0.1}};

  Vec initial_phi() const { return Vec::Zero(2); }
  Vec initial_theta() const { return Eigen::Vector2d(0.3, -0.2); }
  Vec slope(const Vec& phi, const Vec& input) const { return 1 - (w * phi + input).array().tanh().square(); }
  void residual(const Vec& phi, const Vec& input, Vec& out) const {
    out = phi - (w * phi + input).array().tanh().matrix();
  }
  double outer(const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = phi;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * phi.squaredNorm();
  }
  void hessian_times(const Vec& phi, const Vec& input, double beta, const Vec& v, Vec& out) const {
    out = (1 + beta) * v - slope(phi, input).cwiseProduct(w * v);
  }
  void hessian_transpose_times(const Vec& phi, const Vec& input, double beta, const Vec& v, Vec& out) const {
    out = (1 + beta) * v - w.transpose() * slope(phi, input).cwiseProduct(v);
  }
  void cross_times(const Vec& phi, const Vec& input, double, const Vec& v, Vec& out) const {
    out = -slope(phi, input).cwiseProduct(v);
  }
  void cross_apply(const Vec& phi, const Vec& input, double, const Vec& u, Vec& out) const {
    out = -slope(phi, input).cwiseProduct(u);
  }
};

int main(int argc, char** argv) {
  if (const auto code = arguments::refused(argc, argv)) return *code;
  auto layer = bilevel::make_problem(Layer{});
  const Vec input = layer.initial_theta();
  const auto settled =
      bilevel::make_inner_solver<Vec>("anderson", layer)->solve(input, 0, layer.initial_phi());

  bilevel::Sensitivity<Vec> sensitivity(layer);
  sensitivity.move_to(settled.phi, input);
  auto solver = bilevel::make_adjoint_solver<Vec>("gmres");
  Vec from_above = Eigen::Vector2d(1, 2), to_below(2);
  sensitivity.pullback(from_above, *solver, to_below);
  const Vec forward = sensitivity.pushforward(Eigen::Vector2d(1, 0), *solver).x;
  const Eigen::MatrixXd jacobian = *sensitivity.jacobian();
  fmt::print("output    {:.6f} {:.6f}\n", settled.phi[0], settled.phi[1]);
  fmt::print("backward  {:.6f} {:.6f}\n", to_below[0], to_below[1]);
  fmt::print("forward   {:.6f} {:.6f}\n", forward[0], forward[1]);
  fmt::print("agreement with the dense Jacobian: {}\n",
             (jacobian.transpose() * from_above - to_below).norm() < 1e-8 &&
                     (jacobian.col(0) - forward).norm() < 1e-8
                 ? "yes"
                 : "no");
}
