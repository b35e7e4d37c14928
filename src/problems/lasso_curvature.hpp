#pragma once

#include <vector>

#include <bilevel/problems/lasso.hpp>
#include <bilevel/space/cholesky.hpp>

namespace bilevel::problems {

/// J = [H_AA + λ₂ (and the row of the intercept), 0; 0, c·I] on the active and the inactive coordinates, and
/// χ_j = λ₁ⱼ sign(y_j) in the column of its θ and λ₂φ_j in that of λ₂, zero for inactive j.
///
/// The Jacobian of F also has the block H_AI beside H_AA, which would make it unsymmetric. It can be left
/// out: F_I = c·φ_I does not depend on θ, so φ_I = 0 stays where it is and J describes what moves; and in
/// π·[H_AA, H_AI; 0, c·I] = g the equations of the active columns are π_A·H_AA = g_A either way, while
/// ∇θ = −π·χ reads π_A alone.
struct LassoCurvature final : Curvature<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  explicit LassoCurvature(Lasso& owner) : model(owner) {}

  void times(const Vec& v, Vec& out) override;
  void cross_times(const Vec& v, Vec& out) override;
  void cross_apply(const Vec& u, Vec& out) override;
  bool dense(Mat& out) override;
  bool diagonal(Vec& out) override;
  /// J⁻¹ itself, by a Cholesky factor of the active block, which makes "cg-preconditioned" a direct solve;
  /// the diagonal where the block is too large or not positive definite.
  bool precondition(const Vec& r, Vec& out) override;
  double cross_norm() override;
  double least_eigenvalue() override;

  /// Larger matrices are left to products: almost all of J is c·I there.
  static constexpr Index dense_limit = 400;
  /// Active blocks up to this size are formed, and factored where asked for.
  static constexpr Index formed_limit = 4000;

  Lasso& model;
  std::vector<Index> active;  // features, ascending, then the intercept where there is one
  Vec cross, cross2;          // one element for each of `active`
  double lambda2 = 0, c = 1, beta = 0;
  bool formed = false, factored = false;
  Mat block;
  Cholesky factor;
  Vec part, product;  // of `active`
  RowCurvature rows, validation_rows;

  bool form();
  bool factorise();
  Index count() const { return static_cast<Index>(active.size()); }
  void gather(const Vec& v);
};

}  // namespace bilevel::problems
