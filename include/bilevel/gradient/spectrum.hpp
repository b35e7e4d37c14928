#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include <Eigen/Core>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

/// The ends of a matrix's spectrum: eigenvalues where it is symmetric, singular values otherwise.
struct Spectrum {
  double smallest = unknown;
  double largest = unknown;
};

/// From the whole matrix. `smallest` is lowered and `largest` raised by the error of the computation.
/// `error` is how far the matrix may be from the one that is meant, in the 2-norm.
Spectrum dense_spectrum(const Eigen::MatrixXd& matrix, bool symmetric, double error = 0);

/// Of a symmetric matrix, by Cholesky: a `smallest` that is proven (within a quarter of λ_min as a rule) and
/// an upper bound of λ_max. Unknown where the matrix is not positive definite beyond `error` and rounding.
Spectrum factored_spectrum(const Eigen::MatrixXd& matrix, double error);

/// An upper bound of the largest ω with Bx = ωAx (within a tenth of it as a rule), for symmetric A and B ⪰ 0,
/// each off by at most `error` in the 2-norm, where λ_min(A) ≥ `smallest` > 0; NaN where none is proven.
double largest_relative(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, double error, double smallest);

/// By Lanczos from a random start: estimates from inside the spectrum. Unknown where it did not converge
/// within so many restarts, of 20 to 40 products each.
Spectrum lanczos_spectrum(Index size, const std::function<void(const double*, double*)>& apply,
                          std::uint64_t seed, int restarts = 30);

/// The same of a symmetric curvature on any vector type.
template <Vector V>
Spectrum lanczos_spectrum(Curvature<V>& curvature, const V& like, std::uint64_t seed, int restarts = 30,
                          const StopToken* stop = nullptr) {
  V x = Space<V>::zeros_like(like), product = Space<V>::zeros_like(like);
  return lanczos_spectrum(
      Space<V>::size(like),
      [&](const double* in, double* out) {
        // Nothing converges on these, and they cost nothing.
        if (stop_wanted(stop)) {
          std::fill_n(out, Space<V>::size(like), unknown);
          return;
        }
        Space<V>::from_host(in, x);
        curvature.times(x, product);
        Space<V>::to_host(product, out);
      },
      seed, restarts);
}

/// J of a curvature, from `dense()` or column by column.
template <Vector V>
Eigen::MatrixXd dense_matrix(Curvature<V>& curvature, const V& like) {
  Eigen::MatrixXd matrix;
  if (curvature.dense(matrix)) return matrix;
  const Index n = Space<V>::size(like);
  matrix.resize(n, n);
  Eigen::VectorXd zeros = Eigen::VectorXd::Zero(n);
  V unit = Space<V>::zeros_like(like), product = Space<V>::zeros_like(like);
  for_each_unit(zeros.data(), unit, [&](Index j) {
    curvature.times(unit, product);
    Space<V>::to_host(product, matrix.col(j).data());
    return true;
  });
  return matrix;
}

/// χ, |φ|×|θ|, from whichever of its products needs fewer calls.
template <Vector V>
Eigen::MatrixXd dense_cross(Curvature<V>& curvature, const V& phi, const V& theta) {
  const Index n = Space<V>::size(phi), m = Space<V>::size(theta);
  const bool by_rows = n < m;
  Eigen::MatrixXd matrix(by_rows ? m : n, by_rows ? n : m);
  const V& from = by_rows ? phi : theta;
  Eigen::VectorXd zeros = Eigen::VectorXd::Zero(matrix.cols());
  V unit = Space<V>::zeros_like(from), product = Space<V>::zeros_like(by_rows ? theta : phi);
  for_each_unit(zeros.data(), unit, [&](Index j) {
    by_rows ? curvature.cross_times(unit, product) : curvature.cross_apply(unit, product);
    Space<V>::to_host(product, matrix.col(j).data());
    return true;
  });
  if (by_rows) matrix.transposeInPlace();
  return matrix;
}

}  // namespace bilevel
