#pragma once

#include <functional>
#include <memory>

#include <Eigen/Cholesky>

#include <bilevel/gradient/sensitivity.hpp>
#include <bilevel/problems/data_loss.hpp>

#include <bilevel/models/prepared.hpp>

namespace bilevel::models {

/// How the losses of single validation rows, or of mixtures of them, answer to θ through φ*(θ):
///   d loss_i / dθ = −∂φ loss_i · H⁻¹ · χ
class RowHypergradients {
 public:
  using Mat = Eigen::MatrixXd;
  /// Turns a gradient by the stored coefficients into one by the problem's own variable.
  using PullBack = std::function<Vec(const Vec& stored_gradient)>;

  /// `phi` is settled at `theta`, both in the problem's own units; `stored` are its coefficients. The problem
  /// and the loss must outlive this, and the problem keep its units.
  RowHypergradients(bilevel::Equilibrium<Vec>& problem, bilevel::problems::DataLoss& validation, const Vec& phi,
                    const Vec& theta, const Vec& stored, PullBack pull_back, const std::string& adjoint);

  Index rows() const { return rows_; }
  Index unknowns() const { return phi_size_; }
  /// Whether H is formed: then a further right side costs |φ|² operations only.
  bool factored() const { return factored_; }

  /// Column a belongs to Σ_i mixtures(i, a)·loss of row (first + i). Unweighted losses.
  Mat of(Index first, const Mat& mixtures);

 private:
  Mat right_sides(Index first, const Mat& mixtures) const;

  bilevel::problems::DataLoss& validation_;
  PullBack pull_back_;
  bilevel::Sensitivity<Vec> sensitivity_;
  std::unique_ptr<bilevel::AdjointSolver<Vec>> adjoint_;
  Index rows_, phi_size_, thetas_;
  std::vector<Index> places_;  // of each validation row in the matrix
  Vec slopes_;
  Eigen::LLT<Mat> factor_;
  bool factored_ = false;
};

}  // namespace bilevel::models
