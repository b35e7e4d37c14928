#include <bilevel/gradient/spectrum.hpp>

#include <algorithm>
#include <random>

#include <Spectra/SymEigsSolver.h>
#include <Eigen/Eigenvalues>

namespace bilevel {
namespace {

/// Spectra's idea of a matrix.
struct HostOperator {
  using Scalar = double;
  Index size;
  const std::function<void(const double*, double*)>& apply;

  Eigen::Index rows() const { return size; }
  Eigen::Index cols() const { return size; }
  void perform_op(const double* x, double* out) const { apply(x, out); }
};

}  // namespace

Spectrum dense_spectrum(const Eigen::MatrixXd& matrix, bool symmetric, double error) {
  if (matrix.rows() != matrix.cols())
    throw InvalidInput(
        fmt::format("a spectrum needs a square matrix, not {} by {}", matrix.rows(), matrix.cols()));
  if (matrix.rows() == 0 || !matrix.allFinite()) return {};
  Spectrum s;
  if (symmetric) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(matrix, Eigen::EigenvaluesOnly);
    if (eigen.info() != Eigen::Success) return {};
    s.smallest = eigen.eigenvalues()[0];
    s.largest = eigen.eigenvalues()[matrix.rows() - 1];
  } else {
    // The eigenvalues of [0 A; Aᵀ 0] are ±σ, each to the same absolute accuracy as those of A were it
    // symmetric.
    const Index n = matrix.rows();
    Eigen::MatrixXd doubled = Eigen::MatrixXd::Zero(2 * n, 2 * n);
    doubled.bottomLeftCorner(n, n) = matrix.transpose();
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(doubled, Eigen::EigenvaluesOnly);
    if (eigen.info() != Eigen::Success) return {};
    s.smallest = eigen.eigenvalues()[n];
    s.largest = eigen.eigenvalues()[2 * n - 1];
  }
  // Backward stable: each value is off by a small multiple of n·u·‖A‖, and by the error of the matrix (Weyl).
  const double slack = 20 * static_cast<double>(matrix.rows()) * 0x1p-53 * matrix.norm() + error;
  s.smallest -= slack;
  s.largest += slack;
  return s;
}

Spectrum lanczos_spectrum(Index size, const std::function<void(const double*, double*)>& apply,
                          std::uint64_t seed) {
  if (size < 4) return {};
  HostOperator op{size, apply};
  Spectra::SymEigsSolver<HostOperator> solver(op, 2, std::min<Index>(size, 40));
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  const Eigen::VectorXd start = Eigen::VectorXd::NullaryExpr(size, [&] { return normal(engine); });
  try {
    solver.init(start.data());
    solver.compute(Spectra::SortRule::BothEnds, 30, 1e-4);
  } catch (const std::exception&) {
    return {};  // Spectra throws where a start lies in an invariant subspace or a product was not finite
  }
  Spectrum s;
  const Eigen::VectorXd values = solver.eigenvalues();
  if (solver.info() == Spectra::CompInfo::Successful && values.size() == 2) {
    s.smallest = values.minCoeff();
    s.largest = values.maxCoeff();
  }
  return s;
}

}  // namespace bilevel
