#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <Eigen/Eigenvalues>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/inverse_approximation.hpp>

namespace bilevel {

struct NystromSketchOptions {
  /// Columns k, at most |x| of them: k products to build it, k vectors to hold it and as many again while it
  /// is built; ≥ 1. The default costs about a sixth of what plain CG spends at a condition number of 100
  /// on ten digits, and serves where the eigenvalues that stand out are fewer.
  long rank = 20;
  /// ρ in A ≈ L + ρ·I, L of rank k; ≥ 0. It should not exceed λ_min, and is lowered to the smallest Ritz
  /// value of the sketch where it does. 0, the default, looks for it: the smallest Ritz value θ less its
  /// residual norm, where that is at most θ/10 (a subspace drawn at random contains a near-eigenvector only
  /// where most eigenvalues lie together), otherwise none.
  double damping = 0;
  /// Of the Gaussian columns: the j-th is drawn with seed + j.
  std::uint64_t seed = 1;

  void check(Violations& v) const {
    v.at_least("rank", rank, 1);
    v.not_negative("damping", damping);
  }
};

/// A symmetric positive semidefinite A seen through k products (Nyström; Tropp, Yurtsever, Udell, Cevher
/// 2017):
///   A ≈ L + ρ·I,   L = Y·(ΩᵀY)⁻¹·Yᵀ,   Y = (A − ρ·I)·Ω,   Ω Gaussian, orthonormalised
/// It is evaluated for A + ν·I with ν at the level of rounding, which is taken off the eigenvalues of L
/// again. apply() is (L + ρ·I)⁻¹ (Woodbury), with σ = ρ + the smallest eigenvalue of L in place of ρ on the
/// complement of L's range: what was not seen is no larger, and often as large.
template <Vector V>
class NystromSketch final : public InverseApproximation<V> {
 public:
  explicit NystromSketch(NystromSketchOptions options) : options_(options) {}

  /// Takes k products. Stops the run where one of them is not finite, and with negative_curvature where a
  /// Ritz value is negative.
  void build(LinearRun<V>& run);

  void apply(const V& b, V& out) override;
  Index rank() const override { return static_cast<Index>(basis_.size()); }
  bool fits(const V& like) const {
    return !basis_.empty() && Space<V>::size(basis_[0]) == Space<V>::size(like);
  }
  std::size_t bytes() const {
    return basis_.empty() ? 0
                          : basis_.size() * bytes_of(basis_[0]) +
                                sizeof(double) * static_cast<std::size_t>(core_.size() + 2 * along_.size());
  }

 private:
  using Eigensolver = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;

  double find_damping(const std::vector<V>& omega, const Eigensolver& ritz) const;
  void invert(const Eigensolver& ritz, const Eigen::MatrixXd& triangle, double shift);

  NystromSketchOptions options_;
  std::vector<V> basis_;  // Q of Y = Q·R
  Eigen::MatrixXd core_;  // C in (L + ρI)⁻¹ = I/σ + Q·C·Qᵀ
  Eigen::VectorXd along_, weight_;
  double damping_ = 0, complement_ = 1;  // ρ as it was used, σ
};

/// Replaces the columns by orthonormal ones that span the same, from left to right, by modified Gram–Schmidt
/// in two passes; fills the upper triangle R with columns = Q·R. What is left of a column that depends on
/// those before it is rounding, and becomes zero.
template <Vector V>
void orthonormalise(std::vector<V>& columns, Eigen::MatrixXd& triangle) {
  const auto k = static_cast<Index>(columns.size());
  triangle.setZero(k, k);
  for (Index j = 0; j < k; ++j) {
    V& column = columns[static_cast<std::size_t>(j)];
    const double length = norm(column);
    for (int pass = 0; pass < 2; ++pass)
      for (Index i = 0; i < j; ++i) {
        const V& q = columns[static_cast<std::size_t>(i)];
        const double along = Space<V>::dot(q, column);
        Space<V>::axpy(-along, q, column);
        triangle(i, j) += along;
      }
    const double left = norm(column);
    const bool dependent = !(left > 10 * rounding_level(column) * length);
    triangle(j, j) = dependent ? 0 : left;
    Space<V>::scale(dependent ? 0 : 1 / left, column);
  }
}

template <Vector V>
void NystromSketch<V>::build(LinearRun<V>& run) {
  using S = Space<V>;
  const Index k = std::min<Index>(static_cast<Index>(options_.rank), S::size(run.x()));
  basis_.clear();
  std::vector<V> omega, y;
  for (Index j = 0; j < k; ++j) {
    omega.push_back(S::zeros_like(run.x()));
    y.push_back(S::zeros_like(run.x()));
    S::random(options_.seed + static_cast<std::uint64_t>(j), omega.back());
  }
  Eigen::MatrixXd triangle;
  orthonormalise(omega, triangle);

  double square = 0;
  Eigen::MatrixXd projected(k, k);  // ΩᵀAΩ
  for (Index j = 0; j < k; ++j) {
    V& product = y[static_cast<std::size_t>(j)];
    run.apply(omega[static_cast<std::size_t>(j)], product);
    const double column = S::dot(product, product);
    if (!std::isfinite(column)) return run.stop_not_finite(fmt::format("column {} of the sketch A·Ω", j));
    square += column;
    for (Index i = 0; i < k; ++i) projected(i, j) = S::dot(omega[static_cast<std::size_t>(i)], product);
  }
  const double shift = rounding_level(run.x()) * std::sqrt(square);  // ν
  const Eigensolver ritz(0.5 * (projected + projected.transpose()));
  const double smallest = ritz.eigenvalues()[0];
  run.solution().smallest_ritz = smallest;
  run.solution().largest_ritz = ritz.eigenvalues()[k - 1];
  if (smallest < -shift)
    return run.stop(
        Status::negative_curvature,
        fmt::format("a sketch of {} columns has a Ritz value of {:.6g}: A is not positive definite", k,
                    smallest));

  basis_ = std::move(y);
  damping_ =
      options_.damping > 0 ? std::min(options_.damping, std::max(smallest, 0.0)) : find_damping(omega, ritz);
  for (std::size_t j = 0; j < basis_.size(); ++j) S::axpy(shift - damping_, omega[j], basis_[j]);
  orthonormalise(basis_, triangle);
  invert(ritz, triangle, shift);
}

template <Vector V>
double NystromSketch<V>::find_damping(const std::vector<V>& omega, const Eigensolver& ritz) const {
  const double theta = ritz.eigenvalues()[0];
  V residual = Space<V>::zeros_like(omega[0]);
  for (std::size_t j = 0; j < omega.size(); ++j) {
    const double weight = ritz.eigenvectors()(static_cast<Index>(j), 0);
    Space<V>::axpy(weight, basis_[j], residual);
    Space<V>::axpy(-weight * theta, omega[j], residual);
  }
  const double distance = norm(residual);
  return distance <= 0.1 * theta ? theta - distance : 0;
}

/// L = Q·R·(ΩᵀY)⁻¹·Rᵀ·Qᵀ from the eigenvalues of ΩᵀAΩ = WΘWᵀ, then C from those of L.
template <Vector V>
void NystromSketch<V>::invert(const Eigensolver& ritz, const Eigen::MatrixXd& triangle, double shift) {
  const Eigen::VectorXd pivots = (ritz.eigenvalues().array() - damping_).max(0.0) + shift;
  if (shift == 0) {  // A = 0 as far as the sketch goes
    complement_ = 1;
    core_.setZero(rank(), rank());
  } else {
    const Eigen::MatrixXd root =
        triangle * ritz.eigenvectors() * pivots.cwiseInverse().cwiseSqrt().asDiagonal();
    const Eigensolver eigen(root * root.transpose());
    const Eigen::VectorXd values = (eigen.eigenvalues().array() - shift).max(0.0) + damping_;
    complement_ = values[0];
    // Nothing is known about directions that A does not stretch: they pass like the least of the others.
    for (Index i = 0; i < values.size() && complement_ <= shift; ++i) complement_ = values[i];
    if (complement_ <= shift) complement_ = 1;
    const Eigen::ArrayXd inverse =
        (values.array() > shift).select(values.array().inverse(), 1 / complement_) - 1 / complement_;
    core_ = eigen.eigenvectors() * inverse.matrix().asDiagonal() * eigen.eigenvectors().transpose();
  }
  along_.resize(rank());
  weight_.resize(rank());
}

template <Vector V>
void NystromSketch<V>::apply(const V& b, V& out) {
  const Index k = rank();
  for (Index i = 0; i < k; ++i) along_[i] = Space<V>::dot(basis_[static_cast<std::size_t>(i)], b);
  weight_.noalias() = core_ * along_;
  Space<V>::copy(b, out);
  Space<V>::scale(1 / complement_, out);
  for (Index i = 0; i < k; ++i) Space<V>::axpy(weight_[i], basis_[static_cast<std::size_t>(i)], out);
}

extern template class NystromSketch<Eigen::VectorXd>;
extern template class NystromSketch<Eigen::VectorXf>;

}  // namespace bilevel
