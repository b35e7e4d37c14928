#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/space/decompositions.hpp>
#include <bilevel/space/lanczos.hpp>

namespace bilevel {

template <Vector V>
Lanczos<V>::Lanczos(Apply apply, const V& start, LanczosOptions options)
    : apply_(std::move(apply)),
      options_(options),
      product_(duplicate(start)),
      small_(Eigen::MatrixXd::Zero(options.basis, options.basis)),
      rest_(norm(start)) {}

template <Vector V>
RitzEnds Lanczos<V>::run() {
  if (rest_ == 0 || !std::isfinite(rest_)) return {};
  append(product_, rest_);
  for (int sweeps = 1;; ++sweeps) {
    if (!sweep()) return {};
    const RitzEnds ends = diagonalise();
    // A basis that is not full spans an invariant space, and there is nothing to go on with.
    if (ends.converged || sweeps >= options_.sweeps || used_ < options_.basis) return ends;
    restart(2 + converged_);
  }
}

template <Vector V>
V Lanczos<V>::smallest_vector() const {
  V x = Space<V>::zeros_like(product_);
  for (Index i = 0; i < used_; ++i) Space<V>::axpy(vectors_(i, 0), basis_[static_cast<std::size_t>(i)], x);
  return x;
}

template <Vector V>
void Lanczos<V>::append(const V& direction, double length) {
  const auto at = static_cast<std::size_t>(used_++);
  if (basis_.size() <= at) basis_.push_back(Space<V>::zeros_like(direction));
  Space<V>::copy(direction, basis_[at]);
  Space<V>::scale(1 / length, basis_[at]);
}

/// Products until the basis is full or they lead out of it no more; false where one is not finite.
template <Vector V>
bool Lanczos<V>::sweep() {
  while (true) {
    const Index j = used_ - 1;
    const V& last = basis_[static_cast<std::size_t>(j)];
    apply_(last, product_);
    const double size = norm(product_);
    if (!std::isfinite(size)) return false;
    largest_ = std::max(largest_, size);
    small_(j, j) = Space<V>::dot(last, product_);
    for (int pass = 0; pass < 2; ++pass)
      for (Index i = 0; i < used_; ++i) {
        const V& each = basis_[static_cast<std::size_t>(i)];
        Space<V>::axpy(-Space<V>::dot(each, product_), each, product_);
      }
    rest_ = norm(product_);
    if (rest_ <= 100 * unit_roundoff<V>() * largest_ || used_ == options_.basis) return true;
    small_(j + 1, j) = small_(j, j + 1) = rest_;
    append(product_, rest_);
  }
}

template <Vector V>
RitzEnds Lanczos<V>::diagonalise() {
  const SymmetricEigen eigen(small_.topLeftCorner(used_, used_));
  if (!eigen.found) return {};
  values_ = eigen.values;
  vectors_ = eigen.vectors;
  // Below this a value is zero to working precision.
  const double zero = std::pow(2 * unit_roundoff<V>(), 2.0 / 3.0);
  converged_ = 0;
  for (const Index end : {Index{0}, used_ - 1})
    converged_ += rest_ * std::abs(vectors_(used_ - 1, end)) <
                  options_.tolerance * std::max(zero, std::abs(values_[end]));
  return {values_[0], values_[used_ - 1], converged_ == 2};
}

/// With the outermost Ritz vectors, the largest first, and the direction that led out of the basis: their
/// products lie in the space that these span, all but a part along that direction.
template <Vector V>
void Lanczos<V>::restart(Index kept) {
  kept = std::min(kept, used_ - 1);
  Eigen::MatrixXd next = Eigen::MatrixXd::Zero(small_.rows(), small_.cols());
  for (Index k = 0; k < kept; ++k) {
    const Index from = k % 2 == 0 ? used_ - 1 - k / 2 : k / 2;
    const auto at = static_cast<std::size_t>(k);
    if (kept_.size() <= at) kept_.push_back(Space<V>::zeros_like(product_));
    Space<V>::scale(0, kept_[at]);
    for (Index i = 0; i < used_; ++i)
      Space<V>::axpy(vectors_(i, from), basis_[static_cast<std::size_t>(i)], kept_[at]);
    next(k, k) = values_[from];
    next(k, kept) = next(kept, k) = rest_ * vectors_(used_ - 1, from);
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(kept); ++k) std::swap(kept_[k], basis_[k]);
  small_ = std::move(next);
  used_ = kept;
  append(product_, rest_);
}

}  // namespace bilevel
