#include "problems/penalised_curvature.hpp"

#include <algorithm>
#include <cmath>

#include <bilevel/problem/gamma.hpp>

namespace bilevel::problems {

void PenalisedCurvature::times(const Vec& v, Vec& out) {
  // By the data also where the matrix is formed: rounding errors are those of n-term sums of what matters,
  // not of sums that cancel, and a direct solver multiplies only to check itself.
  PenalisedModel& m = model;
  m.to_stored(v, m.u_);
  m.training_->times(rows, m.u_, m.g_);
  if (beta != 0) {
    m.validation_->times(validation_rows, m.u_, m.h_);
    m.g_ += beta * m.h_;
  }
  m.pull_back(m.g_.data(), out.data());
  out.array() += lambda.array() * v.array();
}

void PenalisedCurvature::cross_times(const Vec& v, Vec& out) {
  out.setZero();
  for (Index k = 0; k < model.coefficients_; ++k) model.penalties_.add(k, cross[k] * v[k], out);
}

void PenalisedCurvature::cross_apply(const Vec& u, Vec& out) {
  out.setZero();
  for (Index k = 0; k < model.coefficients_; ++k) out[k] = cross[k] * model.penalties_.along(k, u);
}

bool PenalisedCurvature::form() {
  if (formed) return true;
  PenalisedModel& m = model;
  if (!m.forms_hessian()) return false;
  if (m.gram_at_ == at) {
    stored = m.gram_;
  } else {
    if (!m.training_->dense(rows, stored)) return false;
    m.gram_at_ = at;
    m.gram_ = stored;
  }
  if (beta != 0) {
    if (!m.validation_->dense(validation_rows, other)) return false;
    stored += beta * other;
  }
  m.congruent(stored, half, matrix);
  matrix.diagonal() += lambda;
  formed = true;
  return true;
}

bool PenalisedCurvature::dense(Mat& out) {
  if (!form()) return false;
  out = matrix;
  return true;
}

bool PenalisedCurvature::diagonal(Vec& out) {
  if (formed) {
    out = matrix.diagonal();
    return true;
  }
  PenalisedModel& m = model;
  const Index c = m.outputs_;
  const auto add = [&](DataLoss& loss, const RowCurvature& point, double factor) {
    loss.diagonal(point, m.g_, m.h_, between);
    const auto squares = m.g_.tail(c);
    for (Index k = 0; k < m.coefficients_; ++k) {
      const double shift = m.standardisation_.shift[k / c], scale = m.stored_scale_[k];
      const double value = m.g_[k] - 2 * shift * m.h_[k] + shift * shift * squares[k % c];
      out[k] += factor * scale * scale * std::max(0.0, value);
    }
    for (Index k = 0; k < m.intercepts_; ++k) {
      const double unit = m.units_[m.coefficients_ + k];
      out[m.coefficients_ + k] += factor * unit * unit * m.basis_.col(k).dot(between * m.basis_.col(k));
    }
  };
  out = lambda;
  add(*m.training_, rows, 1);
  if (beta != 0) add(*m.validation_, validation_rows, beta);
  // A column without data and penalties that underflow: any positive number serves.
  out = out.cwiseMax(1e-300);
  return true;
}

double PenalisedCurvature::cross_norm() {
  PenaltyNorm norm(model.penalties_);
  for (Index k = 0; k < model.coefficients_; ++k) norm.add(k, cross[k] * cross[k]);
  return std::sqrt(norm.square()) * (1 + gamma(static_cast<double>(cross.size()) + 16));
}

/// With D_i ≤ loss″_i (on what the intercepts can change), s = mean D_i and c = mean D_i x̃_i / s, Jensen
/// gives
///   mean D_i (x̃_i·v + t·b)² ≥ s (c·v + t·b)²,   t the unit of the intercept,
/// so H is at least λ_min|v|² + s(c·v + t·b)², whose smallest eigenvalue is at least determinant / trace of
/// its part in span{c, b}: λ_min·s·t² / (λ_min + s|c|² + s·t²). Without an intercept λ_min serves.
double PenalisedCurvature::least_eigenvalue() {
  PenalisedModel& m = model;
  if (beta != 0) return unknown;
  const double least = lambda.head(m.coefficients_).minCoeff() * (1 - 1e-12);
  if (m.intercepts_ == 0) return least;
  Vec mean(m.features_ + 1);
  m.training_->least_curvatures(rows, mean);
  const double slack = gamma(m.training_->depths().sum + 32);
  const double s = mean[m.features_] * (1 - slack);
  if (!(s > 0)) return 0;
  double square = 0, size = 0;
  for (Index j = 0; j < m.features_; ++j) {
    double scale = 0;  // the largest of the outputs'
    for (Index o = 0; o < m.outputs_; ++o) scale = std::max(scale, m.stored_scale_[j * m.outputs_ + o]);
    const double each = scale * (mean[j] - m.standardisation_.shift[j] * mean[m.features_]);
    square += each * each;
    size += scale * scale *
            (m.training_extent_.stored_mean_square[j] /
             std::max(m.standardisation_.inverse_scale[j] * m.standardisation_.inverse_scale[j], 1e-300));
  }
  // Rounding of the means: each is a sum of D_i|x_ij| with D_i ≤ max D.
  const double length =
      (std::sqrt(square) + slack * m.training_->largest_curvature(rows) * std::sqrt(size)) / s;
  const double unit = m.units_[m.coefficients_], t2 = unit * unit;
  return least * s * t2 / (least + s * length * length + s * t2) * (1 - 1e-12);
}

}  // namespace bilevel::problems
