#pragma once

#include <utility>

#include <bilevel/impl.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::conformance {

/// A vector that lives somewhere else, as on a device: it counts how often its elements cross to the host and
/// back.
struct CrossingVector {
  CrossingVector() = default;
  explicit CrossingVector(Eigen::VectorXd numbers) : elements(std::move(numbers)) {}

  Eigen::VectorXd elements;  ///< for oracles, which run where the vector is

  inline static long to_host = 0, from_host = 0;
};

}  // namespace bilevel::conformance

template <>
struct bilevel::Space<bilevel::conformance::CrossingVector> {
  using V = bilevel::conformance::CrossingVector;
  using Scalar = double;
  using Host = bilevel::Space<Eigen::VectorXd>;

  static double dot(const V& x, const V& y) { return Host::dot(x.elements, y.elements); }
  static void axpy(double a, const V& x, V& y) { Host::axpy(a, x.elements, y.elements); }
  static void scale(double a, V& x) { Host::scale(a, x.elements); }
  static void fill(double a, V& x) { Host::fill(a, x.elements); }
  static void unit(Index j, V& x) { Host::unit(j, x.elements); }
  static void copy(const V& x, V& y) { Host::copy(x.elements, y.elements); }
  static V zeros_like(const V& x) { return V(Host::zeros_like(x.elements)); }
  static void multiply(const V& x, V& y) { Host::multiply(x.elements, y.elements); }
  static void divide(const V& x, V& y) { Host::divide(x.elements, y.elements); }
  static void sqrt(V& x) { Host::sqrt(x.elements); }
  static void clamp(const V& lower, const V& upper, V& x) {
    Host::clamp(lower.elements, upper.elements, x.elements);
  }
  static double max_abs(const V& x) { return Host::max_abs(x.elements); }
  static void random(std::uint64_t seed, V& x) { Host::random(seed, x.elements); }
  static Index size(const V& x) { return Host::size(x.elements); }
  static void to_host(const V& x, double* host) {
    ++V::to_host;
    Host::to_host(x.elements, host);
  }
  static void from_host(const double* host, V& x) {
    ++V::from_host;
    Host::from_host(host, x.elements);
  }
};
