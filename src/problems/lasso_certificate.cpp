// What the certificates of lasso and elastic net rest on.
//
// They speak of the piece of F that belongs to the active set A and its signs, on the manifold φ_I = 0. There
// F_A is affine in φ_A, so a zero φ° lies within ‖F_A‖/λ_min(H_AA + λ₂). Where no active coefficient can
// change its sign and no inactive |∂_j f| can reach λ₁ⱼ within that distance, φ° is the solution, with room
// to spare, and ∇θ is what J and χ say. Quantities of inactive coordinates do not enter: neither they nor
// their rounding errors reach ∇θ.

#include <algorithm>
#include <cmath>

#include <bilevel/problem/gamma.hpp>

#include "problems/lasso_curvature.hpp"
#include "problems/lasso_gram.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;

namespace {

double sum_over(const Vec& values, const std::vector<Index>& which, bool intercept) {
  double sum = intercept ? 1 : 0;
  for (const Index j : which) sum += values[j];
  return sum;
}

}  // namespace

/// Bounds of the errors of ∂_j of a mean ½r² for the features `wanted`, then of the intercept's. With
/// s_j = √mean((|x_ij| + |shift_j|)·scale_j)², margins are sums of terms whose root mean squares add up to
/// P = Σ_k s_k|φ_k| + |b| at most, slopes to P + √mean(|y| + |offset|)², and x_ij averages to s_j against
/// either. The factor 2 covers that where the Gram matrix is kept rms(x) + |shift| stands for rms(|x| +
/// |shift|), twice.
Vec Lasso::gradient_rounding(DataLoss& loss, const RoundingSizes& sizes, const Extent& extent, const Vec& phi,
                             const std::vector<Index>& wanted) const {
  double margin = intercept_ ? std::abs(phi[features_]) : 0, terms = 1;
  for (Index j = 0; j < features_; ++j)
    if (phi[j] != 0) {
      margin += std::sqrt(extent.stored_mean_square[j]) * std::abs(phi[j]);
      ++terms;
    }
  const DataLoss::Depths depths = loss.depths();
  const double map = 2 * terms + 8;
  const double sum = std::max(depths.sum, sizes.sum_depth) + map + 16;
  // A term that is zero takes part in no rounding, so a margin has as many as there are coefficients.
  const double depth = std::min(depths.margin, terms + 4) + map;
  const double each = 2.002 * (gamma(sum) * (sizes.label_size + margin) + gamma(depth) * margin) + 1e-307;
  Vec errors(static_cast<Index>(wanted.size()) + intercept_);
  for (std::size_t k = 0; k < wanted.size(); ++k)
    errors[static_cast<Index>(k)] = each * std::sqrt(extent.stored_mean_square[wanted[k]]);
  if (intercept_) errors[errors.size() - 1] = each;
  return errors;
}

/// Roundings that λ₁ has on top of those of exp: see PenalisedModel::set_penalties.
double Lasso::exponent_depth() const {
  if (penalties_.offset.size() + penalties_.slope.size() == 0) return 0;
  return 8 * (lambda_.array().max(1e-300).log().abs().maxCoeff() + 1);
}

/// Roundings in a row of one element of J, formed or by products, and of its product with a vector.
double Lasso::product_depth(Index active) const {
  const double terms = 2 * static_cast<double>(active + 1) + 26;
  if (active + intercept_ <= LassoCurvature::formed_limit) return gram_->depth() + terms;
  const DataLoss::Depths depths = training_->depths();
  return std::max(depths.sum, training_sizes_->sum_depth) + depths.margin + terms;
}

Constants Lasso::constants(const Vec& theta, const Vec& center, double radius) {
  set_penalties(theta);
  evaluate(center);
  const std::vector<Index> active = active_set(center);
  const double up = 1 + gamma(static_cast<double>(size_) + 32);
  const double trace = sum_over(training_extent_.mean_square, active, intercept_) * up;
  Constants c;
  c.smoothness = std::max(c_, trace + lambda2_) * up * exp_up;
  c.outer_smoothness = sum_over(validation_extent_.mean_square, active, intercept_) * up;
  c.outer_cross_lipschitz = 0;
  c.cross_lipschitz = lambda2_ * exp_up;
  if (!std::isfinite(radius)) return c;

  PenaltyNorm norm(penalties_);
  double second = 0;
  for (const Index j : active) {
    norm.add(j, lambda_[j] * lambda_[j]);
    const double each = lambda2_ * (std::abs(center[j]) + radius);
    second += each * each;
  }
  c.cross_norm = std::sqrt(norm.square() + second) * up * exp_up;

  std::vector<Index> all(at(features_));
  for (Index j = 0; j < features_; ++j) all[at(j)] = j;
  const Vec errors = gradient_rounding(*training_, *training_sizes_, training_extent_, center, all);
  const double shrunk = 1 - gamma(8 + exponent_depth());
  bool stays = true;
  for (Index j = 0; j < features_ && stays; ++j) {
    const int s = side(j, center[j], gradient_[j]);
    if (s != 0) {
      stays = s * center[j] > radius;
    } else {
      // |∂_j f| moves by at most ‖H_jA‖·radius, and |H_jk| ≤ √(H_jj·H_kk).
      const double reach = std::sqrt(training_extent_.mean_square[j] * trace) * up * radius;
      stays = center[j] == 0 && std::abs(gradient_[j]) + errors[j] + reach < lambda_[j] * shrunk;
    }
  }
  if (stays) c.hessian_lipschitz = 0;
  return c;
}

Rounding Lasso::rounding(const Vec& phi, const Vec& theta, const Vec& pi) {
  set_penalties(theta);
  evaluate(phi);
  const std::vector<Index> active = active_set(phi);
  const double size = sum_over(training_extent_.stored_mean_square, active, intercept_);
  const double depth = product_depth(static_cast<Index>(active.size()));

  double penalties = 0, ridge = 0, adjoint_ridge = 0, reach = intercept_ ? std::abs(pi[features_]) : 0;
  double terms = 0, second = 0;
  for (const Index j : active) {
    penalties += lambda_[j] * lambda_[j];
    ridge += phi[j] * phi[j];
    adjoint_ridge += pi[j] * pi[j];
    reach += std::sqrt(training_extent_.stored_mean_square[j]) * std::abs(pi[j]);
    terms += std::abs(lambda_[j] * pi[j]);
    second += std::abs(lambda2_ * phi[j] * pi[j]);
  }
  Rounding r;
  r.residual =
      1.001 * (gradient_rounding(*training_, *training_sizes_, training_extent_, phi, active).norm() +
               gamma(10 + exponent_depth()) * (std::sqrt(penalties) + lambda2_ * std::sqrt(ridge)));
  // H_AA·π: each element of H is off by at most 8γ·s_j·s_k, see LassoCurvature::least_eigenvalue.
  r.adjoint =
      1.001 *
      (gradient_rounding(*validation_, *validation_sizes_, validation_extent_, phi, active).norm() +
       8 * gamma(depth) * std::sqrt(size) * reach + gamma(depth) * lambda2_ * std::sqrt(adjoint_ridge));
  r.curvature = 1.001 * (8 * gamma(depth) * size + gamma(10) * lambda2_);
  r.gradient = 1.001 * gamma(static_cast<double>(active.size()) + 16 + exponent_depth()) *
               (terms * penalties_.spread() + second);
  return r;
}

}  // namespace bilevel::problems
