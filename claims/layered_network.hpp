#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "laboratory.hpp"

namespace claims::layered {

inline const std::vector<Index> widths{3, 5, 4, 2};
inline constexpr std::size_t layers = 3;

/// Weights and biases as views into θ.
struct Layer {
  Eigen::Map<const Mat> weights;
  Eigen::Map<const Vec> biases;
};

inline Index parameters() {
  Index count = 0;
  for (std::size_t l = 0; l < layers; ++l) count += widths[l + 1] * (widths[l] + 1);
  return count;
}

inline Layer layer(const Vec& theta, std::size_t l) {
  Index at = 0;
  for (std::size_t k = 0; k < l; ++k) at += widths[k + 1] * (widths[k] + 1);
  const Index rows = widths[l + 1], columns = widths[l];
  return {{theta.data() + at, rows, columns}, {theta.data() + at + rows * columns, rows}};
}

/// θ's shape again, layer by layer.
class Stack {
 public:
  explicit Stack(Vec& out) : out_(out) {}
  void push(const Mat& weights, const Vec& biases) {
    out_.segment(at_, weights.size()) = weights.reshaped();
    out_.segment(at_ + weights.size(), biases.size()) = biases;
    at_ += weights.size() + biases.size();
  }

 private:
  Vec& out_;
  Index at_ = 0;
};

/// A feed-forward network of tanh units, 3-5-4-2, as the minimum of the predictive-coding energy
///   E = ½‖φ⁰ − x‖² + ½Σ‖φ^(l+1) − tanh(W^l φ^l + b^l)‖²,   C = ½‖φ^L − y‖².
struct Network {
  Vec x, y;
  bool free_input = false;  ///< whether φ⁰ is part of φ

  Index size() const { return (free_input ? 3 : 0) + 11; }
  /// φ⁰ … φ^L; a direction has zero in place of a clamped input.
  std::vector<Vec> activity(const Vec& phi, bool direction = false) const {
    std::vector<Vec> a;
    if (!free_input) a.push_back(direction ? Vec(Vec::Zero(3)) : x);
    Index at = 0;
    for (std::size_t l = free_input ? 0 : 1; l <= layers; at += widths[l++])
      a.push_back(phi.segment(at, widths[l]));
    return a;
  }
  void join(const std::vector<Vec>& parts, Vec& out) const {
    Index at = 0;
    for (std::size_t l = free_input ? 0 : 1; l <= layers; at += widths[l++])
      out.segment(at, widths[l]) = parts[l];
  }
  Vec forward(const Vec& theta) const {
    std::vector<Vec> a{x};
    for (std::size_t l = 0; l < layers; ++l) {
      const auto [w, b] = layer(theta, l);
      a.push_back((w * a[l] + b).array().tanh());
    }
    Vec phi(size());
    join(a, phi);
    return phi;
  }

  double energy(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) const {
    const std::vector<Vec> a = activity(phi);
    std::vector<Vec> slope{a[0] - x};
    double value = 0.5 * slope[0].squaredNorm();
    Vec unused;
    Stack stack(wanted.theta ? *wanted.theta : unused);
    for (std::size_t l = 0; l < layers; ++l) {
      const auto [w, b] = layer(theta, l);
      const Vec unit = (w * a[l] + b).array().tanh(), error = a[l + 1] - unit;
      const Vec pulled = error.array() * (1 - unit.array().square());
      slope[l] -= w.transpose() * pulled;
      slope.push_back(error);
      value += 0.5 * error.squaredNorm();
      if (wanted.theta) stack.push(-pulled * a[l].transpose(), -pulled);
    }
    if (wanted.phi) join(slope, *wanted.phi);
    return value;
  }

  /// Derivatives of ∂φE and ∂θE along (v, u); either direction and either result may be left out.
  void bend(const Vec& phi, const Vec& theta, const Vec* v, const Vec* u, Vec* phi_out,
            Vec* theta_out) const {
    const std::vector<Vec> a = activity(phi), da = activity(v ? *v : Vec(Vec::Zero(size())), true);
    std::vector<Vec> change{da[0]};
    Vec unused;
    Stack stack(theta_out ? *theta_out : unused);
    for (std::size_t l = 0; l < layers; ++l) {
      const auto [w, b] = layer(theta, l);
      const Vec unit = (w * a[l] + b).array().tanh(), error = a[l + 1] - unit;
      const Vec gain = 1 - unit.array().square();
      Vec input = w * da[l];
      if (u) input += layer(*u, l).weights * a[l] + layer(*u, l).biases;
      const Vec error_change = da[l + 1] - Vec(gain.array() * input.array());
      const Vec pulled = error.cwiseProduct(gain);
      const Vec pulled_change = gain.array() * error_change.array() -
                                2 * unit.array() * gain.array() * input.array() * error.array();
      change[l] -= w.transpose() * pulled_change;
      if (u) change[l] -= layer(*u, l).weights.transpose() * pulled;
      change.push_back(error_change);
      if (theta_out)
        stack.push(-pulled_change * a[l].transpose() - pulled * da[l].transpose(), -pulled_change);
    }
    if (phi_out) join(change, *phi_out);
  }

  /// ∂θ C by backpropagation.
  Vec backpropagation(const Vec& theta) const {
    const std::vector<Vec> a = activity(forward(theta));
    std::vector<std::pair<Mat, Vec>> gradients(layers);
    Vec back = a[layers] - y;
    for (std::size_t l = layers; l-- > 0;) {
      back = Vec(back.array() * (1 - a[l + 1].array().square()));
      gradients[l] = {back * a[l].transpose(), back};
      back = Vec(layer(theta, l).weights.transpose() * back);
    }
    Vec out(theta.size());
    Stack stack(out);
    for (const auto& [weights, biases] : gradients) stack.push(weights, biases);
    return out;
  }

  auto problem(const Vec& theta) const {
    bilevel::Functions<Vec> f;
    f.initial_phi = [n = size()]() -> Vec { return Vec::Zero(n); };
    f.initial_theta = [theta] { return theta; };
    f.inner = [*this](const Vec& phi, const Vec& t, bilevel::Wanted<Vec> wanted) {
      return energy(phi, t, wanted);
    };
    f.outer = [*this](const Vec& phi, const Vec&, bilevel::Wanted<Vec> wanted) {
      const Vec d = phi.tail(2) - y;
      if (wanted.phi) wanted.phi->setZero(), wanted.phi->tail(2) = d;
      if (wanted.theta) wanted.theta->setZero();
      return 0.5 * d.squaredNorm();
    };
    f.hessian_times = [*this](const Vec& phi, const Vec& t, double beta, const Vec& v, Vec& out) {
      bend(phi, t, &v, nullptr, &out, nullptr);
      out.tail(2) += beta * v.tail(2);
    };
    f.cross_times = [*this](const Vec& phi, const Vec& t, double, const Vec& v, Vec& out) {
      bend(phi, t, &v, nullptr, nullptr, &out);
    };
    f.cross_apply = [*this](const Vec& phi, const Vec& t, double, const Vec& u, Vec& out) {
      bend(phi, t, nullptr, &u, &out, nullptr);
    };
    return bilevel::make_problem<Vec>(f);
  }
};

}  // namespace claims::layered
