#pragma once

#include <memory>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::conformance {

/// A recurrent net at rest, φ = tanh(Wφ + θ + input): settles and minimises nothing, so its Jacobian I −
/// diag(s)·W is not symmetric. θ holds the biases and, as a second block, the input: an input is learned or
/// differentiated like any other parameter.
class RecurrentNet final : public Equilibrium<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

 public:
  RecurrentNet(Mat weights, Mat input_weights, Vec target)
      : w(std::move(weights)), u(std::move(input_weights)), y(std::move(target)) {}

  Vec initial_phi() const override { return Vec::Zero(w.rows()); }
  Vec initial_theta() const override { return Vec::Constant(w.rows() + u.cols(), 0.1); }
  Vec drive(const Vec& phi, const Vec& theta) const {
    return w * phi + theta.head(w.rows()) + u * theta.tail(u.cols());
  }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override {
    out = phi - drive(phi, theta).array().tanh().matrix();
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi - y;
    if (wanted.theta) *wanted.theta = 0.01 * theta;
    return 0.5 * (phi - y).squaredNorm() + 0.005 * theta.squaredNorm();
  }
  Capabilities capabilities() const override { return {.symmetric = false}; }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Jacobian>();
    auto& c = static_cast<Jacobian&>(*reuse);
    c.slope = 1 - drive(phi, theta).array().tanh().square();
    c.beta = beta;
    c.net = this;
  }

  Mat w, u;
  Vec y;

 private:
  struct Jacobian final : Curvature<Vec> {
    void times(const Vec& v, Vec& out) override { out = (1 + beta) * v - slope.cwiseProduct(net->w * v); }
    void transpose_times(const Vec& v, Vec& out) override {
      out = (1 + beta) * v - net->w.transpose() * slope.cwiseProduct(v);
    }
    void cross_times(const Vec& v, Vec& out) override {
      const Vec s = slope.cwiseProduct(v);
      out << -s, -(net->u.transpose() * s);
    }
    void cross_apply(const Vec& t, Vec& out) override {
      out = -slope.cwiseProduct(t.head(net->w.rows()) + net->u * t.tail(net->u.cols()));
    }
    Vec slope;
    double beta = 0;
    const RecurrentNet* net = nullptr;
  };
};

/// Random weights with ‖W‖ < 1, so that it settles from anywhere.
inline RecurrentNet random_net(std::uint64_t seed, Index units = 7, Index inputs = 3) {
  Eigen::VectorXd draws(units * units + units * inputs + units);
  Space<Eigen::VectorXd>::random(seed, draws);
  Eigen::MatrixXd w = Eigen::Map<Eigen::MatrixXd>(draws.data(), units, units);
  w *= 0.8 / w.norm();
  return {w, Eigen::Map<Eigen::MatrixXd>(draws.data() + units * units, units, inputs),
          0.5 * draws.tail(units)};
}

}  // namespace bilevel::conformance
