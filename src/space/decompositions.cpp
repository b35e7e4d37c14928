#include <bilevel/space/decompositions.hpp>

#include <limits>

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <Eigen/QR>

namespace bilevel {
namespace {

using Mat = Eigen::MatrixXd;
using Vec = Eigen::VectorXd;
using Solver = Eigen::SelfAdjointEigenSolver<Mat>;

Vec values_of(const Solver& solver, Index rows) {
  return solver.info() == Eigen::Success ? solver.eigenvalues()
                                         : Vec::Constant(rows, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

Vec symmetric_eigenvalues(const Mat& matrix) {
  return values_of(Solver(matrix, Eigen::EigenvaluesOnly), matrix.rows());
}

Vec tridiagonal_eigenvalues(const Vec& diagonal, const Vec& coupling) {
  Solver solver;
  solver.computeFromTridiagonal(diagonal, coupling, Eigen::EigenvaluesOnly);
  return values_of(solver, diagonal.size());
}

Vec generalised_eigenvalues(const Mat& a, const Mat& b) {
  return Eigen::GeneralizedSelfAdjointEigenSolver<Mat>(a, b, Eigen::EigenvaluesOnly).eigenvalues();
}

SymmetricEigen::SymmetricEigen(const Mat& matrix) {
  const Solver solver(matrix);
  found = solver.info() == Eigen::Success;
  values = values_of(solver, matrix.rows());
  vectors = solver.eigenvectors();
}

Vec least_squares(const Mat& a, const Vec& b) {
  return a.colPivHouseholderQr().solve(b);
}

struct FullPivoting::Factor {
  Eigen::FullPivLU<Mat> lu;
};

FullPivoting::FullPivoting(const Mat& a) : factor_(new Factor{Eigen::FullPivLU<Mat>(a)}) {}
FullPivoting::~FullPivoting() = default;

Index FullPivoting::rank() const {
  return factor_->lu.rank();
}

Mat FullPivoting::solve(const Mat& b) const {
  return factor_->lu.solve(b);
}

}  // namespace bilevel
