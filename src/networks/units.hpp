#pragma once

#include <cmath>
#include <complex>

#include <bilevel/networks/architecture.hpp>

#include "problems/complex_functions.hpp"

namespace bilevel::networks {

/// ρ and its first two derivatives at one u.
template <class T>
struct UnitValue {
  T value, slope, curvature;
};

template <class T>
UnitValue<T> unit_at(Activation activation, T u) {
  using std::exp;
  using std::tanh;
  constexpr bool real = std::is_floating_point_v<T>;
  if (activation == Activation::tanh) {
    T value;
    if constexpr (real)
      value = tanh(u);
    else
      value = problems::complex_tanh(u);
    const T slope = T(1) - value * value;
    return {value, slope, T(-2) * value * slope};
  }
  T value;
  if constexpr (real)
    value = T(1) / (T(1) + exp(-u));
  else
    value = problems::complex_logistic(u);
  const T slope = value * (T(1) - value);
  return {value, slope, slope * (T(1) - T(2) * value)};
}

/// c(u) = u·ρ(u) − ∫ρ, what a smooth unit of a Hopfield network costs.
inline double unit_cost(Activation activation, double u) {
  const double magnitude = std::abs(u),
               decayed = std::exp(activation == Activation::tanh ? -2 * magnitude : -magnitude);
  if (activation == Activation::tanh)
    return u * std::tanh(u) - (magnitude + std::log1p(decayed) - std::log(2.0));
  return u / (1 + std::exp(-u)) - (std::max(u, 0.0) + std::log1p(decayed));
}

}  // namespace bilevel::networks
