#pragma once

#include <cmath>
#include <complex>

namespace bilevel::problems {

// Functions of the ready-made losses continued to complex arguments. Large real parts neither overflow nor
// lose the imaginary part; at a pole the result is infinite or NaN, and near one it is as large as it should
// be.

/// tanh z = (sinh x cosh x + i sin y cos y) / (sinh² x + cos² y), z = x + iy.
inline std::complex<double> complex_tanh(std::complex<double> z) {
  const double x = z.real(), y = z.imag(), sine = std::sin(y), cosine = std::cos(y);
  // Beyond 20 the denominator is e^{2|x|}/4 to the last digit.
  if (std::abs(x) > 20) return {std::copysign(1.0, x), 4 * sine * cosine * std::exp(-2 * std::abs(x))};
  const double hyperbolic = std::sinh(x);
  const double denominator = hyperbolic * hyperbolic + cosine * cosine;
  return {hyperbolic * std::cosh(x) / denominator, sine * cosine / denominator};
}

/// sech² z = 4q/(1 + q)² with q = exp(−2z), or exp(2z) where Re z < 0, so |q| ≤ 1.
inline std::complex<double> complex_sech_squared(std::complex<double> z) {
  const std::complex<double> q = std::exp(z.real() < 0 ? 2.0 * z : -2.0 * z);
  const std::complex<double> sum = 1.0 + q;
  return 4.0 * q / (sum * sum);
}

/// σ(z) = 1/(1 + exp(−z)), with poles at odd multiples of iπ.
inline std::complex<double> complex_logistic(std::complex<double> z) {
  const std::complex<double> q = std::exp(z.real() < 0 ? z : -z);
  return (z.real() < 0 ? q : std::complex<double>(1)) / (1.0 + q);
}

/// σ′(z) = σ(z)σ(−z) = q/(1 + q)².
inline std::complex<double> complex_logistic_slope(std::complex<double> z) {
  const std::complex<double> q = std::exp(z.real() < 0 ? z : -z);
  const std::complex<double> sum = 1.0 + q;
  return q / (sum * sum);
}

}  // namespace bilevel::problems
