#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include <Eigen/Cholesky>
#include <Eigen/SVD>

#include <bilevel/problems/log_cosh.hpp>

#include "dense_curvature.hpp"

namespace claims {

/// Of a square matrix, largest first; no need of more than rotations for the few rows there are.
inline Vec singular_values(const Mat& square) {
  return Eigen::JacobiSVD<Mat, Eigen::NoQRPreconditioner>(square).singularValues();
}
/// The unit vector v with the largest ‖Av‖.
inline Vec most_amplified(const Mat& a) {
  const Mat square = a.transpose() * a;
  return Eigen::JacobiSVD<Mat, Eigen::NoQRPreconditioner>(square, Eigen::ComputeFullV).matrixV().col(0);
}
inline double spectral_norm(const Mat& a) {
  return std::sqrt(singular_values(a.transpose() * a)[0]);
}

/// The constants of the assumption behind the error bound of equilibrium propagation, each good for both
/// losses and all φ.
struct PropagationConstants {
  double inner_cross, outer_cross;  ///< B_in and B_out: Lipschitz constants of ∂θ L_in and ∂θ L_out
  double smoothness, convexity;     ///< L and μ
  double hessian, cross;            ///< ρ and σ: Lipschitz constants of ∂φ² and of ∂φ∂θ

  double condition() const { return smoothness / convexity; }
  /// C of the theorem for R = (L/μ)·‖φ₀ − argmin L_out‖:
  /// C = B_out R(1 + L/μ) + σLR²/μ + B_in (LR/μ)(1 + L/μ + ρR/μ).
  double constant(double reach) const {
    const double k = condition();
    return outer_cross * reach * (1 + k) + cross * k * reach * reach +
           inner_cross * k * reach * (1 + k + hessian * reach / convexity);
  }
  /// The constant proven in docs/propagation-constant.md: B_out R + σR²/2 + B_in R(L + ρR/2)/μ. There R may
  /// be ‖∂φ L_out(φ₀)‖/μ, B_in ‖∂θ∂φ L_in(φ₀)‖, L that of L_out, ρ and σ those of L_in: see sharpest().
  double sharper_constant(double reach) const {
    return outer_cross * reach + cross * reach * reach / 2 +
           inner_cross * reach * (smoothness + hessian * reach / 2) / convexity;
  }
};

/// Two losses that are both smooth and strongly convex, with no term of the theorem zero:
///   L_in = ½ φᵀHφ + ε Σ ln cosh(φ − Jθ)_i,   L_out = Σ ln cosh(φ − y − Kθ)_i + ½ (φ − y)ᵀG(φ − y)
class ConvexPair final : public bilevel::Problem<Vec> {
 public:
  ConvexPair(Mat h, Mat g, Mat j, Mat k, Vec y, double epsilon)
      : h_(std::move(h)),
        g_(std::move(g)),
        j_(std::move(j)),
        k_(std::move(k)),
        y_(std::move(y)),
        epsilon_(epsilon) {
    // Symmetric and positive definite: singular values are eigenvalues.
    const Vec inner = singular_values(h_), outer = singular_values(g_);
    const double j_norm = spectral_norm(j_), k_norm = spectral_norm(k_);
    constants_ = {.inner_cross = epsilon_ * j_norm,
                  .outer_cross = k_norm,
                  .smoothness = std::max(inner.maxCoeff() + epsilon_, outer.maxCoeff() + 1),
                  .convexity = std::min(inner.minCoeff(), outer.minCoeff()),
                  .hessian = bend * std::max(epsilon_, 1.0),
                  .cross = bend * std::max(epsilon_ * j_norm, k_norm)};
  }

  /// Draw `number` of a laboratory: |φ| in 1…8, |θ| in 1…4, κ(H) and κ(G) in 1…30, ε and the sizes of J and K
  /// over two orders of magnitude; `theta` is drawn with it.
  static ConvexPair random(const Laboratory& lab, std::uint64_t number, Vec& theta) {
    std::mt19937_64 engine = lab.engine(number);
    const auto uniform = [&](double a, double b) { return std::uniform_real_distribution<>(a, b)(engine); };
    const auto decades = [&](double a, double b) {
      return std::pow(10, uniform(std::log10(a), std::log10(b)));
    };
    const auto gaussian = [&](Index rows, Index columns) {
      return Mat(Mat::NullaryExpr(rows, columns,
                                  [&](Index, Index) { return std::normal_distribution<>()(engine); }));
    };
    const Index n = 1 + static_cast<Index>(engine() % 8), m = 1 + static_cast<Index>(engine() % 4);
    const auto definite = [&] {
      const double kappa = decades(1, 30), size = decades(0.3, 3);
      Vec values(n);
      for (Index i = 0; i < n; ++i) values[i] = size * std::pow(kappa, uniform(-0.5, 0.5));
      Mat a = values.asDiagonal();
      for (int reflection = 0; reflection < 3; ++reflection) {
        const Vec v = gaussian(n, 1).normalized();
        const Mat mirror = Mat::Identity(n, n) - 2 * v * v.transpose();
        a = mirror * a * mirror;
      }
      return Mat(0.5 * (a + a.transpose()));
    };
    const Mat h = definite(), g = definite();
    const Mat j = decades(0.1, 3) * gaussian(n, m), k = decades(0.03, 3) * gaussian(n, m);
    theta = gaussian(m, 1);
    return ConvexPair(h, g, j, k, gaussian(n, 1), decades(0.1, 10));
  }

  Vec initial_phi() const override { return Vec::Zero(h_.rows()); }
  Vec initial_theta() const override { return Vec::Ones(j_.cols()); }

  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec a = phi - j_ * theta, product = h_ * phi, t = a.array().tanh();
    if (wanted.phi) *wanted.phi = product + epsilon_ * t;
    if (wanted.theta) *wanted.theta = -epsilon_ * (j_.transpose() * t);
    return 0.5 * phi.dot(product) + epsilon_ * a.unaryExpr(&bilevel::problems::log_cosh).sum();
  }

  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    const Vec distance = phi - y_, c = distance - k_ * theta, product = g_ * distance, t = c.array().tanh();
    if (wanted.phi) *wanted.phi = product + t;
    if (wanted.theta) *wanted.theta = -(k_.transpose() * t);
    return 0.5 * distance.dot(product) + c.unaryExpr(&bilevel::problems::log_cosh).sum();
  }

  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<bilevel::Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Curvature>();
    auto& curvature = static_cast<Curvature&>(*reuse);
    curvature.hessian = hessian(phi, theta, 1, beta);
    curvature.cross = cross(phi, theta, 1, beta);
  }

  bilevel::Constants constants(const Vec&, const Vec&, double) override {
    return {.mu = constants_.convexity,
            .smoothness = constants_.smoothness,
            .hessian_lipschitz = constants_.hessian,
            .cross_lipschitz = constants_.cross,
            .cross_norm = constants_.inner_cross,
            .outer_smoothness = constants_.smoothness,
            .outer_cross_lipschitz = constants_.outer_cross};
  }

  /// ∂φ² of in·L_in + out·L_out.
  Mat hessian(const Vec& phi, const Vec& theta, double in, double out) const {
    Mat sum = in * h_ + out * g_;
    sum.diagonal() += in * epsilon_ * (phi - j_ * theta).unaryExpr(&bilevel::problems::sech_squared) +
                      out * (phi - y_ - k_ * theta).unaryExpr(&bilevel::problems::sech_squared);
    return sum;
  }
  /// ∂θ∂φ of in·L_in + out·L_out, |φ|×|θ|.
  Mat cross(const Vec& phi, const Vec& theta, double in, double out) const {
    const Vec a = (phi - j_ * theta).unaryExpr(&bilevel::problems::sech_squared);
    const Vec c = (phi - y_ - k_ * theta).unaryExpr(&bilevel::problems::sech_squared);
    return -in * epsilon_ * (a.asDiagonal() * j_) - out * (c.asDiagonal() * k_);
  }

  /// argmin in·L_in + out·L_out to the last digits: Newton's method, halving steps that do not lower the
  /// gradient norm, until none does.
  Vec minimiser(const Vec& theta, double in, double out) {
    Vec phi = Vec::Zero(h_.rows());
    Vec gradient = force(phi, theta, in, out);
    for (int step = 0; step < 100; ++step) {
      const Vec direction = hessian(phi, theta, in, out).llt().solve(gradient);
      double length = 1;
      Vec moved = phi - direction, there = force(moved, theta, in, out);
      while (!(there.norm() < gradient.norm()) && length > 1e-3) {
        length /= 2;
        moved = phi - length * direction;
        there = force(moved, theta, in, out);
      }
      if (!(there.norm() < gradient.norm())) break;
      phi = moved;
      gradient = there;
    }
    return phi;
  }
  /// φ_β.
  Vec settled(const Vec& theta, double beta) { return minimiser(theta, 1, beta); }
  /// dφ_β/dβ = −(∂φ²L)⁻¹ ∂φ L_out at φ_β.
  Vec velocity(const Vec& phi, const Vec& theta, double beta) {
    return -hessian(phi, theta, 1, beta).llt().solve(force(phi, theta, 0, 1));
  }
  /// ∂θ L_out − ∂φ L_out (∂φ² L_in)⁻¹ ∂θ∂φ L_in at φ; at φ₀ the outer gradient.
  Vec gradient_at(const Vec& phi, const Vec& theta) {
    Vec direct(theta.size());
    outer(phi, theta, {.theta = &direct});
    return direct + cross(phi, theta, 1, 0).transpose() * velocity(phi, theta, 0);
  }

  /// Moves the target y, and with it argmin L_out, which depends on φ − y only.
  void shift_target(const Vec& by) { y_ += by; }
  const PropagationConstants& about() const { return constants_; }
  /// Each constant of that loss only which the proof needs it of, and ‖∂θ∂φ L_in‖ at φ₀ instead of its bound.
  PropagationConstants sharpest(const Vec& free, const Vec& theta) const {
    PropagationConstants c = constants_;
    c.inner_cross = spectral_norm(cross(free, theta, 1, 0));
    c.smoothness = singular_values(g_).maxCoeff() + 1;
    c.hessian = bend * epsilon_;
    c.cross = bend * epsilon_ * spectral_norm(j_);
    return c;
  }

 private:
  static constexpr double bend = 4 / (3 * std::numbers::sqrt3);  ///< the Lipschitz constant of sech²

  struct Curvature final : DenseCurvature {
    double cross_norm() override { return cross.norm(); }
  };

  Vec force(const Vec& phi, const Vec& theta, double in, double out) {
    Vec a(phi.size()), b(phi.size());
    inner(phi, theta, {.phi = &a});
    outer(phi, theta, {.phi = &b});
    return in * a + out * b;
  }

  Mat h_, g_, j_, k_;
  Vec y_;
  double epsilon_;
  PropagationConstants constants_;
};

}  // namespace claims
