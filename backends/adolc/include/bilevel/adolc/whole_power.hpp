#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include <adolc/adolc.h>

namespace bilevel::adolc {

/// x to a whole exponent ≥ 2, by repeated squares.
inline adub whole_power(const badouble& x, unsigned exponent) {
  if (exponent == 2) return x * x;
  if (exponent % 2 != 0) {
    const adouble even = whole_power(x, exponent - 1);
    return even * x;
  }
  const adouble half = whole_power(x, exponent / 2);
  return half * half;
}

}  // namespace bilevel::adolc

/// ADOL-C's second derivative of pow(x, 4) at zero is 2, and that of every higher whole power; its first of
/// pow(x, 1) is 0, of pow(x, 0) NaN. So these are recorded as products. Beside ADOL-C's own, and a better
/// match for what it records with, so that `pow` in a loss finds it.
template <std::derived_from<badouble> Number, class Exponent>
requires std::is_arithmetic_v<Exponent> adub pow(const Number& x, Exponent exponent) {
  const badouble& base = x;
  const double power = static_cast<double>(exponent);
  if (power >= 2 && power <= std::numeric_limits<int>::max() && power == std::floor(power))
    return bilevel::adolc::whole_power(base, static_cast<unsigned>(power));
  if (power == 1) return 1.0 * base;
  if (power == 0) return 0.0 * base + 1.0;
  return pow(base, power);
}
