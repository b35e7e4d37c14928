#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include <bilevel/space/space.hpp>

/// A vector whose copies share their elements, as tensors of machine-learning frameworks do: whoever relies
/// on the copy constructor for fresh storage is found out. Nothing of Eigen is needed to be a vector.
struct SharedVector {
  explicit SharedVector(std::size_t n = 0, double value = 0)
      : elements(std::make_shared<std::vector<double>>(n, value)) {}
  double& operator[](std::size_t i) { return (*elements)[i]; }
  double operator[](std::size_t i) const { return (*elements)[i]; }
  std::size_t size() const { return elements->size(); }

  std::shared_ptr<std::vector<double>> elements;
};

template <>
struct bilevel::Space<SharedVector> {
  using V = SharedVector;
  using Scalar = double;
  static double dot(const V& x, const V& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    return sum;
  }
  static void axpy(double a, const V& x, V& y) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] += a * x[i];
  }
  static void scale(double a, V& x) {
    for (double& e : *x.elements) e = a == 0 ? 0 : a * e;
  }
  static void copy(const V& x, V& y) { *y.elements = *x.elements; }
  static V zeros_like(const V& x) { return V(x.size()); }
  static void multiply(const V& x, V& y) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] *= x[i];
  }
  static void divide(const V& x, V& y) {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] /= x[i];
  }
  static void sqrt(V& x) {
    for (double& e : *x.elements) e = std::sqrt(e);
  }
  static void clamp(const V& lower, const V& upper, V& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::min(std::max(x[i], lower[i]), upper[i]);
  }
  static double max_abs(const V& x) {
    double largest = 0;
    for (double e : *x.elements) {
      if (std::isnan(e)) return e;
      largest = std::max(largest, std::abs(e));
    }
    return largest;
  }
  static void random(std::uint64_t seed, V& x) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    for (double& e : *x.elements) e = normal(engine);
  }
  static Index size(const V& x) { return static_cast<Index>(x.size()); }
  static void to_host(const V& x, double* host) { std::ranges::copy(*x.elements, host); }
  static void from_host(const double* host, V& x) { std::copy_n(host, x.size(), x.elements->begin()); }
};

static_assert(bilevel::Vector<SharedVector>);
