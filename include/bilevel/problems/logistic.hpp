#pragma once

#include <bilevel/problems/generalised_linear_model.hpp>

namespace bilevel::problems {

/// Binary logistic regression with penalties to learn, labels ±1 (0 and 1 are taken as −1 and 1):
///   L_in  = 1/n Σ_i log(1 + exp(−y_i x_i·φ)) + ½ Σ_j exp(θ_j) φ_j²
///   L_out = 1/n_v Σ_i log(1 + exp(−y_i x_i·φ)) over the validation part
class Logistic final : public GeneralisedLinearModel {
 public:
  Logistic(DesignMatrix x, Vector labels, DesignMatrix validation_x, Vector validation_labels,
           Penalty penalty = Penalty::per_feature);
  static Logistic random(const LinearModelOptions& options);

  std::string_view name() const override { return "logistic"; }

 private:
  explicit Logistic(Data data, Penalty penalty);
};

}  // namespace bilevel::problems
