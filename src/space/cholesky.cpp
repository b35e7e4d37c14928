#include <bilevel/space/cholesky.hpp>

#include <algorithm>
#include <vector>

#include <cblas.h>

#include "threads/one_blas_thread.hpp"
#include "threads/pool.hpp"

extern "C" {
void dpotrf_(const char* half, const int* n, double* a, const int* stride, int* info);
void dpocon_(const char* half, const int* n, const double* a, const int* stride, const double* norm,
             double* reciprocal, double* work, int* integers, int* info);
}

namespace bilevel {
namespace {

/// Columns that are factored at once, and rows and columns of a tile that is updated at once.
constexpr Index width = 128;
/// A tile's products take about 50 µs: one thread more for each two of them.
constexpr std::size_t tiles_for_a_thread = 2;

bool factor_tile(double* a, Index size, Index stride) {
  const int n = static_cast<int>(size), leading = static_cast<int>(stride);
  int info = 0;
  dpotrf_("L", &n, a, &leading, &info);
  return info == 0;
}

}  // namespace

void Cholesky::compute(const Eigen::MatrixXd& matrix) {
  const Index n = matrix.rows();
  factor_ = matrix;
  succeeded_ = false;
  norm_ = 0;
  for (Index j = 0; j < n; ++j) {
    // Column j of the whole matrix: its lower part, and what stands left of the diagonal in row j.
    const double sum = matrix.col(j).tail(n - j).cwiseAbs().sum() + matrix.row(j).head(j).cwiseAbs().sum();
    norm_ = std::max(norm_, sum);
  }
  const OneBlasThread one;
  const auto stride = static_cast<int>(n);
  double* const a = factor_.data();
  for (Index k = 0; k < n; k += width) {
    const Index here = std::min(width, n - k), rest = n - k - here, below = k + here;
    double* const diagonal = a + k + k * n;
    if (!factor_tile(diagonal, here, n)) return;
    const Index bands = (rest + width - 1) / width;
    const auto rows_of = [&](Index band) { return static_cast<int>(std::min(width, rest - band * width)); };
    const auto panel = [&](Index band) { return a + below + band * width + k * n; };
    // Below the tile: L₂₁ = A₂₁·L₁₁⁻ᵀ; then A₂₂ −= L₂₁·L₂₁ᵀ, tile by tile of its lower half.
    pool::for_each(static_cast<std::size_t>(bands), static_cast<std::size_t>(bands) / tiles_for_a_thread,
                   [&](std::size_t piece) {
                     const auto band = static_cast<Index>(piece);
                     cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit,
                                 rows_of(band), static_cast<int>(here), 1, diagonal, stride, panel(band),
                                 stride);
                   });
    const auto tiles = static_cast<std::size_t>(bands * (bands + 1) / 2);
    pool::for_each(tiles, tiles / tiles_for_a_thread, [&](std::size_t piece) {
      Index row = 0, left = static_cast<Index>(piece);
      while (left > row) left -= ++row;
      double* const tile = a + below + row * width + (below + left * width) * n;
      if (row == left)
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, rows_of(row), static_cast<int>(here), -1,
                    panel(row), stride, 1, tile, stride);
      else
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, rows_of(row), rows_of(left),
                    static_cast<int>(here), -1, panel(row), stride, panel(left), stride, 1, tile, stride);
    });
  }
  // LAPACK stops at a pivot that is not positive; one that is NaN passes its test.
  succeeded_ = factor_.diagonal().allFinite();
}

void Cholesky::solve_in_place(Eigen::VectorXd& right) const {
  const auto n = static_cast<int>(factor_.rows());
  if (n == 0) return;
  const OneBlasThread one;
  for (const CBLAS_TRANSPOSE which : {CblasNoTrans, CblasTrans})
    cblas_dtrsv(CblasColMajor, CblasLower, which, CblasNonUnit, n, factor_.data(), n, right.data(), 1);
}

double Cholesky::reciprocal_condition() const {
  if (!succeeded_) return 0;
  const auto n = static_cast<int>(factor_.rows());
  if (n == 0) return 1;
  const OneBlasThread one;
  std::vector<double> work(3 * static_cast<std::size_t>(n));
  std::vector<int> integers(static_cast<std::size_t>(n));
  double reciprocal = 0;
  int info = 0;
  dpocon_("L", &n, factor_.data(), &n, &norm_, &reciprocal, work.data(), integers.data(), &info);
  return info == 0 ? reciprocal : 0;
}

}  // namespace bilevel
