#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>

#include <bilevel/adjoint/linear_run.hpp>

namespace bilevel {

/// A subspace W of approximate eigenvectors to A's smallest eigenvalues, handed from one solve of conjugate
/// gradients to the next (Saad, Yeung, Erhel, Guyomarc'h 2000). A solve runs A-orthogonally to W, so that its
/// rate is that of the eigenvalues which are left. W comes from earlier solves with other matrices: whatever
/// it holds, A·W is evaluated anew, and the answer is right while only the rate depends on W.
template <Vector V>
class RecycledSpace {
 public:
  /// Up to `vectors` columns, sought among those before and the first `window` search directions of a solve.
  /// (The first: while all of the spectrum is in the residual. The last ones were measured to be worth less.)
  RecycledSpace(long vectors, long window)
      : vectors_(static_cast<std::size_t>(vectors)), window_(static_cast<std::size_t>(window)) {}

  /// A·W for this run's A, one product a column, and the factor of WᵀAW. Stops the run where a product is not
  /// finite and, with negative_curvature, where WᵀAW is indefinite; forgets W where its columns depend on
  /// each other or b has another size.
  void begin(LinearRun<V>& run);
  /// x += W(WᵀAW)⁻¹Wᵀr and r along, after which Wᵀr = 0.
  void correct(V& x, V& r);
  /// p −= W(WᵀAW)⁻¹(A·W)ᵀz: with p = β·p_before + z this is A-orthogonal to W.
  void project(const V& z, V& p);
  /// A search direction and its product, kept for the harvest while there is room.
  void observe(const V& p, const V& product);
  /// The columns for the next solve: those y of span(W, directions) with the smallest harmonic Ritz values
  /// ‖A·y‖²/yᵀAy.
  void harvest();

  Index columns() const { return static_cast<Index>(held_); }
  double smallest_quotient() const { return smallest_quotient_; }  ///< of wᵀAw/wᵀw; NaN without W
  std::size_t bytes() const {
    return space_.empty() ? 0
                          : 2 * (vectors_ + window_) * bytes_of(space_[0]) +
                                sizeof(double) * vectors_ * (2 * vectors_ + 1);
  }

 private:
  void allocate(const V& like);
  const V& column(std::size_t i) const { return i < held_ ? space_[i] : directions_[i - held_]; }
  const V& product(std::size_t i) const { return i < held_ ? images_[i] : direction_images_[i - held_]; }

  std::size_t vectors_, window_;
  std::vector<V> space_, images_;  // W and A·W
  std::vector<V> directions_, direction_images_;
  std::size_t held_ = 0;                // columns of W
  std::size_t observed_ = 0;            // directions of this solve
  Eigen::LLT<Eigen::MatrixXd> factor_;  // of WᵀAW
  Eigen::VectorXd weights_;
  double smallest_quotient_ = std::numeric_limits<double>::quiet_NaN();
};

template <Vector V>
void RecycledSpace<V>::allocate(const V& like) {
  if (!space_.empty() && Space<V>::size(space_[0]) == Space<V>::size(like)) return;
  held_ = 0;
  for (auto* family : {&space_, &images_, &directions_, &direction_images_}) family->clear();
  for (std::size_t i = 0; i < vectors_; ++i) {
    space_.push_back(Space<V>::zeros_like(like));
    images_.push_back(Space<V>::zeros_like(like));
  }
  for (std::size_t i = 0; i < window_; ++i) {
    directions_.push_back(Space<V>::zeros_like(like));
    direction_images_.push_back(Space<V>::zeros_like(like));
  }
}

template <Vector V>
void RecycledSpace<V>::begin(LinearRun<V>& run) {
  allocate(run.x());
  observed_ = 0;
  smallest_quotient_ = std::numeric_limits<double>::quiet_NaN();
  const Index k = columns();
  if (k == 0) return;
  const double level = rounding_level(run.x());
  const auto abandon = [&] { held_ = 0; };
  Eigen::MatrixXd projected(k, k);
  for (Index j = 0; j < k; ++j) {
    V &w = space_[static_cast<std::size_t>(j)], &image = images_[static_cast<std::size_t>(j)];
    run.apply(w, image);
    const double quotient = Space<V>::dot(w, image), stretch = norm(image), square = Space<V>::dot(w, w);
    if (!std::isfinite(stretch)) {
      abandon();
      return run.stop_not_finite(fmt::format("the product with recycled vector {}", j));
    }
    if (quotient < -level * stretch) {
      run.solution().smallest_ritz = quotient / square;
      return run.stop(Status::negative_curvature,
                      fmt::format("wᵀAw/wᵀw = {:.6g} for recycled vector {}: A is not positive definite",
                                  quotient / square, j));
    }
    if (quotient <= level * stretch) return abandon();
    smallest_quotient_ = std::fmin(smallest_quotient_, quotient / square);
    // To wᵀAw = 1, so that dependence shows in the eigenvalues of WᵀAW and scales do not.
    Space<V>::scale(1 / std::sqrt(quotient), w);
    Space<V>::scale(1 / std::sqrt(quotient), image);
    for (Index i = 0; i <= j; ++i)
      projected(i, j) = projected(j, i) = Space<V>::dot(space_[static_cast<std::size_t>(i)], image);
  }
  const double smallest =
      Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(projected, Eigen::EigenvaluesOnly).eigenvalues()[0];
  if (smallest < -std::sqrt(level))
    return run.stop(
        Status::negative_curvature,
        fmt::format("WᵀAW with a unit diagonal has the eigenvalue {:.6g} on {} recycled vectors: A "
                    "is not positive definite",
                    smallest, k));
  if (smallest < std::sqrt(level)) return abandon();
  factor_.compute(projected);
  weights_.resize(k);
}

template <Vector V>
void RecycledSpace<V>::correct(V& x, V& r) {
  if (held_ == 0) return;
  for (std::size_t i = 0; i < held_; ++i) weights_[static_cast<Index>(i)] = Space<V>::dot(space_[i], r);
  factor_.solveInPlace(weights_);
  for (std::size_t i = 0; i < held_; ++i) {
    Space<V>::axpy(weights_[static_cast<Index>(i)], space_[i], x);
    Space<V>::axpy(-weights_[static_cast<Index>(i)], images_[i], r);
  }
}

template <Vector V>
void RecycledSpace<V>::project(const V& z, V& p) {
  if (held_ == 0) return;
  for (std::size_t i = 0; i < held_; ++i) weights_[static_cast<Index>(i)] = Space<V>::dot(images_[i], z);
  factor_.solveInPlace(weights_);
  for (std::size_t i = 0; i < held_; ++i) Space<V>::axpy(-weights_[static_cast<Index>(i)], space_[i], p);
}

template <Vector V>
void RecycledSpace<V>::observe(const V& p, const V& product) {
  if (observed_ == window_) return;
  Space<V>::copy(p, directions_[observed_]);
  Space<V>::copy(product, direction_images_[observed_]);
  ++observed_;
}

template <Vector V>
void RecycledSpace<V>::harvest() {
  using Eigensolver = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;
  if (observed_ == 0) return;
  const std::size_t count = held_ + observed_;
  const auto m = static_cast<Index>(count);
  Eigen::MatrixXd energy(m, m), images(m, m);  // ZᵀAZ and (AZ)ᵀAZ with Z = (W, directions)
  for (Index j = 0; j < m; ++j)
    for (Index i = 0; i <= j; ++i) {
      const V& image = product(static_cast<std::size_t>(j));
      energy(i, j) = energy(j, i) = Space<V>::dot(column(static_cast<std::size_t>(i)), image);
      images(i, j) = images(j, i) = Space<V>::dot(product(static_cast<std::size_t>(i)), image);
    }
  if (!(energy.diagonal().minCoeff() > 0) || !energy.allFinite() || !images.allFinite()) return;
  const Eigen::VectorXd scale = energy.diagonal().array().rsqrt();
  const Eigensolver conjugate(scale.asDiagonal() * energy * scale.asDiagonal());
  // Directions lose their conjugacy as the solve goes on; what depends on the others is left out.
  const double least = std::sqrt(rounding_level(space_[0]));
  const Index kept = (conjugate.eigenvalues().array() > least).count();
  const Eigen::MatrixXd basis =
      scale.asDiagonal() * conjugate.eigenvectors().rightCols(kept) *
      conjugate.eigenvalues().tail(kept).cwiseInverse().cwiseSqrt().asDiagonal();  // of unit energy
  const Eigensolver harmonic(basis.transpose() * images * basis);
  const std::size_t chosen = std::min(vectors_, static_cast<std::size_t>(kept));
  const Eigen::MatrixXd weights = basis * harmonic.eigenvectors().leftCols(static_cast<Index>(chosen));

  // A·W belongs to this solve's A and has served: its storage takes the new W.
  for (std::size_t j = 0; j < chosen; ++j) {
    V& made = images_[j];
    Space<V>::scale(0, made);
    for (std::size_t i = 0; i < count; ++i)
      Space<V>::axpy(weights(static_cast<Index>(i), static_cast<Index>(j)), column(i), made);
    const double length = norm(made);
    if (length > 0) Space<V>::scale(1 / length, made);
  }
  std::swap(space_, images_);
  held_ = chosen;
}

extern template class RecycledSpace<Eigen::VectorXd>;
extern template class RecycledSpace<Eigen::VectorXf>;

}  // namespace bilevel
