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
  /// Column a: the gradient, by the problem's own variable, of Σ_i mixtures(i, a)·loss of row (first + i).
  using Gradients = std::function<Mat(Index first, const Mat& mixtures)>;

  /// `phi` is settled at `theta`, both in the problem's own units; `rows` have gradients. The problem must
  /// outlive this and keep its units.
  RowHypergradients(bilevel::Equilibrium<Vec>& problem, Index rows, const Vec& phi, const Vec& theta,
                    Gradients gradients, const std::string& adjoint);

  Index rows() const { return rows_; }
  Index unknowns() const { return phi_size_; }
  /// Whether H is formed: then a further right side costs |φ|² operations only.
  bool factored() const { return factored_; }

  /// Column a belongs to Σ_i mixtures(i, a)·loss of row (first + i). Unweighted losses.
  Mat of(Index first, const Mat& mixtures);

 private:
  Gradients gradients_;
  bilevel::Sensitivity<Vec> sensitivity_;
  std::unique_ptr<bilevel::AdjointSolver<Vec>> adjoint_;
  Index rows_, phi_size_, thetas_;
  Eigen::LLT<Mat> factor_;
  bool factored_ = false;
};

/// Turns a gradient by the stored coefficients into one by the problem's own variable.
using PullBack = std::function<Vec(const Vec& stored_gradient)>;

/// Those of a linear model at the stored coefficients; the loss must outlive them.
RowHypergradients::Gradients linear_gradients(bilevel::problems::RowLosses& loss, const Vec& stored,
                                              PullBack pull_back);

}  // namespace bilevel::models
