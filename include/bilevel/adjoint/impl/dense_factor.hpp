#pragma once

#include <limits>
#include <optional>
#include <string>

#include <Eigen/LU>
#include <Eigen/QR>

#include <bilevel/space/cholesky.hpp>

namespace bilevel {

/// A square matrix, factored in the way that suits it: Cholesky after scaling to a unit diagonal, LU with
/// partial pivoting where that fails or A is not symmetric, and a complete orthogonal decomposition where A
/// is singular to working precision (reciprocal condition number below n·u).
class DenseFactor {
 public:
  /// `roundoff` is the u of the arithmetic that the matrix came from. A matrix that claims to be symmetric
  /// and differs from its transpose by more than √u of its largest element is treated as not symmetric,
  /// and finding() says so; a smaller difference is averaged away.
  DenseFactor(Eigen::MatrixXd matrix, bool symmetric, double roundoff);

  void solve(const Eigen::VectorXd& right, Eigen::VectorXd& x) const;

  /// x = A⁻ᵀ·right.
  void solve_transposed(const Eigen::VectorXd& right, Eigen::VectorXd& x) const;
  /// An estimate from above, by Lanczos on A⁻¹A⁻ᵀ, whose largest eigenvalue stands apart as a rule; 0 where A
  /// is singular.
  double smallest_singular_value() const;

  bool singular() const { return orthogonal_.has_value(); }
  bool indefinite() const { return indefinite_; }
  /// Eigenvalues are computed where Cholesky failed, to say why.
  bool has_eigenvalues() const { return smallest_ == smallest_; }
  double smallest_eigenvalue() const { return smallest_; }
  double largest_eigenvalue() const { return largest_; }
  double reciprocal_condition() const {
    return reciprocal_condition_;
  }  ///< in the 1-norm, estimated; of the scaled matrix with Cholesky
  /// What is unusual about the matrix, with the numbers; empty where nothing is.
  const std::string& finding() const { return finding_; }
  long factorizations() const { return factorizations_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void factor_symmetric(const Eigen::MatrixXd& matrix, double roundoff);
  void factor_general(const Eigen::MatrixXd& matrix, double roundoff);
  void treat_as_singular(const Eigen::MatrixXd& matrix, double roundoff);
  void find(const std::string& text);

  std::optional<Cholesky> cholesky_;
  std::optional<Eigen::PartialPivLU<Eigen::MatrixXd>> lu_;
  std::optional<Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd>> orthogonal_;
  Eigen::Index rows_ = 0;
  Eigen::VectorXd scale_;  // with Cholesky: what gives A a unit diagonal from both sides
  bool indefinite_ = false;
  double smallest_ = std::numeric_limits<double>::quiet_NaN();
  double largest_ = std::numeric_limits<double>::quiet_NaN();
  double reciprocal_condition_ = 0;
  std::string finding_;
  long factorizations_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace bilevel
