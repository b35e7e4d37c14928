#include <algorithm>
#include <iterator>
#include <utility>

#include <Eigen/SparseCholesky>

#include "coloring.hpp"
#include "taped_losses.hpp"

namespace bilevel::adolc {
namespace {

using Vec = Eigen::VectorXd;

/// Beyond this a Hessian that turns out to be dense would not fit into memory while its pattern is looked for.
constexpr Index most_looked_at = 5000;

/// The entries of either.
Pattern joined(Pattern a, const Pattern& b) {
  if (a.empty() || b.empty()) return {};  // one of them is dense
  for (std::size_t j = 0; j < a.size(); ++j) {
    std::vector<unsigned> both;
    std::set_union(a[j].begin(), a[j].end(), b[j].begin(), b[j].end(), std::back_inserter(both));
    a[j] = std::move(both);
  }
  return a;
}

}  // namespace

/// A Hessian with few entries, from a few products.
struct TapedCurvature::Sparse {
  Coloring coloring;  // of the functions' pattern, whatever the point; empty where it is no gain
  bool looked = false, with_outer = false;
  bool formed = false, factored = false, positive = false;
  Eigen::SparseMatrix<double> matrix;
  Eigen::SimplicialLLT<Eigen::SparseMatrix<double>> factor;
};

TapedCurvature::TapedCurvature() = default;
TapedCurvature::~TapedCurvature() = default;

void TapedCurvature::move_to(std::shared_ptr<TapedLosses> losses, const Vec& phi, const Vec& theta, double beta) {
  if (losses != losses_) {
    losses_ = std::move(losses);
    sparse_ = std::make_unique<Sparse>();
    const Index n = losses_->phis + losses_->thetas;
    for (Vec* each : {&x_, &direction_, &both_, &part_}) each->resize(n);
    swept_.resize(losses_->phis);
  }
  x_ = Eigen::Map<const Vec>(losses_->joined(phi, theta), x_.size());
  beta_ = beta;
  has_swept_ = false;
  sparse_->formed = false;
  losses_->inner.fit(x_.data());
  if (beta_ != 0) losses_->outer.fit(x_.data());
}

void TapedCurvature::products_of_losses() {
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
  losses_->inner.directional(x_.data(), direction_.data(), out.data());
  if (beta_ == 0) return;
  losses_->outer.second(x_.data(), direction_.data(), part_);
  out += beta_ * part_.head(losses_->phis);
}

void TapedCurvature::look_for_pattern() {
  Sparse& s = *sparse_;
  const Index n = losses_->phis;
  const bool with_outer = beta_ != 0;
  if (s.looked && (s.with_outer || !with_outer)) return;
  s.looked = true;
  s.with_outer = with_outer;
  s.coloring = {};
  if (losses_->residual || (n > most_looked_at && !losses_->options.sparse)) return;
  Pattern pattern = losses_->inner.pattern(x_.data());
  if (with_outer) pattern = joined(std::move(pattern), losses_->outer.pattern(x_.data()));
  if (pattern.empty()) return;
  Coloring coloring = Coloring::of(std::move(pattern));
  if (coloring.colors <= losses_->options.sparse_share * static_cast<double>(n)) s.coloring = std::move(coloring);
}

bool TapedCurvature::form_sparse() {
  Sparse& s = *sparse_;
  look_for_pattern();
  if (s.coloring.empty()) return false;
  if (s.formed) return true;
  const Index n = losses_->phis;
  std::vector<Eigen::Triplet<double>> entries;
  Vec colour(n), product(n);
  for (int c = 0; c < s.coloring.colors; ++c) {
    for (Index j = 0; j < n; ++j) colour[j] = s.coloring.color[static_cast<std::size_t>(j)] == c;
    times(colour, product);
    for (Index j = 0; j < n; ++j)
      if (colour[j] != 0)
        for (const unsigned i : s.coloring.pattern[static_cast<std::size_t>(j)])
          entries.emplace_back(static_cast<int>(i), static_cast<int>(j), product[i]);
  }
  s.matrix.resize(n, n);
  s.matrix.setFromTriplets(entries.begin(), entries.end());
  s.formed = true;
  s.factored = false;
  return true;
}

bool TapedCurvature::dense(Eigen::MatrixXd& out) {
  if (!form_sparse()) return false;
  out = sparse_->matrix;
  return true;
}

bool TapedCurvature::precondition(const Vec& r, Vec& out) {
  if (!form_sparse()) return false;
  Sparse& s = *sparse_;
  if (!s.factored) {
    s.factor.compute(s.matrix);
    s.positive = s.factor.info() == Eigen::Success;
    s.factored = true;
  }
  if (!s.positive) return false;
  out = s.factor.solve(r);
  return true;
}

}  // namespace bilevel::adolc
