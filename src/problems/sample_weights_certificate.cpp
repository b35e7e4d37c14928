// What the certificates of learned sample weights rest on: constants and rounding errors.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <bilevel/problem/gamma.hpp>

#include "problems/sample_weights_curvature.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;

namespace {

// Of softmax as a function of its margins. diag(p) − ppᵀ has norm ≤ ½; its derivative along a unit vector is
// a third central moment of a variable of range ≤ √2, at most (√2)³/(6√3), and relative to the variance at
// most that range; the slope p − e_y is at most √2 long.
constexpr double largest_curvature = 0.5, third = 0.2721655269759088, root_two = 1.4142135623730952;

}  // namespace

/// ‖Δχ‖ for a change Δ of φ: the columns are σ′_i/n·x_i ⊗ J_i(x_iΔ) with ‖J_i‖ ≤ ½. By the Frobenius norm,
/// and by vᵀ(Δχ)u ≤ ½/n·max σ′_i‖x_i‖·‖Δ‖·‖u‖·√(Σ‖x_i v‖²).
double SampleWeights::cross_lipschitz() const {
  double fourth = 0, most = 0;
  for (Index i = 0; i < training_.rows; ++i) {
    const double each = slopes_[i] * slopes_[i] * training_.squares[i];
    fourth += each * training_.squares[i];
    most = std::max(most, each);
  }
  const double up = 1 + gamma(static_cast<double>(training_.rows) + 32);
  return largest_curvature * up *
         std::min(std::sqrt(fourth) * inverse_rows_,
                  std::sqrt(most * training_.second_moment * inverse_rows_));
}

/// sup of ‖H^(−1/2)χ‖ on a ball. With z_i = −e_y/p_iy the slope of a row is p_i − e_y = J_i z_i, and H is at
/// least 1/n Σ σ_i x_ix_iᵀ ⊗ J_i. For u on some rows, uᵀχᵀH⁻¹χu ≤ 1/n Σ u_i² σ′_i²/σ_i · z_iᵀJ_iz_i, where
/// z_iᵀJ_iz_i = (1 − p_iy)/p_iy. For rows with a hopeless label that is useless, and ‖χu‖²/λ serves: rows are
/// taken to the one side or to the other, whatever gives least.
double SampleWeights::cross_energy(const Vec& center, double radius) {
  const Vec& p = probabilities_at(center);
  const Index n = training_.rows;
  // Within the ball, and by the rounding of margins, log-odds move by at most √2·‖x_i‖ times the distance.
  const double reach = radius + gamma(training_.margin_depth + 8) * center.norm() + 1e-14;
  const double grow = std::exp(root_two * training_.largest * reach);
  std::vector<std::pair<double, double>> rows(static_cast<std::size_t>(n));
  double rest = 0;
  for (Index i = 0; i < n; ++i) {
    const auto of_row = p.segment(i * classes_, classes_);
    const double py = of_row[training_.labels[i]];
    const double odds = (1 - py + 1e-14) / std::max(py, 1e-300);
    const double energy = slopes_[i] * (1 - weights_[i] + 1e-15) * odds;  // σ′²/σ = σ(1 − σ)²
    const double slope2 = of_row.squaredNorm() - py * py + (1 - py) * (1 - py) + 1e-14;
    const double square = slopes_[i] * slopes_[i] * slope2 * training_.squares[i];
    rows[static_cast<std::size_t>(i)] = {energy, square};
    rest += square;
  }
  std::sort(rows.begin(), rows.end());
  const double drift = cross_lipschitz() * reach;
  const auto whole = [&](double energy, double square) {
    const double frobenius = std::sqrt(std::max(0.0, square)) * inverse_rows_ + drift;
    return energy * grow * inverse_rows_ + frobenius * frobenius / lambda_;
  };
  const double slack = gamma(static_cast<double>(n) + 64) * rest;
  double best = whole(0, rest + slack);
  for (const auto& [energy, square] : rows) {
    rest -= square;
    best = std::min(best, whole(energy, rest + 2 * slack));
  }
  // All rows on the one side: nothing is left to drift.
  best = std::min(best, rows.back().first * grow * inverse_rows_);
  return std::sqrt(best) * (1 + gamma(static_cast<double>(n + classes_) + 64));
}

Constants SampleWeights::constants(const Vec& theta, const Vec& center, double radius) {
  set_weights(theta);
  const SoftmaxRows &t = training_, &v = trusted_;
  const double up = 1 + gamma(static_cast<double>(t.rows) + 32);
  // ‖1/n Σ σ_i x_i x_iᵀ‖
  const double moment =
      std::min(weights_.maxCoeff() * t.second_moment, weights_.dot(t.squares) * inverse_rows_) * up;
  Constants c;
  c.mu = lambda_;
  c.smoothness = (largest_curvature * moment + lambda_) * up;
  c.hessian_lipschitz = third * t.largest * moment * up;
  c.curvature_decay = root_two * t.largest * up;
  c.cross_lipschitz = cross_lipschitz();
  c.cross_norm = root_two * up *
                 std::min(std::sqrt(slopes_.cwiseAbs2().dot(t.squares)) * inverse_rows_,
                          slopes_.maxCoeff() * std::sqrt(t.second_moment * inverse_rows_));
  c.cross_energy = c.cross_norm / std::sqrt(lambda_) * up;
  if (std::isfinite(radius)) c.cross_energy = std::min(c.cross_energy, cross_energy(center, radius));
  c.outer_smoothness = largest_curvature * v.second_moment * up;
  c.outer_lipschitz = root_two * std::sqrt(v.mean_square) * up;
  c.outer_cross_lipschitz = 0;
  c.outer_decay = root_two * v.largest * up;
  return c;
}

double SampleWeightsCurvature::cross_norm() {
  const Index n = model.training_.rows, c = model.classes_;
  double sum = 0;
  for (Index i = 0; i < n; ++i) {
    const auto p = probabilities.segment(i * c, c);
    const double py = p[model.training_.labels[i]];
    const double slope2 = p.squaredNorm() - py * py + (1 - py) * (1 - py) + 1e-14;
    sum += slopes[i] * slopes[i] * slope2 * model.training_.squares[i];
  }
  // p is off because the margins are; their error moves χ as a change of φ would.
  const double moved = gamma(model.training_.margin_depth + 8) * phi.norm();
  return (std::sqrt(sum) + model.cross_lipschitz() * moved) * (1 + gamma(static_cast<double>(n + c) + 64));
}

// u = 2⁻⁵³, γ_k as in Higham. A margin is off by γ·‖x_i‖‖φ‖, its slope by half of that and by a few roundings
// of its own; errors e_i of the slopes reach a gradient as ‖mean e_i x_i‖ ≤ √(‖mean xxᵀ‖·mean e²), and the
// sum itself errs by γ of the mean of |slope_i||x_i|. Weights are at most one and off by a few roundings,
// which the depth of the sum takes in. Products of two γ are covered by the factor 1.001.
double SampleWeights::gradient_rounding(const SoftmaxRows& part, double norm_phi) {
  const double size = std::sqrt(part.mean_square);
  return gamma(part.sum_depth + 32) * root_two * size +
         largest_curvature * std::sqrt(part.second_moment) * gamma(part.margin_depth + 8) * size * norm_phi +
         1e-307 * size;
}

Rounding SampleWeights::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  set_weights(theta);
  const SoftmaxRows& t = training_;
  const double norm_phi = phi.norm(), norm_pi = pi.norm(), size = std::sqrt(t.mean_square);
  const double margin = gamma(t.margin_depth + 8), sum = gamma(t.sum_depth + 32);
  const double slope = slopes_.maxCoeff(), classes = static_cast<double>(classes_);
  Rounding r;
  r.residual = 1.001 * (gradient_rounding(t, norm_phi) + gamma(8) * lambda_ * norm_phi);

  const double margin_error = margin * t.largest * norm_phi;
  const double curvature_error = third * margin_error * t.second_moment;
  // Of Xᵀ(D(Xπ)): D is off because the margins are, then Xπ, then the sum.
  const double product = curvature_error * norm_pi +
                         largest_curvature * std::sqrt(t.second_moment) * size * (margin + sum) * norm_pi;
  r.adjoint = 1.001 * (gradient_rounding(trusted_, norm_phi) + product + gamma(16) * lambda_ * norm_pi);
  double depth = t.sum_depth;
  if (const ModelMatrix& x = *samples_.matrix; !x.sparse())
    depth = std::max(depth, kernels::Chunking(t.rows, x.dense_rows(t.range).stride).gram_depth() + classes);
  r.curvature =
      1.001 * (largest_curvature * gamma(depth + 40) * t.mean_square + curvature_error + gamma(8) * lambda_);

  // Σ over the rows of (σ′_i/n · error of (p_i − e_y)·(x_iπ))², each ≤ ‖x_i‖‖π‖ times what p and the dot err
  // by.
  const double each = root_two * gamma(t.margin_depth + classes + 48) + largest_curvature * margin_error +
                      gamma(classes + 32);
  const double per_row = slope * std::sqrt(inverse_rows_);
  r.gradient = 1.001 * (per_row * size * norm_pi * each + 1e-307);
  r.inner_theta = 1.001 * per_row * gamma(t.margin_depth + classes + 32) *
                  (2 * t.largest * norm_phi + std::log(classes) + 1);
  return r;
}

}  // namespace bilevel::problems
