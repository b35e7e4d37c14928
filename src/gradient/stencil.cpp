#include <bilevel/gradient/stencil.hpp>

#include <cmath>
#include <numeric>

#include <bilevel/outcome/violations.hpp>

namespace bilevel {
namespace {

Fraction reduced(std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t divisor = std::gcd(numerator, denominator);
  return {numerator / divisor, denominator / divisor};
}

}  // namespace

Stencil Stencil::forward(int points) {
  if (points < least_points || points > most_points)
    throw InvalidInput(
        fmt::format("stencil: {} points; a forward stencil has {} to {}", points, least_points, most_points));
  // The derivative at 0 of Lagrange's polynomials on 0 … n: α_i = (−1)^(i−1) C(n, i)/i, and α_0 = −Σ 1/i so
  // that constants vanish.
  const int n = points - 1;
  Stencil stencil;
  stencil.order_ = n;
  stencil.points_ = {0};
  stencil.fractions_.resize(1);
  Fraction harmonic;
  std::int64_t binomial = 1;
  for (int i = 1; i <= n; ++i) {
    binomial = binomial * (n - i + 1) / i;
    stencil.points_.push_back(i);
    stencil.fractions_.push_back(reduced(i % 2 == 1 ? binomial : -binomial, i));
    harmonic = reduced(harmonic.numerator * i + harmonic.denominator, harmonic.denominator * i);
  }
  stencil.fractions_[0] = {-harmonic.numerator, harmonic.denominator};
  return stencil;
}

Stencil Stencil::central() {
  Stencil stencil;
  stencil.points_ = {-1, 1};
  stencil.fractions_ = {{-1, 2}, {1, 2}};
  stencil.order_ = 2;
  return stencil;
}

double Stencil::noise_gain() const {
  double sum = 0;
  for (const Fraction& f : fractions_) sum += std::abs(f.value());
  return sum;
}

}  // namespace bilevel
