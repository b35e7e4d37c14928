#pragma once

#include <bilevel/adjoint/nystrom_sketch.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>

namespace bilevel {

template <Vector V>
void NystromSketch<V>::build(LinearRun<V>& run) {
  using S = Space<V>;
  const Index k = std::min<Index>(static_cast<Index>(options_.rank), S::size(run.x()));
  basis_.clear();
  std::vector<V> omega, y;
  for (Index j = 0; j < k; ++j) {
    omega.push_back(S::zeros_like(run.x()));
    y.push_back(S::zeros_like(run.x()));
    S::random(options_.seed + static_cast<std::uint64_t>(j), omega.back());
  }
  Eigen::MatrixXd triangle;
  orthonormalise(omega, triangle);

  double square = 0;
  Eigen::MatrixXd projected(k, k);  // ΩᵀAΩ
  for (Index j = 0; j < k; ++j) {
    V& product = y[static_cast<std::size_t>(j)];
    run.apply(omega[static_cast<std::size_t>(j)], product);
    const double column = S::dot(product, product);
    if (!std::isfinite(column)) return run.stop_not_finite(fmt::format("column {} of the sketch A·Ω", j));
    square += column;
    for (Index i = 0; i < k; ++i) projected(i, j) = S::dot(omega[static_cast<std::size_t>(i)], product);
  }
  const double shift = rounding_level(run.x()) * std::sqrt(square);  // ν
  const SymmetricEigen ritz(0.5 * (projected + projected.transpose()));
  const double smallest = ritz.values[0];
  run.solution().smallest_ritz = smallest;
  run.solution().largest_ritz = ritz.values[k - 1];
  if (smallest < -shift)
    return run.stop(
        Status::negative_curvature,
        fmt::format("a sketch of {} columns has a Ritz value of {:.6g}: A is not positive definite", k,
                    smallest));

  basis_ = std::move(y);
  damping_ =
      options_.damping > 0 ? std::min(options_.damping, std::max(smallest, 0.0)) : find_damping(omega, ritz);
  for (std::size_t j = 0; j < basis_.size(); ++j) S::axpy(shift - damping_, omega[j], basis_[j]);
  orthonormalise(basis_, triangle);
  invert(ritz, triangle, shift);
}

template <Vector V>
double NystromSketch<V>::find_damping(const std::vector<V>& omega, const SymmetricEigen& ritz) const {
  const double theta = ritz.values[0];
  V residual = Space<V>::zeros_like(omega[0]);
  for (std::size_t j = 0; j < omega.size(); ++j) {
    const double weight = ritz.vectors(static_cast<Index>(j), 0);
    Space<V>::axpy(weight, basis_[j], residual);
    Space<V>::axpy(-weight * theta, omega[j], residual);
  }
  const double distance = norm(residual);
  return distance <= 0.1 * theta ? theta - distance : 0;
}

/// L = Q·R·(ΩᵀY)⁻¹·Rᵀ·Qᵀ from the eigenvalues of ΩᵀAΩ = WΘWᵀ, then C from those of L.
template <Vector V>
void NystromSketch<V>::invert(const SymmetricEigen& ritz, const Eigen::MatrixXd& triangle,
                              double shift) {
  const Eigen::VectorXd pivots = (ritz.values.array() - damping_).max(0.0) + shift;
  if (shift == 0) {  // A = 0 as far as the sketch goes
    complement_ = 1;
    core_.setZero(rank(), rank());
  } else {
    const Eigen::MatrixXd root =
        triangle * ritz.vectors * pivots.cwiseInverse().cwiseSqrt().asDiagonal();
    const SymmetricEigen eigen(root * root.transpose());
    const Eigen::VectorXd values = (eigen.values.array() - shift).max(0.0) + damping_;
    complement_ = values[0];
    // Nothing is known about directions that A does not stretch: they pass like the least of the others.
    for (Index i = 0; i < values.size() && complement_ <= shift; ++i) complement_ = values[i];
    if (complement_ <= shift) complement_ = 1;
    const Eigen::ArrayXd inverse =
        (values.array() > shift).select(values.array().inverse(), 1 / complement_) - 1 / complement_;
    core_ = eigen.vectors * inverse.matrix().asDiagonal() * eigen.vectors.transpose();
  }
  along_.resize(rank());
  weight_.resize(rank());
}

template <Vector V>
void NystromSketch<V>::apply(const V& b, V& out) {
  const Index k = rank();
  for (Index i = 0; i < k; ++i) along_[i] = Space<V>::dot(basis_[static_cast<std::size_t>(i)], b);
  weight_.noalias() = core_ * along_;
  Space<V>::copy(b, out);
  Space<V>::scale(1 / complement_, out);
  for (Index i = 0; i < k; ++i) Space<V>::axpy(weight_[i], basis_[static_cast<std::size_t>(i)], out);
}

}  // namespace bilevel
