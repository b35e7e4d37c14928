#pragma once

#include <bilevel/problems/generalised_linear_model.hpp>

namespace bilevel::problems {

/// Least squares with penalties to learn:
///   L_in = 1/(2n)‖Xφ − t‖² + ½ Σ_j exp(θ_j) φ_j²,   L_out = 1/(2n_v)‖X_vφ − t_v‖²
///   φ* = (XᵀX/n + Λ)⁻¹ Xᵀt/n with Λ = diag(exp θ_j),   ∇θ_j = −exp(θ_j) φ*_j π_j with
///   π = (XᵀX/n + Λ)⁻¹ X_vᵀ(X_vφ* − t_v)/n_v; one θ for all: the sum of these.
class Ridge final : public GeneralisedLinearModel {
 public:
  Ridge(DesignMatrix x, Vector t, DesignMatrix validation_x, Vector validation_t,
        Penalty penalty = Penalty::per_feature);
  static Ridge random(const LinearModelOptions& options);

  std::string_view name() const override { return "ridge"; }
  std::optional<Vector> settled(const Vector& theta) const override { return settled(theta, 0); }
  std::optional<Vector> outer_gradient(const Vector& theta) const override;

  /// φ_β, the minimiser of L_in + β·L_out.
  Vector settled(const Vector& theta, double beta) const;

 private:
  explicit Ridge(Data data, Penalty penalty);
  Matrix system(const Vector& theta, double beta) const;
};

}  // namespace bilevel::problems
