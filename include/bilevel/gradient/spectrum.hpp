#pragma once

#include <cstdint>

#include <Eigen/Core>

#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

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
/// The same of a matrix with few entries.
Spectrum factored_spectrum(const SparseMatrix& matrix, double error);

/// An upper bound of the largest ω with Bx = ωAx (within a tenth of it as a rule), for symmetric A and B ⪰ 0,
/// each off by at most `error` in the 2-norm, where λ_min(A) ≥ `smallest` > 0; NaN where none is proven.
double largest_relative(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b, double error, double smallest);

/// Of a symmetric curvature, by Lanczos from a random start: estimates from inside the spectrum. Unknown
/// where it did not converge within so many sweeps of 40 products each.
template <Vector V>
Spectrum lanczos_spectrum(Curvature<V>& curvature, const V& like, std::uint64_t seed, int sweeps = 30,
                          const StopToken* stop = nullptr);
/// J of a curvature, from `dense()` or column by column.
template <Vector V>
Eigen::MatrixXd dense_matrix(Curvature<V>& curvature, const V& like);
/// χ, |φ|×|θ|, from whichever of its products needs fewer calls.
template <Vector V>
Eigen::MatrixXd dense_cross(Curvature<V>& curvature, const V& phi, const V& theta);

}  // namespace bilevel
