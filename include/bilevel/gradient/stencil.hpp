#pragma once

#include <cstdint>
#include <vector>

namespace bilevel {

/// A rational number in lowest terms, the denominator positive.
struct Fraction {
  std::int64_t numerator = 0;
  std::int64_t denominator = 1;

  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  bool operator==(const Fraction&) const = default;
};

/// Finite differences of a function of β: β·f′(0) ≈ Σ α_i f(iβ), with exact coefficients.
class Stencil {
 public:
  static constexpr int least_points = 2, most_points = 8;

  /// The points 0 … p−1, exact for polynomials of degree p−1: Σ α_i i^k = [k = 1] for k = 0 … p−1. The bias
  /// of the derivative is O(β^(p−1)). Throws InvalidInput unless p lies in 2 … 8: beyond, noise is multiplied
  /// by more than 70 and nothing is won.
  static Stencil forward(int points);
  /// The points −1 and 1; bias O(β²).
  static Stencil central();

  const std::vector<int>& points() const { return points_; }
  const std::vector<Fraction>& fractions() const { return fractions_; }
  double coefficient(std::size_t i) const { return fractions_[i].value(); }
  int order() const { return order_; }  ///< q: the bias is O(β^q)
  double noise_gain() const;            ///< Σ|α_i|: how much errors of the values can grow, before 1/β

 private:
  std::vector<int> points_;
  std::vector<Fraction> fractions_;
  int order_ = 0;
};

}  // namespace bilevel
