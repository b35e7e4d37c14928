#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <bilevel/adjoint/tridiagonal.hpp>
#include <bilevel/gradient/spectrum.hpp>
#include <bilevel/space/impl/lanczos.hpp>

namespace bilevel {

/// The same of any symmetric operator on vectors like this one.
template <Vector V>
Spectrum lanczos_spectrum(const typename Lanczos<V>::Apply& apply, const V& like, std::uint64_t seed,
                          int sweeps = 30) {
  const Index size = Space<V>::size(like);
  if (size < 4) return {};
  V start = Space<V>::zeros_like(like);
  Space<V>::random(seed, start);
  const RitzEnds ends =
      Lanczos<V>(apply, start, {.basis = std::min<Index>(size, 40), .sweeps = sweeps}).run();
  return ends.converged ? Spectrum{ends.smallest, ends.largest} : Spectrum{};
}

template <Vector V>
Spectrum lanczos_spectrum(Curvature<V>& curvature, const V& like, std::uint64_t seed, int sweeps,
                          const StopToken* stop) {
  return lanczos_spectrum<V>(
      [&](const V& x, V& out) {
        // NaN ends the sweeps, and costs nothing.
        stop_wanted(stop) ? Space<V>::fill(unknown, out) : curvature.times(x, out);
      },
      like, seed, sweeps);
}

/// A lower bound of λ_min that holds with probability 1 − 10⁻⁴ over the random start, for spectra whose small
/// end is too crowded for its eigenvector to be found: after k products of Lanczos' method, without restarts,
///   λ_min ≥ ϑ_min − ε(λ_max − λ_min)  with  1.648·√n·exp(−√ε(2k − 1)) = 10⁻⁴
/// (Kuczyński and Woźniakowski 1992, theorem 4.2, turned around). Stops where that is at least ϑ_min/5, or
/// ϑ_min is not positive, which is λ_min's upper bound then; unknown after `most` products. Of rounding
/// errors it knows nothing.
template <Vector V>
Spectrum crowded_spectrum(Curvature<V>& curvature, const V& like, std::uint64_t seed, long most,
                          const StopToken* stop) {
  V now = Space<V>::zeros_like(like), before = Space<V>::zeros_like(like), next = Space<V>::zeros_like(like);
  Space<V>::random(seed, now);
  Space<V>::scale(1 / norm(now), now);
  Tridiagonal projected(most);
  const double root = std::log(1.648e4 * std::sqrt(static_cast<double>(Space<V>::size(like))));
  double coupling = 0;
  for (long k = 1; k <= most && !stop_wanted(stop); ++k) {
    curvature.times(now, next);
    if (coupling != 0) Space<V>::axpy(-coupling, before, next);
    const double diagonal = Space<V>::dot(now, next);
    Space<V>::axpy(-diagonal, now, next);
    projected.append(diagonal, coupling);
    coupling = norm(next);
    if (!std::isfinite(coupling)) return {};
    if (k % 32 == 0 || coupling == 0) {
      const auto [smallest, largest] = projected.extremes();
      const double missed = std::pow(root / static_cast<double>(2 * k - 1), 2) * (largest - smallest);
      if (smallest <= 0 || missed <= 0.8 * smallest) return {smallest - (smallest > 0 ? missed : 0), largest};
    }
    if (coupling == 0) return {};
    Space<V>::scale(1 / coupling, next);
    std::swap(before, now);
    std::swap(now, next);
  }
  return {};
}

template <Vector V>
Eigen::MatrixXd dense_matrix(Curvature<V>& curvature, const V& like) {
  Eigen::MatrixXd matrix;
  if (curvature.dense(matrix)) return matrix;
  const Index n = Space<V>::size(like);
  matrix.resize(n, n);
  V unit = Space<V>::zeros_like(like), product = Space<V>::zeros_like(like);
  for (Index j = 0; j < n; ++j) {
    Space<V>::unit(j, unit);
    curvature.times(unit, product);
    Space<V>::to_host(product, matrix.col(j).data());
  }
  return matrix;
}

/// Calls use(j, product) with each column of χ, or with each of its `rows`.
template <Vector V, class Use>
void for_each_cross_product(Curvature<V>& curvature, const V& phi, const V& theta, bool rows, Use use) {
  const V& from = rows ? phi : theta;
  V unit = Space<V>::zeros_like(from), product = Space<V>::zeros_like(rows ? theta : phi);
  for (Index j = 0; j < Space<V>::size(from); ++j) {
    Space<V>::unit(j, unit);
    rows ? curvature.cross_times(unit, product) : curvature.cross_apply(unit, product);
    use(j, product);
  }
}

template <Vector V>
Eigen::MatrixXd dense_cross(Curvature<V>& curvature, const V& phi, const V& theta) {
  const Index n = Space<V>::size(phi), m = Space<V>::size(theta);
  const bool rows = n < m;
  Eigen::MatrixXd matrix(rows ? m : n, rows ? n : m);
  for_each_cross_product(curvature, phi, theta, rows, [&](Index j, const V& product) {
    Space<V>::to_host(product, matrix.col(j).data());
  });
  if (rows) matrix.transposeInPlace();
  return matrix;
}

/// ‖χ‖ in the Frobenius norm, from as many products; no element of χ leaves V.
template <Vector V>
double frobenius_cross(Curvature<V>& curvature, const V& phi, const V& theta) {
  double squares = 0;
  for_each_cross_product(curvature, phi, theta, Space<V>::size(phi) < Space<V>::size(theta),
                         [&](Index, const V& product) { squares += Space<V>::dot(product, product); });
  return std::sqrt(squares);
}

}  // namespace bilevel
