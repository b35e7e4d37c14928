#pragma once

#include <vector>

#include <bilevel/networks/architecture.hpp>

namespace bilevel::networks {

/// θ as the energies see it: E = ½Σ_k D_k·u_k² − Σ_k s_kᵀ(W_k s_{k−1} + b_k) for Hopfield and resistive
/// networks; predictive coding has W_k and b_k alone. Linear in θ but for the D = 1 of Hopfield networks.
template <class T>
struct Couplings {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

  std::vector<Matrix> w;  ///< w[k − 1] is W_k
  std::vector<Vector> b, d;

  explicit Couplings(const Architecture& a) {
    for (Index k = 1; k <= a.depth(); ++k) {
      w.push_back(Matrix::Zero(a.width(k), a.width(k - 1)));
      b.push_back(Vector::Zero(a.width(k)));
      d.push_back(Vector::Zero(a.width(k)));
    }
  }

  /// Their values at θ. With `direction` θ is a change of parameters, and these are the changes.
  template <class Theta>
  void set(const Architecture& a, const Theta& theta, bool direction = false) {
    using Parameters =
        Eigen::Map<const Eigen::Matrix<typename Theta::Scalar, Eigen::Dynamic, Eigen::Dynamic>>;
    for (Index k = 1; k <= a.depth(); ++k) {
      const LayerParameters p = a.layer(k);
      const auto i = static_cast<std::size_t>(k - 1);
      const Parameters weights(theta.data() + p.weights, p.units, p.inputs),
          bias(theta.data() + p.bias, p.units, 1);
      if (!a.resistive()) {
        w[i] = weights.template cast<T>();
        b[i] = bias.col(0).template cast<T>();
        d[i].setConstant(direction ? T(0) : T(1));
        continue;
      }
      const auto gain = static_cast<T>(a.gain_into(k));
      const Parameters negative(theta.data() + p.bias + p.units, p.units, 1);
      b[i] = static_cast<T>(a.rail(k)) * (bias.col(0) - negative.col(0)).template cast<T>();
      d[i] = (bias.col(0) + negative.col(0)).template cast<T>();
      if (!direction) d[i].array() += static_cast<T>(Architecture::leak);
      // Column by column, everything at once: these are the largest arrays of a circuit.
      const Parameters opposite(theta.data() + p.opposite, p.units, k == 1 ? p.inputs : 0);
      for (Index j = 0; j < p.inputs; ++j) {
        const auto each = weights.col(j).template cast<T>();
        if (k == 1) {
          const auto other = opposite.col(j).template cast<T>();
          w[i].col(j) = gain * (each - other);
          d[i] += each + other;
        } else {
          w[i].col(j) = gain * each;
          d[i] += each;
          d[i - 1][j] += gain * gain * each.sum();
        }
      }
    }
  }

  /// The transpose of `set`: derivatives with respect to W, b and D, here, become those with respect to θ.
  void pull_back(const Architecture& a, Vector& theta) const {
    for (Index k = 1; k <= a.depth(); ++k) {
      const LayerParameters p = a.layer(k);
      const auto i = static_cast<std::size_t>(k - 1);
      Eigen::Map<Matrix> weights(theta.data() + p.weights, p.units, p.inputs);
      if (!a.resistive()) {
        weights = w[i];
        theta.segment(p.bias, p.units) = b[i];
        continue;
      }
      const auto gain = static_cast<T>(a.gain_into(k)), rail = static_cast<T>(a.rail(k));
      weights = gain * w[i];
      weights.colwise() += d[i];
      if (k == 1) {
        Eigen::Map<Matrix> opposite(theta.data() + p.opposite, p.units, p.inputs);
        opposite = -gain * w[i];
        opposite.colwise() += d[i];
      } else {
        weights.rowwise() += gain * gain * d[i - 1].transpose();
      }
      theta.segment(p.bias, p.units) = rail * b[i] + d[i];
      theta.segment(p.bias + p.units, p.units) = -rail * b[i] + d[i];
    }
  }
};

}  // namespace bilevel::networks
