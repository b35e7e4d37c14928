#pragma once

#include <bilevel/problems/sample_weights.hpp>

namespace bilevel::problems {

struct SampleWeightsCurvature final : Curvature<Eigen::VectorXd> {
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  explicit SampleWeightsCurvature(SampleWeights& of) : model(of) {}

  void times(const Vec& v, Vec& out) override;
  void cross_times(const Vec& v, Vec& out) override;
  void cross_apply(const Vec& u, Vec& out) override;
  bool dense(Mat& out) override;
  bool diagonal(Vec& out) override;
  double cross_norm() override;
  double least_eigenvalue() override { return model.lambda_; }

  void add_dense(const SampleWeights::SoftmaxRows& part, const Vec& at, const double* row_weights, double factor,
                 Mat& out);

  SampleWeights& model;
  double beta = 0;
  Vec phi, probabilities, trusted_probabilities;
  Vec weights, slopes;  ///< σ(θ_i) and σ′(θ_i)/n
  Vec other, rows;      ///< scratch
};

}  // namespace bilevel::problems
