// What the certificates of a penalised model rest on: constants and rounding errors, all in the model's
// units.

#include <algorithm>
#include <cmath>
#include <mutex>

#include <bilevel/problem/gamma.hpp>

#include "problems/dense_matrices.hpp"
#include "problems/kernels/pieces.hpp"
#include "problems/penalised_curvature.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Up to here the eigenvalues of the second moments are found, where that is done once.
static constexpr Index few_enough_for_eigenvalues = 256;

PenalisedModel::Sizes PenalisedModel::sizes(DataLoss& loss, const Extent& extent, const Mat& moments) const {
  // A margin has one output: its row meets one unit a feature, at most the largest.
  Vec unit(features_ + 1);
  for (Index j = 0; j < features_; ++j) unit[j] = units_.segment(j * outputs_, outputs_).maxCoeff();
  unit[features_] = intercepts_ > 0 ? units_[coefficients_] : 0;
  const Vec squares = unit.cwiseAbs2();
  const double up = 1 + gamma(4 * static_cast<double>(features_) + 64);
  Sizes s;
  s.mean_square = squares.dot(extent.mean_square) * up;
  s.stored_square = squares.dot(extent.plain_mean_square) * up;
  // The norm of a matrix with elements ≥ 0 is at most its largest row sum.
  s.second_moment = s.mean_square;
  if (moments.size() > 0) {
    const double off = gamma(loss.depths().dense + 32) * squares.dot(extent.stored_mean_square);
    const double rows = unit.cwiseProduct(moments.cwiseAbs() * unit).maxCoeff();
    s.second_moment = std::min(s.second_moment, rows * up + off);
    if (units_of_one_ && features_ <= few_enough_for_eigenvalues) {
      const Index n = features_ + (intercepts_ > 0 ? 1 : 0);
      const Extremes ends = extreme_eigenvalues(moments.topLeftCorner(n, n));
      s.second_moment = std::min(s.second_moment, (ends.largest + off) * up);
      s.least_moment = std::max(0.0, ends.least - off);
    }
  }
  // Rows one by one: Σ_j unit²·(x − shift)²·inverse², where what is not stored contributes that of a zero.
  const ModelMatrix& x = *loss.samples().matrix;
  const Vec &shift = standardisation_.shift, &inverse = standardisation_.inverse_scale;
  const Vec scaled = squares.head(features_).cwiseProduct(inverse.cwiseAbs2());
  const double zeros = scaled.dot(shift.cwiseAbs2());
  s.shift_norm = std::sqrt(zeros) * up;
  if (loss.samples().offsets)
    for (const auto& [first, last] : loss.ranges())
      s.offset =
          std::max(s.offset, loss.samples().offsets->segment(first, last - first).cwiseAbs().maxCoeff());
  // ‖XᵀX‖ = ‖XXᵀ‖ is at most the largest row sum of |X||X|ᵀ, which takes the column sums and one look at each
  // row.
  const Vec column = unit.cwiseProduct(extent.plain_mean);
  const Vec factor = unit.head(features_).cwiseProduct(inverse).cwiseProduct(column.head(features_));
  double largest = 0, stored_largest = 0, row_sum = 0;
  for (const auto& [first, last] : loss.ranges()) {
    constexpr Index rows_in_piece = 1024;
    const Index begin = first, end = last, pieces = (end - begin + rows_in_piece - 1) / rows_in_piece;
    std::mutex guard;
    kernels::for_each_piece(pieces, (end - begin) * features_, [&](Index piece) {
      double own_largest = 0, own_stored = 0, own_sum = 0;
      const Index from = begin + piece * rows_in_piece;
      for (Index i = from; i < std::min(end, from + rows_in_piece); ++i) {
        double square = zeros, stored = 0, sum = 0;
        x.for_each(i, [&](Index j, double value) {
          const double m = shift[j];
          square += scaled[j] * ((value - m) * (value - m) - m * m);
          stored += scaled[j] * value * value;
          sum += factor[j] * std::abs(value);
        });
        own_largest = std::max(own_largest, square);
        own_stored = std::max(own_stored, stored);
        own_sum = std::max(own_sum, sum);
      }
      const std::lock_guard lock(guard);  // the largest of all has no order
      largest = std::max(largest, own_largest);
      stored_largest = std::max(stored_largest, own_stored);
      row_sum = std::max(row_sum, own_sum);
    });
  }
  const double one = squares[features_],
               slack = gamma(4 * static_cast<double>(features_) + 64) * (stored_largest + zeros);
  s.largest = std::sqrt(largest + slack + one) * up;
  s.stored_largest = std::sqrt(stored_largest + one) * up;
  if (!loss.samples().weights) {
    const double by_rows = std::sqrt(row_sum + one) + s.shift_norm;
    s.second_moment = std::min(s.second_moment, by_rows * by_rows * up);
  }
  return s;
}

void PenalisedModel::measure_sizes() {
  if (measured_) return;
  training_sizes_ = sizes(*training_, training_extent_, training_moments_);
  validation_sizes_ = sizes(*validation_, validation_extent_, validation_moments_);
  measured_ = true;
}

Constants PenalisedModel::constants(const Vec& theta, const Vec& center, double radius) {
  set_penalties(theta);
  const LossShape shape = training_->shape();
  measure_sizes();
  const Sizes &t = training_sizes_, &v = validation_sizes_;
  const double largest = lambda_.maxCoeff() * exp_up * (1 + gamma(exponent_depth_));
  const bool ball = std::isfinite(radius);
  const double up = 1 + gamma(static_cast<double>(size_) + 32);
  Constants c;
  // Losses are convex: without a free intercept the penalties alone make L_in strongly convex.
  if (intercepts_ == 0)
    c.mu = (shape.least_curvature * t.least_moment + lambda_.minCoeff()) * (1 - gamma(8 + exponent_depth_));

  double curvature = shape.largest_curvature, third = shape.curvature_lipschitz, outer_curvature = curvature;
  if (!std::isfinite(curvature) && ball) {
    // Poisson: loss″ = loss‴ = exp(m), and within the ball no margin grows by more than radius·max‖z_i‖.
    to_stored(center, u_);
    const auto largest_exponential = [&](DataLoss& loss, const Sizes& s) {
      RowCurvature rows;
      loss.curvature_at(u_, rows);
      const double rounding = std::exp(margin_error(loss, s.stored_largest, s, center.norm()));
      return loss.largest_curvature(rows) * std::exp(radius * s.largest) * rounding * (1 + 1e-12);
    };
    curvature = third = largest_exponential(*training_, t);
    outer_curvature = largest_exponential(*validation_, v);
  }
  if (std::isfinite(curvature)) {
    c.smoothness = (curvature * t.second_moment + largest) * up;
    c.outer_smoothness = outer_curvature * v.second_moment * up;
  }
  if (!shape.kinked) {
    // ‖mean loss‴·(z_i·Δ) z_i z_iᵀ‖ ≤ sup loss‴·max‖z_i‖·‖Δ‖·‖mean z_i z_iᵀ‖
    if (std::isfinite(third)) c.hessian_lipschitz = third * t.largest * t.second_moment * up;
    c.curvature_decay = shape.decay * t.largest * up;
    c.outer_decay = shape.decay * v.largest * up;
  } else if (ball) {
    // Between kinks the Hessian is constant: no sample may cross one within the ball.
    to_stored(center, u_);
    const double reach =
        (radius * t.largest + margin_error(*training_, t.stored_largest, t, center.norm())) * up;
    if (training_->distance_to_kink(u_) > reach) c.hessian_lipschitz = c.curvature_decay = 0;
    const double outer_reach =
        (radius * v.largest + margin_error(*validation_, v.stored_largest, v, center.norm())) * up;
    if (validation_->distance_to_kink(u_) > outer_reach) c.outer_decay = 0;
  }
  const double spread = penalties_.spread();
  c.cross_lipschitz = largest * spread;
  if (ball) {
    // χ = λ∘ψ in the columns of the groups. As H ⪰ diag(λ) and χ lies in its range, χᵀH⁻¹χ ⪯ χᵀdiag(1/λ)χ.
    PenaltyNorm squares(penalties_), energies(penalties_);
    for (Index k = 0; k < coefficients_; ++k) {
      squares.add(k, lambda_[k] * lambda_[k] * center[k] * center[k]);
      energies.add(k, lambda_[k] * center[k] * center[k]);
    }
    c.cross_norm = (std::sqrt(squares.square()) + largest * spread * radius) * up;
    c.cross_energy = (std::sqrt(energies.square()) + std::sqrt(largest) * spread * radius) * up;
  }
  c.outer_cross_lipschitz = 0;
  if (std::isfinite(shape.largest_slope))
    c.outer_lipschitz = shape.largest_slope * std::sqrt(v.mean_square) * up;
  return c;
}

// u = 2⁻⁵³, γ_k as in Higham. The map from ψ to the stored coefficients comes first, its transpose last. A
// slope is off by sup|loss″| times the error of its margin and by a few u of itself: exp is within 2 ulp, and
// what is flushed to zero is below 1e-307. A margin is off by γ·‖x_i‖‖ψ‖ for its own
// elements, and by γ_d·Σ|shift_j u_j| ≤ γ_d·‖shift‖‖ψ‖ for the intercept, which takes up the shifts. Products
// of two γ are covered by the factor 1.001 in rounding().
double PenalisedModel::margin_rounding(const DataLoss& loss, double row, const Sizes& s) const {
  return gamma(loss.depths().margin + 8) * row +
         gamma(static_cast<double>(features_ + outputs_) + 8) * s.shift_norm;
}

/// With the rounding of the sum with the offset.
double PenalisedModel::margin_error(const DataLoss& loss, double row, const Sizes& s, double norm_psi) const {
  return margin_rounding(loss, row, s) * norm_psi + gamma(1) * s.offset;
}

double PenalisedModel::residual_rounding(DataLoss& loss, const Sizes& s, double slope, double curvature,
                                         double norm_psi) const {
  const double stored = std::sqrt(s.stored_square) + s.shift_norm;
  if (loss.keeps_moments()) slope += stored * norm_psi;
  // Errors e_i of the slopes reach the gradient as ‖mean e_i z_i‖ ≤ √(‖mean z zᵀ‖·mean e²); the sum itself
  // errs by γ of the mean of |slope_i||x_ij| and of |slope_i||shift_j|.
  return gamma(loss.depths().sum + 48) * slope * stored +
         curvature * std::sqrt(s.second_moment) *
             margin_error(loss, std::sqrt(s.stored_square), s, norm_psi) +
         1e-307 * stored;
}

Rounding PenalisedModel::rounding(const Vec& psi, const Vec& theta, const Vec& pi) {
  set_penalties(theta);
  measure_sizes();
  const Sizes &t = training_sizes_, &v = validation_sizes_;
  const LossShape shape = training_->shape();
  const DataLoss::Depths depths = training_->depths();
  const double norm_psi = psi.norm(), norm_pi = pi.norm();
  const double stored = std::sqrt(t.stored_square) + t.shift_norm;

  to_stored(psi, u_);
  const auto curvature_here = [&](DataLoss& loss) {
    if (std::isfinite(shape.largest_curvature)) return shape.largest_curvature;
    loss.curvature_at(u_, rows_);
    return loss.largest_curvature(rows_) * (1 + 1e-9);
  };
  // √(mean slope²); where the slope has no bound it costs a pass over the data.
  const auto slope_here = [&](DataLoss& loss) {
    if (std::isfinite(shape.largest_slope)) return shape.largest_slope;
    loss.value(u_, &g_);
    return loss.slope_size();
  };
  const double slope = slope_here(*training_), curvature = curvature_here(*training_);
  const double outer_slope = slope_here(*validation_), outer_curvature = curvature_here(*validation_);
  const double third = std::isfinite(shape.curvature_lipschitz) ? shape.curvature_lipschitz : curvature;

  Rounding r;
  const auto penalty_term = [&](const Vec& w, double depth) {
    return gamma(depth + exponent_depth_) * (lambda_.array() * w.array()).matrix().norm();
  };
  r.residual = 1.001 * (residual_rounding(*training_, t, slope, curvature, norm_psi) + penalty_term(psi, 8));

  // loss″ itself is off because the margins are: by sup loss‴ times their error, and by at most `decayed` of
  // itself. (At kinks it jumps; constants() keeps away from them.)
  const double margin_off = margin_error(*training_, t.stored_largest, t, norm_psi);
  const double curvature_error = third * margin_off * t.second_moment;
  double product = curvature_error * norm_pi;
  if (training_->keeps_moments()) {
    product += gamma(depths.dense + static_cast<double>(size_) + 32) * stored * stored * norm_pi;
  } else {
    // With a_i = loss″_i·(z_i·π): errors of the margins z_i·π, then of the sum Σ a_i z_i, and those of loss″,
    // where mean a_i² ≤ sup loss″·πHπ. The energy πHπ costs a product.
    training_->curvature_at(u_, rows_);
    to_stored(pi, g_);
    training_->times(rows_, g_, h_);
    const double energy = std::sqrt(curvature * std::abs(g_.dot(h_))) * (1 + 1e-6) +
                          curvature * gamma(depths.sum + depths.margin + 32) * stored * stored * norm_pi;
    product = std::min(product, std::expm1(shape.decay * margin_off) * energy * std::sqrt(t.second_moment)) +
              gamma(depths.sum + 32) * energy * stored +
              curvature * std::sqrt(t.second_moment) *
                  margin_rounding(*training_, std::sqrt(t.stored_square), t) * norm_pi;
  }
  r.adjoint = 1.001 * (residual_rounding(*validation_, v, outer_slope, outer_curvature, norm_psi) + product +
                       penalty_term(pi, static_cast<double>(size_) + 8));
  // That of the validation loss too: it is compared with the inner one.
  const double outer_stored = std::sqrt(v.stored_square) + v.shift_norm;
  const double outer_third =
      std::isfinite(shape.curvature_lipschitz) ? shape.curvature_lipschitz : outer_curvature;
  const double outer_error =
      outer_curvature * gamma(validation_->depths().dense + 32) * outer_stored * outer_stored +
      outer_third * margin_error(*validation_, v.stored_largest, v, norm_psi) * v.second_moment;
  r.curvature = 1.001 * (curvature * gamma(depths.dense + 32) * stored * stored + curvature_error +
                         gamma(8 + exponent_depth_) * lambda_.maxCoeff() + outer_error);

  double squares = 0, terms = 0;
  for (Index k = 0; k < coefficients_; ++k) {
    squares += 0.5 * lambda_[k] * psi[k] * psi[k];
    terms += std::abs(lambda_[k] * psi[k] * pi[k]);
  }
  const double depth = gamma(static_cast<double>(coefficients_) + 16 + exponent_depth_) * penalties_.spread();
  r.inner_theta = 1.001 * depth * squares;
  r.gradient = 1.001 * depth * terms;
  return r;
}

}  // namespace bilevel::problems
