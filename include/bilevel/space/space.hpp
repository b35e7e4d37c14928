#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace bilevel {

using Index = std::ptrdiff_t;

/// What a vector must be able to do: specialise this for a vector type V and every algorithm of
/// the library runs on it. Scalars cross the border as double whatever V holds.
///
///   Scalar                       float or double: what one element is stored as
///   dot(x, y)                    Σ x_i y_i, accumulated in double, in an order fixed by the sizes
///   axpy(a, x, y)                y += a·x
///   scale(a, x)                  x *= a; a = 0 writes zeros even over NaN
///   fill(a, x)                   x_i = a
///   unit(j, x)                   x_j = 1 and zeros elsewhere, j in the order of to_host
///   copy(x, y)                   y = x; no allocation when the shapes agree
///   zeros_like(x)                a new vector of x's shape
///   multiply(x, y), divide(x, y) y_i *= x_i, y_i /= x_i
///   sqrt(x)                      x_i = √x_i
///   clamp(lower, upper, x)       x_i into [lower_i, upper_i]
///   max_abs(x)                   max |x_i|; NaN if any element is NaN; 0 for an empty vector
///   random(seed, x)              standard normal elements, the same for the same seed and shape
///   size(x)                      number of elements
///   to_host(x, p), from_host(p, x)  size(x) doubles, in an order that both agree on
///
/// Nothing else is asked for. Algorithms keep their vectors in V: to_host and from_host are for θ and its
/// gradient, for what is factored as a whole matrix, and for files. C++ copies may share their elements, as
/// tensors' do: an algorithm that wants storage of its own calls zeros_like or duplicate, and an oracle
/// writes into the vectors it is given.
template <class V>
struct Space;

template <class V>
concept Vector = std::semiregular<V> &&
    requires(const V& x, V& y, double a, Index j, std::uint64_t seed, double* host) {
  typename Space<V>::Scalar;
  { Space<V>::dot(x, x) } -> std::same_as<double>;
  Space<V>::axpy(a, x, y);
  Space<V>::scale(a, y);
  Space<V>::fill(a, y);
  Space<V>::unit(j, y);
  Space<V>::copy(x, y);
  { Space<V>::zeros_like(x) } -> std::same_as<V>;
  Space<V>::multiply(x, y);
  Space<V>::divide(x, y);
  Space<V>::sqrt(y);
  Space<V>::clamp(x, x, y);
  { Space<V>::max_abs(x) } -> std::same_as<double>;
  Space<V>::random(seed, y);
  { Space<V>::size(x) } -> std::convertible_to<Index>;
  Space<V>::to_host(x, host);
  Space<V>::from_host(host, y);
};

/// A copy with elements of its own.
template <Vector V>
V duplicate(const V& x) {
  V y = Space<V>::zeros_like(x);
  Space<V>::copy(x, y);
  return y;
}

/// ‖x‖₂, also where its square would leave the range of double. An object, not a function: a function of that
/// name beside the vector's own type, as tensors have one, is then not taken for it.
struct Norm {
  template <Vector V>
  double operator()(const V& x) const {
    const double square = Space<V>::dot(x, x);
    if (square >= 1e-280 && square <= 1e300) return std::sqrt(square);
    const double largest = Space<V>::max_abs(x);
    if (largest == 0 || !std::isfinite(largest)) return largest;
    // Twice by the root of the scale: 1/largest itself may overflow.
    V scaled = duplicate(x);
    const double factor = 1 / std::sqrt(largest);
    Space<V>::scale(factor, scaled);
    Space<V>::scale(factor, scaled);
    return largest * std::sqrt(Space<V>::dot(scaled, scaled));
  }
};
inline constexpr Norm norm;

template <Vector V>
bool all_finite(const V& x) {
  return std::isfinite(Space<V>::max_abs(x));
}

/// u: half the spacing of V's numbers at 1, the largest relative error of one rounding.
template <Vector V>
constexpr double unit_roundoff() {
  return sizeof(typename Space<V>::Scalar) == 4 ? 0x1p-24 : 0x1p-53;
}

/// Bytes of the elements of x.
template <Vector V>
std::size_t bytes_of(const V& x) {
  return static_cast<std::size_t>(Space<V>::size(x)) * sizeof(typename Space<V>::Scalar);
}

}  // namespace bilevel
