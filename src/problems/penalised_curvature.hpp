#pragma once

#include <bilevel/problems/penalised_model.hpp>

namespace bilevel::problems {

/// J = Tᵀ(H_training + β·H_validation)T + diag(λ), χ = λ∘ψ, each element in the column of its θ.
struct PenalisedCurvature final : Curvature<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  explicit PenalisedCurvature(PenalisedModel& owner) : model(owner) {}

  void times(const Vec& v, Vec& out) override;
  void cross_times(const Vec& v, Vec& out) override;
  void cross_apply(const Vec& u, Vec& out) override;
  bool dense(Mat& out) override;
  bool diagonal(Vec& out) override;
  double cross_norm() override;
  double least_eigenvalue() override;

  PenalisedModel& model;
  RowCurvature rows, validation_rows;
  Vec lambda, cross;
  Vec at;  ///< the point, in stored coordinates
  double beta = 0;
  Mat matrix, stored, other, half, between;
  bool formed = false;

 private:
  bool form();
};

}  // namespace bilevel::problems
