#pragma once

#include <bilevel/problems/linear_model.hpp>

namespace bilevel::problems {

/// Least squares with penalties to learn:
///   L_in = 1/(2n)‖Xφ − t‖² + ½ Σ_j exp(θ_j) φ_j²,   L_out = 1/(2n_v)‖X_vφ − t_v‖²
///   φ* = (XᵀX/n + Λ)⁻¹ Xᵀt/n with Λ = diag(exp θ_j),   ∇θ_j = −exp(θ_j) φ*_j π_j with
///   π = (XᵀX/n + Λ)⁻¹ X_vᵀ(X_vφ* − t_v)/n_v; one θ for all: the sum of these.
class Ridge final : public LinearModel {
 public:
  Ridge(RowMajor x, Vec t, RowMajor validation_x, Vec validation_t, Penalty penalty = Penalty::per_feature);
  static Ridge random(const LinearModelOptions& options);

  std::optional<Vec> settled(const Vec& theta) const override { return settled(theta, 0); }
  std::optional<Vec> outer_gradient(const Vec& theta) const override;

  /// With a bound of ‖∂φ L_out‖, which no shape of the loss gives.
  Constants constants(const Vec& theta, const Vec& center, double radius) override;

  /// φ_β, the minimiser of L_in + β·L_out.
  Vec settled(const Vec& theta, double beta) const;

 private:
  Ridge(Data data, Penalty penalty) : LinearModel(kernels::Loss::squared, std::move(data), penalty) {}
  Vec penalties_at(const Vec& theta) const;
};

}  // namespace bilevel::problems
