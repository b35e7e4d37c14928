#pragma once

#include <cmath>
#include <complex>

#include "energy_at.hpp"

namespace bilevel::networks {

template <class T>
using Column = Eigen::Matrix<T, Eigen::Dynamic, 1>;

/// softmax(u), shifted by the largest real part so that nothing overflows.
template <class T, class U>
Column<T> softmax(const U& u) {
  const double shift = u.real().maxCoeff();
  Column<T> p = (u.array() - T(shift)).exp();
  p /= p.sum();
  return p;
}

/// L_out of one sample.
template <class U, class Y>
double cost(ReadOut read_out, const U& u, const Y& y) {
  if (read_out == ReadOut::squared) return 0.5 * static_cast<double>((u - y).squaredNorm());
  const auto shift = u.maxCoeff();
  return std::log(static_cast<double>((u.array() - shift).exp().sum())) +
         static_cast<double>(shift - y.dot(u));
}

template <class T, class U, class Y>
Column<T> cost_slope(ReadOut read_out, const U& u, const Y& y) {
  if (read_out == ReadOut::squared) return u - y.template cast<T>();
  return softmax<T>(u) - y.template cast<T>();
}

/// One sample a column: adds what their outputs cost, and counts those whose largest output is not where the
/// target's is.
template <class U, class Y>
void judge(ReadOut read_out, const U& u, const Y& y, double& costs, Index& wrong) {
  for (Index n = 0; n < u.cols(); ++n) {
    Index chosen = 0, meant = 0;
    const auto largest = u.col(n).maxCoeff(&chosen);
    y.col(n).maxCoeff(&meant);
    if (chosen != meant || !std::isfinite(largest)) ++wrong;
    costs += cost(read_out, u.col(n), y.col(n));
  }
}

/// h += β·∂²cost on the last rows and columns.
template <class T, class U>
void add_cost_hessian(ReadOut read_out, const U& u, T beta,
                   Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>& h) {
  const Index outputs = u.size();
  auto corner = h.bottomRightCorner(outputs, outputs);
  if (read_out == ReadOut::squared) {
    corner.diagonal().array() += beta;
    return;
  }
  const Column<T> p = softmax<T>(u);
  corner.diagonal() += beta * p;
  corner -= beta * p * p.transpose();
}

/// E of each sample.
inline Eigen::VectorXd energies_of(const Architecture& a, const EnergyAt<double>& energy,
                                   const Eigen::MatrixXd& inputs, const Eigen::VectorXd& phi,
                                   const Eigen::VectorXd& theta) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(energy.batch());
  for (Index i = 0, offset = 0; i < a.depth(); ++i) {
    const Eigen::MatrixXd& u = energy.state(i);
    const auto k = static_cast<std::size_t>(i);
    if (a.energy == Energy::predictive_coding) {
      sum += 0.5 * energy.force(i).colwise().squaredNorm().transpose();
    } else {
      const Eigen::MatrixXd drive =
          (energy.couplings().w[k] * energy.activity(i - 1)).colwise() + energy.couplings().b[k];
      sum -= drive.cwiseProduct(energy.activity(i)).colwise().sum().transpose();
      if (a.smooth() && i + 1 < a.depth())
        sum += u.unaryExpr([&](double v) { return unit_cost(a.activation, v); }).colwise().sum().transpose();
      else
        sum += 0.5 * (energy.couplings().d[k].asDiagonal() * u.cwiseAbs2()).colwise().sum().transpose();
    }
    const Eigen::Map<const Eigen::MatrixXd> raw(phi.data() + offset, u.rows(), u.cols());
    offset += u.size();
    if (a.bounded(i + 1)) sum += 0.5 * (raw - u).colwise().squaredNorm().transpose();
  }
  if (!a.resistive()) return sum;
  // What the sources hold: ½g(a·x)² of each conductance to an input, ½g·rail² of those to the rails.
  for (Index k = 1; k <= a.depth(); ++k) {
    const LayerParameters p = a.layer(k);
    sum.array() += 0.5 * a.rail(k) * a.rail(k) * theta.segment(p.bias, 2 * p.units).sum();
    if (k > 1) continue;
    const Eigen::Map<const Eigen::MatrixXd> plus(theta.data() + p.weights, p.units, p.inputs),
        minus(theta.data() + p.opposite, p.units, p.inputs);
    const Eigen::VectorXd total = (plus + minus).colwise().sum();
    sum += 0.5 * a.input_gain * a.input_gain * inputs.cwiseAbs2().transpose() * total;
  }
  return sum;
}

/// The same as derivatives with respect to the conductances, summed over the samples.
inline void add_source_energy(const Architecture& a, const Eigen::MatrixXd& inputs, Eigen::VectorXd& theta) {
  for (Index k = 1; k <= a.depth(); ++k) {
    const LayerParameters p = a.layer(k);
    theta.segment(p.bias, 2 * p.units).array() +=
        0.5 * a.rail(k) * a.rail(k) * static_cast<double>(inputs.cols());
    if (k > 1) continue;
    const Eigen::RowVectorXd held =
        0.5 * a.input_gain * a.input_gain * inputs.cwiseAbs2().rowwise().sum().transpose();
    for (const Index at : {p.weights, p.opposite})
      Eigen::Map<Eigen::MatrixXd>(theta.data() + at, p.units, p.inputs).rowwise() += held;
  }
}

}  // namespace bilevel::networks
