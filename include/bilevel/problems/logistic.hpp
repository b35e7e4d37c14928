#pragma once

#include <bilevel/problems/linear_model.hpp>

namespace bilevel::problems {

/// Binary logistic regression with penalties to learn, labels ±1 (0 and 1 are taken as −1 and 1):
///   L_in  = 1/n Σ_i log(1 + exp(−y_i x_i·φ)) + ½ Σ_j exp(θ_j) φ_j²
///   L_out = 1/n_v Σ_i log(1 + exp(−y_i x_i·φ)) over the validation part
class Logistic final : public LinearModel {
 public:
  Logistic(RowMajor x, Vec labels, RowMajor validation_x, Vec validation_labels,
           Penalty penalty = Penalty::per_feature);
  static Logistic random(const LinearModelOptions& options);

 private:
  Logistic(Data data, Penalty penalty) : LinearModel(kernels::Loss::logistic, std::move(data), penalty) {}
};

}  // namespace bilevel::problems
