#pragma once

#include <cstdint>
#include <functional>

#include <Eigen/Core>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

/// The ends of a matrix's spectrum: eigenvalues where it is symmetric, singular values otherwise.
struct Spectrum {
  double smallest = unknown;
  double largest = unknown;
  bool reliable = false;  ///< from the whole matrix, its rounding error already taken off and added
};

/// From the whole matrix. `smallest` is lowered and `largest` raised by the error of the computation.
/// `error` is how far the matrix may be from the one that is meant, in the 2-norm.
Spectrum dense_spectrum(const Eigen::MatrixXd& matrix, bool symmetric, double error = 0);

/// By Lanczos from a random start: estimates from inside the spectrum. Unknown where it did not converge.
Spectrum lanczos_spectrum(Index size, const std::function<void(const double*, double*)>& apply,
                          std::uint64_t seed);

/// J of a curvature, from `dense()` or column by column.
template <Vector V>
Eigen::MatrixXd dense_matrix(Curvature<V>& curvature, const V& like) {
  Eigen::MatrixXd matrix;
  if (curvature.dense(matrix)) return matrix;
  const Index n = Space<V>::size(like);
  matrix.resize(n, n);
  Eigen::VectorXd unit = Eigen::VectorXd::Zero(n);
  V column = Space<V>::zeros_like(like), product = Space<V>::zeros_like(like);
  for (Index j = 0; j < n; ++j) {
    unit[j] = 1;
    Space<V>::from_host(unit.data(), column);
    unit[j] = 0;
    curvature.times(column, product);
    Space<V>::to_host(product, matrix.col(j).data());
  }
  return matrix;
}

/// χ, |φ|×|θ|, from whichever of its products needs fewer calls.
template <Vector V>
Eigen::MatrixXd dense_cross(Curvature<V>& curvature, const V& phi, const V& theta) {
  const Index n = Space<V>::size(phi), m = Space<V>::size(theta);
  const bool by_rows = n < m;
  Eigen::MatrixXd matrix(by_rows ? m : n, by_rows ? n : m);
  const V& from = by_rows ? phi : theta;
  Eigen::VectorXd unit = Eigen::VectorXd::Zero(matrix.cols());
  V direction = Space<V>::zeros_like(from), product = Space<V>::zeros_like(by_rows ? theta : phi);
  for (Index j = 0; j < matrix.cols(); ++j) {
    unit[j] = 1;
    Space<V>::from_host(unit.data(), direction);
    unit[j] = 0;
    by_rows ? curvature.cross_times(direction, product) : curvature.cross_apply(direction, product);
    Space<V>::to_host(product, matrix.col(j).data());
  }
  if (by_rows) matrix.transposeInPlace();
  return matrix;
}

}  // namespace bilevel
