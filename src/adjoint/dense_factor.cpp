#include <bilevel/adjoint/impl/dense_factor.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <bilevel/space/decompositions.hpp>
#include <bilevel/space/lanczos.hpp>

namespace bilevel {

DenseFactor::DenseFactor(Eigen::MatrixXd matrix, bool symmetric, double roundoff) : rows_(matrix.rows()) {
  bytes_ = 2 * static_cast<std::size_t>(matrix.size()) * sizeof(double);
  if (symmetric) {
    const double largest = matrix.cwiseAbs().maxCoeff();
    const double skew = (matrix - matrix.transpose()).cwiseAbs().maxCoeff();
    if (skew > std::sqrt(roundoff) * largest) {
      find(fmt::format(
          "A claims to be symmetric, but max |A − Aᵀ| = {:.3g} at max |A| = {:.3g}: solved as it is by LU",
          skew, largest));
      symmetric = false;
    }
  }
  if (symmetric) {
    matrix = (0.5 * (matrix + matrix.transpose())).eval();
    factor_symmetric(matrix, roundoff);
  } else {
    factor_general(matrix, roundoff);
  }
}

void DenseFactor::factor_symmetric(const Eigen::MatrixXd& matrix, double roundoff) {
  const double tiny = static_cast<double>(matrix.rows()) * roundoff;
  if ((matrix.diagonal().array() > 0).all()) {
    // Cholesky does not mind bad scaling (penalties of e^±20 side by side) while a condition number does:
    // judge the matrix with a unit diagonal (van der Sluis: within a factor n of the best diagonal scaling).
    scale_ = matrix.diagonal().array().rsqrt();
    cholesky_.emplace(scale_.asDiagonal() * matrix * scale_.asDiagonal());
    ++factorizations_;
    if (cholesky_->succeeded()) {
      reciprocal_condition_ = cholesky_->reciprocal_condition();
      if (reciprocal_condition_ >= tiny) return;
    }
    cholesky_.reset();
  }
  const Eigen::VectorXd eigenvalues = symmetric_eigenvalues(matrix);
  ++factorizations_;
  smallest_ = eigenvalues[0];
  largest_ = eigenvalues[eigenvalues.size() - 1];
  const double magnitude = std::max(std::abs(smallest_), std::abs(largest_));
  const double nearest_to_zero = eigenvalues.cwiseAbs().minCoeff();
  indefinite_ = smallest_ < -tiny * magnitude;
  if (indefinite_)
    find(fmt::format("A is not positive definite: λ_min = {:.6g}, λ_max = {:.6g}", smallest_, largest_));
  if (nearest_to_zero <= tiny * magnitude) {
    reciprocal_condition_ = magnitude > 0 ? nearest_to_zero / magnitude : 0;
    treat_as_singular(matrix, roundoff);
  } else {
    factor_general(matrix, roundoff);
  }
}

void DenseFactor::factor_general(const Eigen::MatrixXd& matrix, double roundoff) {
  lu_.emplace(matrix);
  ++factorizations_;
  // A zero pivot makes Eigen's estimate divide by it.
  const bool pivots = (lu_->matrixLU().diagonal().array() != 0).all();
  reciprocal_condition_ = pivots ? lu_->rcond() : 0;
  if (!(reciprocal_condition_ >= static_cast<double>(matrix.rows()) * roundoff)) {
    lu_.reset();
    treat_as_singular(matrix, roundoff);
  }
}

void DenseFactor::treat_as_singular(const Eigen::MatrixXd& matrix, double roundoff) {
  orthogonal_.emplace(matrix.rows(), matrix.cols());
  orthogonal_->setThreshold(static_cast<double>(matrix.rows()) * roundoff);
  orthogonal_->compute(matrix);
  ++factorizations_;
  find(fmt::format(
      "A is singular to working precision: reciprocal condition number {:.3g}, rank {} of {}; x is the "
      "least-squares solution of least norm",
      reciprocal_condition_, orthogonal_->rank(), matrix.rows()));
}

void DenseFactor::solve(const Eigen::VectorXd& right, Eigen::VectorXd& x) const {
  if (cholesky_) {
    x = scale_.cwiseProduct(right);
    cholesky_->solve_in_place(x);
    x.array() *= scale_.array();
  } else if (lu_) {
    x = lu_->solve(right);
  } else {
    x = orthogonal_->solve(right);
  }
}

void DenseFactor::solve_transposed(const Eigen::VectorXd& right, Eigen::VectorXd& x) const {
  if (lu_)
    x = lu_->transpose().solve(right);
  else if (orthogonal_)
    x = orthogonal_->transpose().solve(right);
  else
    solve(right, x);
}

double DenseFactor::smallest_singular_value() const {
  if (singular()) return 0;
  Eigen::VectorXd start(rows_), between(rows_);
  Space<Eigen::VectorXd>::random(1, start);
  const auto apply = [&](const Eigen::VectorXd& x, Eigen::VectorXd& out) {
    solve_transposed(x, between);
    solve(between, out);
  };
  const RitzEnds ends =
      Lanczos<Eigen::VectorXd>(apply, start, {.basis = std::min<Index>(rows_, 40), .sweeps = 1}).run();
  return 1 / std::sqrt(ends.largest);
}

void DenseFactor::find(const std::string& text) {
  if (!finding_.empty()) finding_ += "; ";
  finding_ += text;
}

}  // namespace bilevel
