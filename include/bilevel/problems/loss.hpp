#pragma once

// Read by every target of the kernels: nothing here may be code.
namespace bilevel::problems::kernels {

/// Of a margin m and a label y. What is known of each stands in loss_kind.cpp, its loop in
/// kernels/losses.inc.
///   squared            ½(m − y)²
///   logistic           log(1 + exp(−y·m)), y = ±1
///   poisson            exp(m) − y·m, y ≥ 0; the constant log y! is left out
///   huber              ½r² for |r| ≤ k, else k·|r| − ½k², with r = m − y and the parameter k
///   squared_hinge      ½ max(0, 1 − y·m)², y = ±1
///   gamma              y·exp(−m) + m, y > 0: a mean of exp(m), deviations in proportion to it
///   negative_binomial  log(1 + α·exp(m))/α + y·log(1 + exp(−m)/α), y ≥ 0, with the parameter α: a mean of
///                      exp(m) and a variance of exp(m) + α·exp(2m)
/// Where a loss has no second derivative (|r| = k, y·m = 1), loss″ is its larger and its smaller one-sided
/// value in turn: 1 for huber, 0 for squared_hinge.
enum class Loss { squared, logistic, poisson, huber, squared_hinge, gamma, negative_binomial };
inline constexpr int losses = 7;

/// What the loss knows about each row besides x_i·φ. A row of weight zero adds nothing, whatever its loss.
struct Rows {
  const double* labels;
  const double* weights = nullptr;  ///< null: ones
  const double* offsets = nullptr;  ///< added to the margin; null: zeros
  double parameter = 1;             ///< of the losses that have one …
  double log_parameter = 0;         ///< … and its logarithm
};

}  // namespace bilevel::problems::kernels
