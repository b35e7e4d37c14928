#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <bilevel/impl.hpp>
#include <bilevel/space/space.hpp>

namespace bilevel::conformance {

/// A vector that is nothing like Eigen's: a list of parameter blocks behind an opaque handle,
/// whose C++ copies share their elements as tensors' do. Whoever asks more of a vector than Space offers does
/// not compile with it; whoever takes a C++ copy for fresh storage computes nonsense with it.
class BlockVector {
 public:
  BlockVector() : blocks_(std::make_shared<Blocks>()) {}
  /// Blocks of at most three elements.
  explicit BlockVector(Index size) : BlockVector() {
    for (Index left = size; left > 0; left -= 3)
      blocks_->emplace_back(static_cast<std::size_t>(std::min<Index>(left, 3)), 0.0);
  }

 private:
  using Blocks = std::vector<std::vector<double>>;
  std::shared_ptr<Blocks> blocks_;
  friend struct Space<BlockVector>;
};

}  // namespace bilevel::conformance

template <>
struct bilevel::Space<bilevel::conformance::BlockVector> {
  using V = bilevel::conformance::BlockVector;
  using Scalar = double;

  static double dot(const V& x, const V& y) {
    double sum = 0;
    both(x, y, [&](double a, double& b) { sum += a * b; });
    return sum;
  }
  static void axpy(double a, const V& x, V& y) {
    both(x, y, [&](double e, double& f) { f += a * e; });
  }
  static void scale(double a, V& x) {
    each(x, [&](double& e) { e = a == 0 ? 0 : a * e; });
  }
  static void fill(double a, V& x) {
    each(x, [&](double& e) { e = a; });
  }
  static void unit(Index j, V& x) {
    each(x, [&](double& e) { e = j-- == 0 ? 1 : 0; });
  }
  static void copy(const V& x, V& y) {
    both(x, y, [](double e, double& f) { f = e; });
  }
  static V zeros_like(const V& x) { return V(size(x)); }
  static void multiply(const V& x, V& y) {
    both(x, y, [](double e, double& f) { f *= e; });
  }
  static void divide(const V& x, V& y) {
    both(x, y, [](double e, double& f) { f /= e; });
  }
  static void sqrt(V& x) {
    each(x, [](double& e) { e = std::sqrt(e); });
  }
  static void clamp(const V& lower, const V& upper, V& x) {
    both(lower, x, [](double e, double& f) { f = std::max(e, f); });
    both(upper, x, [](double e, double& f) { f = std::min(e, f); });
  }
  static double max_abs(const V& x) {
    double largest = 0;
    each(x, [&](double e) {
      largest = std::isnan(e) || std::isnan(largest) ? std::nan("") : std::max(largest, std::abs(e));
    });
    return largest;
  }
  static void random(std::uint64_t seed, V& x) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    each(x, [&](double& e) { e = normal(engine); });
  }
  static Index size(const V& x) {
    Index n = 0;
    for (const auto& block : *x.blocks_) n += static_cast<Index>(block.size());
    return n;
  }
  static void to_host(const V& x, double* host) {
    each(x, [&](double e) { *host++ = e; });
  }
  static void from_host(const double* host, V& x) {
    each(x, [&](double& e) { e = *host++; });
  }

 private:
  template <class F>
  static void each(const V& x, F f) {
    for (auto& block : *x.blocks_)
      for (double& e : block) f(e);
  }
  template <class F>
  static void both(const V& x, const V& y, F f) {
    for (std::size_t b = 0; b < y.blocks_->size(); ++b)
      for (std::size_t i = 0; i < (*y.blocks_)[b].size(); ++i)
        f((*x.blocks_).at(b).at(i), (*y.blocks_)[b][i]);
  }
};

namespace bilevel::conformance {

/// Zeros of n elements; specialise it for what is not made of a number.
template <Vector V>
struct Shaped {
  static V zeros(Index n) {
    if constexpr (requires { V::Zero(n); })
      return V::Zero(n);
    else
      return V(n);
  }
};
template <Vector V>
V shaped(Index n) {
  return Shaped<V>::zeros(n);
}

}  // namespace bilevel::conformance
