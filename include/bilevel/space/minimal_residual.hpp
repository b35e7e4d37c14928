#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Relative size below which an inner product of two of V's vectors is rounding: the error of a sum
/// of n terms grows like √n·u when the single errors are independent.
template <Vector V>
double rounding_level(const V& x) {
  return 4 * std::sqrt(static_cast<double>(std::max<Index>(1, Space<V>::size(x)))) * unit_roundoff<V>();
}

/// The least ‖r − A·y‖ over y in a Krylov space that grows by one product at a time (Saad and Schultz 1986):
/// modified Gram–Schmidt, a second time where cancellation asks for it, and Givens rotations. It holds
/// `length` + 1 vectors and allocates nothing while it grows.
template <Vector V>
class MinimalResidual {
 public:
  MinimalResidual(const V& like, Index length)
      : triangle_(Eigen::MatrixXd::Zero(length + 1, length)),
        cosine_(Eigen::VectorXd::Zero(length)),
        sine_(Eigen::VectorXd::Zero(length)),
        rotated_(Eigen::VectorXd::Zero(length + 1)) {
    for (Index i = 0; i <= length; ++i) basis_.push_back(Space<V>::zeros_like(like));
  }

  /// Of r, whose norm is given.
  void begin(const V& residual, double size) {
    Space<V>::copy(residual, basis_[0]);
    Space<V>::scale(1 / size, basis_[0]);
    rotated_.setZero();
    rotated_[0] = size;
    size_ = 0;
    largest_ = 0;
  }
  Index length() const { return triangle_.cols(); }
  Index size() const { return size_; }
  /// The vector to multiply with A, and where the product goes.
  const V& last() const { return basis_[static_cast<std::size_t>(size_)]; }
  V& product() { return basis_[static_cast<std::size_t>(size_ + 1)]; }
  /// Takes the product in. False where nothing of it is left outside of the space but rounding, or where it
  /// is not finite: `stretch` is its norm.
  bool take(double& stretch) {
    const bool fresh = orthogonalise(stretch);
    if (!std::isfinite(stretch)) return false;
    largest_ = std::max(largest_, stretch);
    rotate();
    ++size_;
    return fresh;
  }
  /// The norm of r − A·y, in exact arithmetic.
  double claimed() const { return std::abs(rotated_[size_]); }
  /// A last pivot that is rounding belongs to a null direction of A, along which no step makes sense.
  double pivot() const { return size_ > 0 ? triangle_(size_ - 1, size_ - 1) : 0; }
  bool deficient() const { return size_ > 0 && pivot() <= rounding_level(basis_[0]) * largest_; }
  double largest() const { return largest_; }  ///< norm of any product
  /// Without its last direction; returns what the norm of the residual is then.
  double drop_last() {
    --size_;
    return std::hypot(rotated_[size_], rotated_[size_ + 1]);
  }
  /// x += y.
  void add_to(V& x) {
    for (Index i = size_ - 1; i >= 0; --i) {
      for (Index j = i + 1; j < size_; ++j) rotated_[i] -= triangle_(i, j) * rotated_[j];
      rotated_[i] /= triangle_(i, i);
      Space<V>::axpy(rotated_[i], basis_[static_cast<std::size_t>(i)], x);
    }
  }
  std::size_t bytes() const {
    const auto rows = static_cast<std::size_t>(length());
    return (rows + 1) * bytes_of(basis_[0]) + (rows + 1) * (rows + 3) * sizeof(double);
  }

 private:
  bool orthogonalise(double& length) {
    using S = Space<V>;
    V& next = product();
    length = norm(next);
    if (!std::isfinite(length)) return false;
    triangle_.col(size_).setZero();
    double left = length;
    for (int pass = 0; pass < 2; ++pass) {
      const double start = left;
      for (Index i = 0; i <= size_; ++i) {
        const V& v = basis_[static_cast<std::size_t>(i)];
        const double along = S::dot(v, next);
        S::axpy(-along, v, next);
        triangle_(i, size_) += along;
      }
      left = norm(next);
      // Little was lost to cancellation, so what is left is orthogonal; twice is enough (Kahan, Parlett).
      if (left > 0.7 * start) break;
    }
    if (left <= rounding_level(next) * length) return false;
    triangle_(size_ + 1, size_) = left;
    S::scale(1 / left, next);
    return true;
  }
  void rotate() {
    const Index k = size_;
    for (Index i = 0; i < k; ++i) {
      const double upper = triangle_(i, k), lower = triangle_(i + 1, k);
      triangle_(i, k) = cosine_[i] * upper + sine_[i] * lower;
      triangle_(i + 1, k) = cosine_[i] * lower - sine_[i] * upper;
    }
    const double upper = triangle_(k, k), lower = triangle_(k + 1, k);
    const double radius = std::hypot(upper, lower);
    cosine_[k] = radius > 0 ? upper / radius : 1;
    sine_[k] = radius > 0 ? lower / radius : 0;
    triangle_(k, k) = radius;
    triangle_(k + 1, k) = 0;
    rotated_[k + 1] = -sine_[k] * rotated_[k];
    rotated_[k] *= cosine_[k];
  }

  std::vector<V> basis_;           // one more than the length
  Eigen::MatrixXd triangle_;       // the Hessenberg matrix, rotated into R column by column
  Eigen::VectorXd cosine_, sine_;  // the rotations
  Eigen::VectorXd rotated_;        // ‖r‖·e_1, rotated; |g_k| is the residual norm after k steps
  Index size_ = 0;
  double largest_ = 0;
};

}  // namespace bilevel
