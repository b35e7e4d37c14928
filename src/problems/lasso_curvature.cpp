#include "problems/lasso_curvature.hpp"

#include <algorithm>
#include <cmath>

#include <bilevel/problem/gamma.hpp>

#include "problems/lasso_gram.hpp"

namespace bilevel::problems {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

namespace {

}  // namespace

void LassoCurvature::gather(const Vec& v) {
  part.resize(count());
  for (Index k = 0; k < count(); ++k) part[k] = v[active[at(k)]];
}

/// The active block, from columns that coordinate descent has met already as a rule.
bool LassoCurvature::form() {
  if (formed) return true;
  if (beta != 0 || count() > formed_limit) return false;
  const Index features = count() - model.intercept_;
  std::vector<Index> wanted(active.begin(), active.begin() + features);
  model.gram_->hold(wanted);
  model.gram_->hessian(wanted, block);
  block.diagonal().head(features).array() += lambda2;
  formed = true;
  return true;
}

bool LassoCurvature::factorise() {
  if (factored) return factor.succeeded();
  if (!form()) return false;
  factor.compute(block);
  factored = true;
  return factor.succeeded();
}

void LassoCurvature::times(const Vec& v, Vec& out) {
  const Index features = count() - model.intercept_;
  if (form()) {
    gather(v);
    product.resize(count());
    product.noalias() = block.selfadjointView<Eigen::Lower>() * part;
    out = c * v;
    for (Index k = 0; k < count(); ++k) out[active[at(k)]] = product[k];
    return;
  }
  Lasso& m = model;
  m.outer_.setZero();
  for (const Index j : active) m.outer_[j] = v[j];
  m.to_stored(m.outer_, m.u_);
  m.training_->times(rows, m.u_, m.raw_);
  if (beta != 0) {
    product.resize(m.features_ + 1);
    m.validation_->times(validation_rows, m.u_, product);
    m.raw_ += beta * product;
  }
  m.pull_back(m.raw_, m.outer_);
  out = c * v;
  for (Index k = 0; k < count(); ++k) {
    const Index j = active[at(k)];
    out[j] = m.outer_[j] + (k < features ? lambda2 * v[j] : 0);
  }
}

void LassoCurvature::cross_times(const Vec& v, Vec& out) {
  out.setZero();
  const Index features = count() - model.intercept_;
  const Index last = model.penalties_.thetas();
  for (Index k = 0; k < features; ++k) {
    const Index j = active[at(k)];
    model.penalties_.add(j, cross[k] * v[j], out);
    if (model.elastic_) out[last] += cross2[k] * v[j];
  }
}

void LassoCurvature::cross_apply(const Vec& u, Vec& out) {
  out.setZero();
  const Index features = count() - model.intercept_;
  const double second = model.elastic_ ? u[model.penalties_.thetas()] : 0;
  for (Index k = 0; k < features; ++k) {
    const Index j = active[at(k)];
    out[j] = cross[k] * model.penalties_.along(j, u) + cross2[k] * second;
  }
}

bool LassoCurvature::dense(Mat& out) {
  if (model.size_ > dense_limit || !form()) return false;
  out = Mat::Zero(model.size_, model.size_);
  out.diagonal().setConstant(c);
  for (Index b = 0; b < count(); ++b)
    for (Index a = 0; a < count(); ++a) out(active[at(a)], active[at(b)]) = block(a, b);
  return true;
}

bool LassoCurvature::diagonal(Vec& out) {
  out.setConstant(c);
  const bool exact = form();
  for (Index k = 0; k < count(); ++k) {
    const Index j = active[at(k)];
    const double data = model.training_extent_.mean_square[j] +
                        (beta != 0 ? beta * model.validation_extent_.mean_square[j] : 0);
    out[j] = std::max(exact ? block(k, k) : data + lambda2, 1e-300);
  }
  return true;
}

bool LassoCurvature::precondition(const Vec& r, Vec& out) {
  out = r / c;
  gather(r);
  if (factorise()) {
    factor.solve_in_place(part);
  } else {
    // Too large, or not positive definite: the diagonal.
    for (Index k = 0; k < count(); ++k)
      part[k] /= std::max(model.training_extent_.mean_square[active[at(k)]] + lambda2, 1e-300);
  }
  for (Index k = 0; k < count(); ++k) out[active[at(k)]] = part[k];
  return true;
}

/// λ₂ adds one more column to those of λ₁.
double LassoCurvature::cross_norm() {
  PenaltyNorm norm(model.penalties_);
  double second = 0;
  const Index features = count() - model.intercept_;
  for (Index k = 0; k < features; ++k) {
    norm.add(active[at(k)], cross[k] * cross[k]);
    second += cross2[k] * cross2[k];
  }
  return std::sqrt(norm.square() + second) * (1 + gamma(static_cast<double>(features) + 16));
}

double LassoCurvature::least_eigenvalue() {
  if (beta != 0) return unknown;
  if (count() == 0) return c;
  const Index features = count() - model.intercept_;
  double proven = unknown;
  if (factorise()) {
    // The block is off by at most this (see rounding()), and what a Cholesky factorisation that runs to its
    // end proves of a matrix by γ·trace more (Rump 2006).
    double size = model.intercept_;
    for (Index k = 0; k < features; ++k) size += model.training_extent_.stored_mean_square[active[at(k)]];
    const double n = static_cast<double>(count());
    const double slack = (8 * gamma(model.gram_->depth()) * size + gamma(8) * lambda2 +
                          gamma(2 * n + 16) * block.diagonal().sum()) *
                         (1 + 1e-9);
    // Inverse iteration from two directions: a guess, which the factor of the shifted block then proves.
    double guess = everywhere;
    for (int run = 0; run < 2; ++run) {
      part = Vec::Ones(count());
      if (run == 1)
        for (Index k = 1; k < count(); k += 2) part[k] = -0.7;
      double now = 0;
      for (int k = 0; k < 12; ++k) {
        part.normalize();
        factor.solve_in_place(part);
        now = 1 / part.norm();
      }
      guess = std::min(guess, now);
    }
    Mat shifted;
    Cholesky trial;
    for (double share = 0.9; share > 0.01; share *= 0.6) {
      shifted = block;
      shifted.diagonal().array() -= share * guess;
      trial.compute(shifted);
      if (!trial.succeeded()) continue;
      proven = share * guess * (1 - 1e-12) - slack;
      break;
    }
  }
  if (proven > 0) return std::min(proven, c * (1 - 1e-12));
  if (lambda2 == 0) return proven;
  // λ₂|v|² + (m·v + b)² from below, as for a smooth penalised model.
  const double least = lambda2 * (1 - 1e-12);
  if (!model.intercept_) return least;
  double square = 0, size = 0;
  for (Index k = 0; k < features; ++k) {
    const Index j = active[at(k)];
    square += model.gram_->means()[j] * model.gram_->means()[j];
    size += model.training_extent_.stored_mean_square[j];
  }
  const double length = std::sqrt(square) + 2 * gamma(model.training_sizes_->sum_depth + 32) * std::sqrt(size);
  return least / (least + length * length + 1) * (1 - 1e-9);
}

}  // namespace bilevel::problems
