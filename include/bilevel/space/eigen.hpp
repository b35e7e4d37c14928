#pragma once

#include <cmath>
#include <random>

#include <Eigen/Core>

#include <bilevel/space/space.hpp>

namespace bilevel {

/// Dense column vectors of double or float.
template <class S>
requires std::same_as<S, double> || std::same_as<S, float>
struct Space<Eigen::Matrix<S, Eigen::Dynamic, 1>> {
  using V = Eigen::Matrix<S, Eigen::Dynamic, 1>;
  using Scalar = S;

  static double dot(const V& x, const V& y) {
    if constexpr (std::same_as<S, double>) {
      return x.dot(y);
    } else {
      return x.template cast<double>().dot(y.template cast<double>());
    }
  }
  static void axpy(double a, const V& x, V& y) { y.noalias() += static_cast<S>(a) * x; }
  static void scale(double a, V& x) {
    if (a == 0) {
      x.setZero();
    } else {
      x *= static_cast<S>(a);
    }
  }
  static void fill(double a, V& x) { x.setConstant(static_cast<S>(a)); }
  static void unit(Index j, V& x) {
    x.setZero();
    x[j] = 1;
  }
  static void copy(const V& x, V& y) { y = x; }
  static V zeros_like(const V& x) { return V::Zero(x.size()); }
  static void multiply(const V& x, V& y) { y.array() *= x.array(); }
  static void divide(const V& x, V& y) { y.array() /= x.array(); }
  // Not Eigen's: its vectors of floats start from the processor's own guess, and round as that does.
  static void sqrt(V& x) {
    x = x.unaryExpr([](S each) { return std::sqrt(each); });
  }
  static void clamp(const V& lower, const V& upper, V& x) { x = x.cwiseMax(lower).cwiseMin(upper); }
  static double max_abs(const V& x) {
    return x.size() == 0 ? 0.0 : static_cast<double>(x.cwiseAbs().template maxCoeff<Eigen::PropagateNaN>());
  }
  static void random(std::uint64_t seed, V& x) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    for (Index i = 0; i < x.size(); ++i) x[i] = static_cast<S>(normal(engine));
  }
  static Index size(const V& x) { return x.size(); }
  static void to_host(const V& x, double* host) {
    Eigen::Map<Eigen::VectorXd>(host, x.size()) = x.template cast<double>();
  }
  static void from_host(const double* host, V& x) {
    x = Eigen::Map<const Eigen::VectorXd>(host, x.size()).template cast<S>();
  }
};

static_assert(Vector<Eigen::VectorXd> && Vector<Eigen::VectorXf>);

/// The elements of x, whatever V is, as doubles in host memory.
template <Vector V>
Eigen::VectorXd host_copy(const V& x) {
  Eigen::VectorXd host(Space<V>::size(x));
  Space<V>::to_host(x, host.data());
  return host;
}

}  // namespace bilevel
