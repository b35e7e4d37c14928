#pragma once

#include <functional>

#include <bilevel/problem/adapter.hpp>

namespace bilevel {

/// A problem from lambdas: make_problem(Functions<V>{.initial_phi = …, .inner = …, .outer = …}). The first
/// four are needed; the others are as in Oracles, and an empty one is not offered.
template <Vector V>
struct Functions {
  std::function<V()> initial_phi;
  std::function<V()> initial_theta;
  std::function<double(const V& phi, const V& theta, Wanted<V>)> inner;
  std::function<double(const V& phi, const V& theta, Wanted<V>)> outer;
  std::function<void(const V& phi, const V& theta, double beta, const V& v, V& out)> hessian_times = {};
  std::function<void(const V& phi, const V& theta, double beta, const V& v, V& out)> cross_times = {};
  std::function<void(const V& phi, const V& theta, double beta, const V& u, V& out)> cross_apply = {};
  std::function<void(const V& phi, const V& theta, double beta, Eigen::MatrixXd& out)> dense = {};
  std::function<double(const V& phi, const V& theta, double beta)> cross_norm = {};
  std::function<Constants(const V& theta, const V& center, double radius)> constants = {};
  std::function<Rounding(const V& phi, const V& theta, const V& pi)> rounding = {};
  std::function<PhiConstraints()> phi_constraints = {};

  Violations validate() const {
    Violations v("functions");
    v.require(bool(initial_phi), "initial_phi", "(empty)", "must be set");
    v.require(bool(initial_theta), "initial_theta", "(empty)", "must be set");
    v.require(bool(inner), "inner", "(empty)", "must be set");
    v.require(bool(outer), "outer", "(empty)", "must be set");
    if (hessian_times || cross_times || cross_apply) {
      constexpr auto together = "must be set: hessian_times, cross_times and cross_apply, all three or none";
      v.require(bool(hessian_times), "hessian_times", "(empty)", together);
      v.require(bool(cross_times), "cross_times", "(empty)", together);
      v.require(bool(cross_apply), "cross_apply", "(empty)", together);
    }
    return v;
  }
};

/// An equilibrium from lambdas: a residual in place of an inner loss.
template <Vector V>
struct ResidualFunctions {
  std::function<V()> initial_phi;
  std::function<V()> initial_theta;
  std::function<void(const V& phi, const V& theta, V& out)> residual;
  std::function<double(const V& phi, const V& theta, Wanted<V>)> outer;
  std::function<void(const V& phi, const V& theta, double beta, const V& v, V& out)> hessian_times = {};
  std::function<void(const V& phi, const V& theta, double beta, const V& v, V& out)> hessian_transpose_times =
      {};
  std::function<void(const V& phi, const V& theta, double beta, const V& v, V& out)> cross_times = {};
  std::function<void(const V& phi, const V& theta, double beta, const V& u, V& out)> cross_apply = {};
  std::function<void(const V& phi, const V& theta, double beta, Eigen::MatrixXd& out)> dense = {};
  std::function<double(const V& phi, const V& theta, double beta)> cross_norm = {};
  std::function<Constants(const V& theta, const V& center, double radius)> constants = {};
  std::function<Rounding(const V& phi, const V& theta, const V& pi)> rounding = {};

  Violations validate() const {
    Violations v("functions");
    v.require(bool(initial_phi), "initial_phi", "(empty)", "must be set");
    v.require(bool(initial_theta), "initial_theta", "(empty)", "must be set");
    v.require(bool(residual), "residual", "(empty)", "must be set");
    v.require(bool(outer), "outer", "(empty)", "must be set");
    if (hessian_times || hessian_transpose_times || cross_times || cross_apply) {
      constexpr auto together =
          "must be set: hessian_times, hessian_transpose_times, cross_times and cross_apply, all four or "
          "none";
      v.require(bool(hessian_times), "hessian_times", "(empty)", together);
      v.require(bool(hessian_transpose_times), "hessian_transpose_times", "(empty)", together);
      v.require(bool(cross_times), "cross_times", "(empty)", together);
      v.require(bool(cross_apply), "cross_apply", "(empty)", together);
    }
    return v;
  }
};

}  // namespace bilevel
