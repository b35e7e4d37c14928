#include <algorithm>
#include <iterator>
#include <utility>

#include "coloring.hpp"
#include "taped_losses.hpp"

namespace bilevel::adolc {
namespace {

using Vec = Eigen::VectorXd;

}  // namespace

void TapedCurvature::move_to(std::shared_ptr<TapedLosses> losses, const Vec& phi, const Vec& theta,
                             double beta) {
  if (losses != losses_) {
    losses_ = std::move(losses);
    const Index n = losses_->phis + losses_->thetas;
    for (Vec* each : {&x_, &direction_, &both_, &part_}) each->resize(n);
    swept_.resize(losses_->phis);
  }
  x_ = Eigen::Map<const Vec>(losses_->joined(phi, theta), x_.size());
  beta_ = beta;
  has_swept_ = false;
  formed_ = factored_ = false;
  fitted_ = -1;
  fit();
}

/// Tapes that another point has had recorded anew since may be of another branch, or of other numbers.
void TapedCurvature::fit() {
  const auto recorded = [&] { return losses_->inner.recordings() + losses_->outer.recordings(); };
  if (fitted_ == recorded()) return;
  losses_->inner.fit(x_.data());
  if (beta_ != 0) losses_->outer.fit(x_.data());
  fitted_ = recorded();
}

void TapedCurvature::products_of_losses() {
  fit();
  losses_->inner.second(x_.data(), direction_.data(), both_);
  if (beta_ == 0) return;
  losses_->outer.second(x_.data(), direction_.data(), part_);
  both_ += beta_ * part_;
}

void TapedCurvature::sweep(const Vec& v) {
  // Phase 2 ends with a product of the π whose cross product it then asks for.
  if (has_swept_ && swept_ == v) return;
  swept_ = v;
  has_swept_ = true;
  if (losses_->residual) {
    losses_->inner.gradient(x_.data(), v.data(), both_);
    if (beta_ == 0) return;
    direction_.head(losses_->phis) = v;
    direction_.tail(losses_->thetas).setZero();
    losses_->outer.second(x_.data(), direction_.data(), part_);
    both_ += beta_ * part_;
    return;
  }
  direction_.head(losses_->phis) = v;
  direction_.tail(losses_->thetas).setZero();
  products_of_losses();
}

void TapedCurvature::transpose_times(const Vec& v, Vec& out) {
  sweep(v);
  out = both_.head(losses_->phis);
}

void TapedCurvature::cross_times(const Vec& v, Vec& out) {
  sweep(v);
  out = both_.tail(losses_->thetas);
}

void TapedCurvature::times(const Vec& v, Vec& out) {
  if (!losses_->residual) return transpose_times(v, out);
  direction_.head(losses_->phis) = v;
  direction_.tail(losses_->thetas).setZero();
  forward(out);
}

void TapedCurvature::cross_apply(const Vec& u, Vec& out) {
  direction_.head(losses_->phis).setZero();
  direction_.tail(losses_->thetas) = u;
  forward(out);
}

void TapedCurvature::forward(Vec& out) {
  if (!losses_->residual) {
    has_swept_ = false;  // both_ is written
    products_of_losses();
    out = both_.head(losses_->phis);
    return;
  }
  fit();
  losses_->inner.directional(x_.data(), direction_.data(), out.data());
  if (beta_ == 0) return;
  losses_->outer.second(x_.data(), direction_.data(), part_);
  out += beta_ * part_.head(losses_->phis);
}

long TapedCurvature::form() {
  const Coloring* const coloring = losses_->coloring(x_.data(), beta_ != 0);
  if (!coloring) return 0;
  if (formed_) return coloring->colors;
  const Index n = losses_->phis;
  matrix_.begins.assign(1, 0);
  matrix_.rows.clear();
  for (const auto& column : coloring->pattern) {
    for (const unsigned i : column) matrix_.rows.push_back(static_cast<int>(i));
    matrix_.begins.push_back(static_cast<int>(matrix_.rows.size()));
  }
  matrix_.values.resize(matrix_.rows.size());
  Vec colour(n), product(n);
  for (int c = 0; c < coloring->colors; ++c) {
    for (Index j = 0; j < n; ++j) colour[j] = coloring->color[static_cast<std::size_t>(j)] == c;
    times(colour, product);
    for (Index j = 0; j < n; ++j) {
      if (colour[j] == 0) continue;
      const auto begin = static_cast<std::size_t>(matrix_.begins[static_cast<std::size_t>(j)]),
                 end = static_cast<std::size_t>(matrix_.begins[static_cast<std::size_t>(j) + 1]);
      for (std::size_t k = begin; k < end; ++k) matrix_.values[k] = product[matrix_.rows[k]];
    }
  }
  formed_ = true;
  return coloring->colors;
}

bool TapedCurvature::dense(Eigen::MatrixXd& out) {
  if (form() == 0) return false;
  out.setZero(losses_->phis, losses_->phis);
  for (Index j = 0; j < out.cols(); ++j)
    for (int k = matrix_.begins[static_cast<std::size_t>(j)];
         k < matrix_.begins[static_cast<std::size_t>(j) + 1]; ++k)
      out(matrix_.rows[static_cast<std::size_t>(k)], j) = matrix_.values[static_cast<std::size_t>(k)];
  return true;
}

long TapedCurvature::sparse(SparseMatrix& out) {
  if (losses_->phis < smallest_sparse) return 0;
  const long products = form();
  if (products > 0) out = matrix_;
  return products;
}

bool TapedCurvature::precondition(const Vec& r, Vec& out) {
  if (form() == 0) return false;
  if (!factored_) positive_ = factor_.compute(matrix_);
  factored_ = true;
  if (!positive_) return false;
  out = r;
  factor_.solve_in_place(out);
  return true;
}

}  // namespace bilevel::adolc
