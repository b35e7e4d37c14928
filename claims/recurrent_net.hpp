#pragma once

#include <Eigen/Eigenvalues>

#include <bilevel/gradient/impl/spectrum.hpp>

#include "dense_curvature.hpp"

namespace claims {

/// A recurrent net at rest, φ = tanh(Wφ + Uθ + b), judged by ½‖φ − y‖²: it settles and minimises nothing, and
/// its Jacobian I − diag(s)·W, s = 1 − φ², is not symmetric.
class RecurrentNet final : public Dense<bilevel::Equilibrium<Vec>> {
 public:
  RecurrentNet(Mat weights, Mat input_weights, Vec bias, Vec target)
      : w(std::move(weights)), u(std::move(input_weights)), b(std::move(bias)), y(std::move(target)) {}

  Vec initial_phi() const override { return Vec::Zero(w.rows()); }
  Vec initial_theta() const override { return Vec::Constant(u.cols(), 0.1); }
  Vec drive(const Vec& phi, const Vec& theta) const { return w * phi + u * theta + b; }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override {
    out = phi - drive(phi, theta).array().tanh().matrix();
  }
  double outer(const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi - y;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi - y).squaredNorm();
  }
  bilevel::Capabilities capabilities() const override { return {.symmetric = false}; }
  void fill(DenseCurvature& c, const Vec& phi, const Vec& theta, double beta) override {
    const Vec s = 1 - drive(phi, theta).array().tanh().square();
    c.hessian = -(s.asDiagonal() * w);
    c.hessian.diagonal().array() += 1 + beta;
    c.cross = -(s.asDiagonal() * u);
  }

  Mat w, u;
  Vec b, y;
};

/// |λ| of the eigenvalue that is largest in size.
inline double spectral_radius(const Mat& matrix) {
  return Eigen::EigenSolver<Mat>(matrix, false).eigenvalues().cwiseAbs().maxCoeff();
}

/// Random weights with ‖W‖₂ = `norm`; draws from `first` on. Below 1 there is one equilibrium, and σ_min of
/// the Jacobian is at least 1 − norm.
inline RecurrentNet random_net(const Laboratory& lab, Index units, Index inputs, double norm,
                               std::uint64_t first) {
  Mat w = lab.matrix(units, units, first);
  w *= norm / bilevel::dense_spectrum(w, false).largest;
  return {w, lab.matrix(units, inputs, first + 1), 0.5 * lab.vector(units, first + 2),
          0.5 * lab.vector(units, first + 3)};
}

}  // namespace claims
