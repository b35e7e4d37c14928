#include <bilevel/gradient/impl/spectrum.hpp>

#include <algorithm>
#include <cmath>
#include <random>

#include <bilevel/space/decompositions.hpp>

#include <bilevel/problem/gamma.hpp>
#include <bilevel/space/cholesky.hpp>
#include <bilevel/space/sparse_cholesky.hpp>

namespace bilevel {
namespace {

Eigen::VectorXd random_start(Index size, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  return Eigen::VectorXd::NullaryExpr(size, [&] { return normal(engine); });
}

/// Where Cholesky runs to its end on a matrix, its eigenvalues are at least −γ_(n+1)·trace (Rump,
/// Verification of positive definiteness, 2006), in whatever order its sums are taken. γ of 2n + `spare`
/// operations also covers quotients that BLAS takes as products with a reciprocal.
double cholesky_slack(Index size, double trace, double spare) {
  return gamma(2 * static_cast<double>(size) + spare) * trace * (1 + 1e-9);
}
double cholesky_slack(const Eigen::MatrixXd& matrix, double spare) {
  return cholesky_slack(matrix.rows(), matrix.diagonal().cwiseAbs().sum(), spare);
}

/// Inverse iteration gives an upper bound of λ_min, and a good guess of it.
template <class Factor>
double guess_smallest(const Factor& factor, Index size) {
  Eigen::VectorXd x = random_start(size, 1);
  double guess = 0;
  for (int k = 0; k < 12; ++k) {
    x.normalize();
    factor.solve_in_place(x);
    guess = 1 / x.norm();
  }
  return guess;
}

/// Where Cholesky runs to its end on A − τI, whose trace is below that of A, λ_min(A) ≥ τ less the slack.
template <class RunsOn>
double proven_smallest(double guess, double slack, const RunsOn& runs_on) {
  for (double part = 0.9; part > 0.01; part *= 0.6)
    if (runs_on(part * guess)) return part * guess * (1 - 1e-12) - slack;
  return unknown;
}

}  // namespace

Spectrum dense_spectrum(const Eigen::MatrixXd& matrix, bool symmetric, double error) {
  if (matrix.rows() != matrix.cols())
    throw InvalidInput(
        fmt::format("a spectrum needs a square matrix, not {} by {}", matrix.rows(), matrix.cols()));
  if (matrix.rows() == 0 || !matrix.allFinite()) return {};
  Spectrum s;
  if (symmetric) {
    const Eigen::VectorXd values = symmetric_eigenvalues(matrix);
    s.smallest = values[0];
    s.largest = values[matrix.rows() - 1];
  } else {
    // The eigenvalues of [0 A; Aᵀ 0] are ±σ, each to the same absolute accuracy as those of A were it
    // symmetric.
    const Index n = matrix.rows();
    Eigen::MatrixXd doubled = Eigen::MatrixXd::Zero(2 * n, 2 * n);
    doubled.bottomLeftCorner(n, n) = matrix.transpose();
    const Eigen::VectorXd values = symmetric_eigenvalues(doubled);
    s.smallest = values[n];
    s.largest = values[2 * n - 1];
  }
  // Backward stable: each value is off by a small multiple of n·u·‖A‖, and by the error of the matrix (Weyl).
  const double slack = 20 * static_cast<double>(matrix.rows()) * 0x1p-53 * matrix.norm() + error;
  s.smallest -= slack;
  s.largest += slack;
  return s;
}

Spectrum factored_spectrum(const Eigen::MatrixXd& matrix, double error) {
  const Index n = matrix.rows();
  if (n == 0 || !matrix.allFinite()) return {};
  Cholesky factor(matrix);
  if (!factor.succeeded()) return {};
  Spectrum s;
  s.smallest =
      proven_smallest(guess_smallest(factor, n), cholesky_slack(matrix, 16) + error, [&](double tau) {
        Eigen::MatrixXd shifted = matrix;
        shifted.diagonal().array() -= tau;
        factor.compute(shifted);
        return factor.succeeded();
      });
  if (std::isnan(s.smallest)) return {};
  s.largest = matrix.cwiseAbs().rowwise().sum().maxCoeff() * (1 + 1e-9) + error;
  return s;
}

Spectrum factored_spectrum(const SparseMatrix& matrix, double error) {
  const Index n = matrix.size();
  SparseCholesky factor;
  if (n == 0 || !factor.compute(matrix)) return {};
  double trace = 0, largest = 0;
  for (Index j = 0; j < n; ++j) {
    double sum = 0;
    for (int k = matrix.begins[static_cast<std::size_t>(j)];
         k < matrix.begins[static_cast<std::size_t>(j) + 1]; ++k) {
      const double size = std::abs(matrix.values[static_cast<std::size_t>(k)]);
      sum += size;
      if (matrix.rows[static_cast<std::size_t>(k)] == j) trace += size;
    }
    largest = std::max(largest, sum);
  }
  Spectrum s;
  // LDLᵀ without square roots takes as many roundings.
  s.smallest = proven_smallest(guess_smallest(factor, n), cholesky_slack(n, trace, 16) + error,
                               [&](double tau) { return factor.runs_on(matrix, tau); });
  if (std::isnan(s.smallest)) return {};
  s.largest = largest * (1 + 1e-9) + error;
  return s;
}

double largest_relative(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, double error, double smallest) {
  const Index n = a.rows();
  if (!(smallest > 0)) return unknown;
  Cholesky factor(a);
  if (!factor.succeeded()) return unknown;
  // Powers of A⁻¹B give a lower bound of ω, and a good guess of it.
  Eigen::VectorXd x = random_start(n, 1), product(n);
  double guess = 0;
  for (int k = 0; k < 20; ++k) {
    product.noalias() = b.selfadjointView<Eigen::Lower>() * x;
    guess = x.dot(product) / x.dot(a.selfadjointView<Eigen::Lower>() * x);
    x = product;
    factor.solve_in_place(x);
    const double length = x.norm();
    if (!(length > 0)) break;
    x /= length;
  }
  if (!std::isfinite(guess)) return unknown;
  guess = std::max(guess, 1e-300);
  // Where Cholesky runs to its end on ωA − B, B ⪯ ωA + slack ⪯ (ω + slack/λ_min)A.
  Eigen::MatrixXd rest(n, n);
  for (const double part : {1.1, 1.5, 3.0, 10.0, 100.0}) {
    const double omega = part * guess;
    rest = omega * a - b;
    factor.compute(rest);
    if (!factor.succeeded()) continue;
    const double slack =
        cholesky_slack(rest, 20) + 0x1p-52 * (omega * a.norm() + b.norm()) + (1 + omega) * error;
    return (omega + slack / smallest) * (1 + 1e-12);
  }
  return unknown;
}

}  // namespace bilevel
