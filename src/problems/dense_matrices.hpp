#pragma once

#include <random>

#include <Eigen/Core>

#include <bilevel/space/space.hpp>

namespace bilevel::problems {

/// Ends of a symmetric matrix's spectrum, `least` lowered and `largest` raised by the error of their
/// computation.
struct Extremes {
  double least, largest;
};
Extremes extreme_eigenvalues(const Eigen::MatrixXd& symmetric);

/// ‖A‖₂, rounded up by the error of its computation.
double spectral_norm_above(const Eigen::MatrixXd& a);

/// Independent standard normal elements.
Eigen::MatrixXd gaussian(std::mt19937_64& engine, Index rows, Index columns);

/// A symmetric matrix with these eigenvalues in a random basis.
Eigen::MatrixXd random_symmetric(std::mt19937_64& engine, const Eigen::VectorXd& eigenvalues);

/// n numbers log-spaced in [1/√κ, √κ], so that neither end is special.
Eigen::VectorXd log_spaced(Index n, double condition);

bool is_symmetric(const Eigen::MatrixXd& a);

}  // namespace bilevel::problems
