#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/decompositions.hpp>
#include <bilevel/space/eigen.hpp>

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
  double find_damping(const std::vector<V>& omega, const SymmetricEigen& ritz) const;
  void invert(const SymmetricEigen& ritz, const Eigen::MatrixXd& triangle, double shift);

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

extern template class NystromSketch<Eigen::VectorXd>;
extern template class NystromSketch<Eigen::VectorXf>;

}  // namespace bilevel
