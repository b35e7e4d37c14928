#include <bilevel/networks/network_problem.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "energy_at.hpp"
#include "network_curvature.hpp"
#include "read_out.hpp"

namespace bilevel::networks {

struct NetworkProblem::Scratch {
  Scratch(const Architecture& a, const Samples& samples) : energy(a, samples.inputs), derivative(a) {}
  /// Made when it is first asked for: most problems stay real.
  EnergyAt<std::complex<double>>& complex_at(const Architecture& a, const Samples& samples) {
    if (!complex_energy) {
      complex_energy = std::make_unique<EnergyAt<std::complex<double>>>(a, samples.inputs);
      complex_derivative = std::make_unique<Couplings<std::complex<double>>>(a);
    }
    return *complex_energy;
  }

  EnergyAt<double> energy;
  Couplings<double> derivative;
  std::unique_ptr<EnergyAt<std::complex<double>>> complex_energy;
  std::unique_ptr<Couplings<std::complex<double>>> complex_derivative;
};

Eigen::MatrixXd one_hot(const std::vector<int>& labels, Index classes) {
  Eigen::MatrixXd targets = Eigen::MatrixXd::Zero(classes, static_cast<Index>(labels.size()));
  for (std::size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0 || labels[n] >= classes)
      throw InvalidInput(
          fmt::format("sample {} has the label {}, which is not in 0 … {}", n, labels[n], classes - 1));
    targets(labels[n], static_cast<Index>(n)) = 1;
  }
  return targets;
}

NetworkProblem::NetworkProblem(Architecture architecture, Samples samples, Vector initial_theta)
    : architecture_((architecture.validate().throw_if_any(), std::move(architecture))),
      samples_(std::move(samples)),
      initial_theta_(std::move(initial_theta)) {
  const auto& [inputs, targets] = samples_;
  if (inputs.cols() == 0) throw InvalidInput("network: there are no samples");
  if (inputs.rows() != architecture_.inputs())
    throw InvalidInput(fmt::format("network: samples have {} features, the first layer has {} units",
                                   inputs.rows(), architecture_.inputs()));
  if (targets.rows() != architecture_.outputs() || targets.cols() != inputs.cols())
    throw InvalidInput(fmt::format("network: targets are {} × {}, {} outputs of {} samples are wanted",
                                   targets.rows(), targets.cols(), architecture_.outputs(), inputs.cols()));
  if (!inputs.allFinite() || !targets.allFinite())
    throw InvalidInput("network: the samples hold NaN or infinity");
  if (architecture_.read_out == ReadOut::cross_entropy && !(targets.colwise().sum().array() - 1).isZero(1e-9))
    throw InvalidInput("network: with cross-entropy the targets of each sample must sum to 1");
  require_parameters(architecture_, initial_theta_);
  scratch_ = std::make_unique<Scratch>(architecture_, samples_);
  initial_phi_ = Vector::Zero(architecture_.states() * batch());
  if (architecture_.energy == Energy::predictive_coding)
    scratch_->energy.forward_pass(initial_theta_, initial_phi_);
}

NetworkProblem::~NetworkProblem() = default;

Index NetworkProblem::wrong(const Vector& phi) const {
  const Index outputs = architecture_.outputs(), size = outputs * batch();
  double costs = 0;
  Index count = 0;
  judge(architecture_.read_out,
        Eigen::Map<const Eigen::MatrixXd>(phi.data() + phi.size() - size, outputs, batch()), samples_.targets,
        costs, count);
  return count;
}

double NetworkProblem::inner(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) {
  EnergyAt<double>& energy = scratch_->energy;
  energy.place(theta, phi);
  const double share = 1 / static_cast<double>(batch());
  if (wanted.phi) {
    energy.gradient(*wanted.phi);
    *wanted.phi *= share;
  }
  if (wanted.theta) {
    energy.parameters(scratch_->derivative);
    scratch_->derivative.pull_back(architecture_, *wanted.theta);
    if (architecture_.resistive()) add_source_energy(architecture_, samples_.inputs, *wanted.theta);
    *wanted.theta *= share;
  }
  return share * energies_of(architecture_, energy, samples_.inputs, phi, theta).sum();
}

NetworkProblem::Vector NetworkProblem::energies(const Vector& phi, const Vector& theta) {
  scratch_->energy.place(theta, phi);
  return energies_of(architecture_, scratch_->energy, samples_.inputs, phi, theta);
}

double NetworkProblem::outer(const Vector& phi, const Vector& theta, Wanted<Vector> wanted) {
  const Index outputs = architecture_.outputs(), size = outputs * batch();
  const Eigen::Map<const Eigen::MatrixXd> u(phi.data() + phi.size() - size, outputs, batch());
  const double share = 1 / static_cast<double>(batch());
  if (wanted.theta) wanted.theta->setZero();
  Eigen::Map<Eigen::MatrixXd> slope(nullptr, 0, 0);
  if (wanted.phi) {
    wanted.phi->head(phi.size() - size).setZero();
    new (&slope) Eigen::Map<Eigen::MatrixXd>(wanted.phi->data() + phi.size() - size, outputs, batch());
  }
  if (wanted.phi && architecture_.bounded(architecture_.depth())) scratch_->energy.place(theta, phi);
  double sum = 0;
  for (Index n = 0; n < batch(); ++n) {
    sum += cost(architecture_.read_out, u.col(n), samples_.targets.col(n));
    if (!wanted.phi) continue;
    slope.col(n) = share * cost_slope<double>(architecture_.read_out, u.col(n), samples_.targets.col(n));
    if (architecture_.bounded(architecture_.depth()))
      slope.col(n).array() *= scratch_->energy.free(architecture_.depth() - 1).col(n).array();
  }
  return share * sum;
}

double NetworkProblem::nudged_residual(const Vector& phi, const Vector& theta, double beta) {
  EnergyAt<double>& energy = scratch_->energy;
  energy.place(theta, phi);
  Vector gradient(phi.size());
  energy.gradient(gradient);
  const Index last = architecture_.depth(), outputs = architecture_.outputs(), size = outputs * batch();
  const bool bounded = architecture_.bounded(last);
  const Vector &lower = energy.lower(last - 1), &upper = energy.upper(last - 1);
  Eigen::Map<Eigen::MatrixXd> slope(gradient.data() + phi.size() - size, outputs, batch());
  for (Index n = 0; n < batch(); ++n) {
    const auto u = energy.state(last - 1).col(n);
    const Vector push = beta * cost_slope<double>(architecture_.read_out, u, samples_.targets.col(n));
    for (Index i = 0; i < outputs; ++i) {
      if (!bounded) {
        slope(i, n) += push[i];
        continue;
      }
      const double force = energy.force(last - 1)(i, n) + push[i];
      const bool held = (u[i] == lower[i] && force >= 0) || (u[i] == upper[i] && force <= 0);
      if (phi[phi.size() - size + n * outputs + i] == u[i]) slope(i, n) = held ? 0 : force;
    }
  }
  return gradient.norm() / static_cast<double>(batch());
}

void NetworkProblem::linearise(const Vector& phi, const Vector& theta, double beta,
                               std::unique_ptr<Curvature<Vector>>& reuse) {
  if (!reuse) reuse = std::make_unique<NetworkCurvature>(architecture_, samples_);
  auto& curvature = static_cast<NetworkCurvature&>(*reuse);
  curvature.obey(stop_token());
  curvature.place(phi, theta, beta);
}

double NetworkProblem::distance_to_kink(const Vector& phi, const Vector& theta) {
  double nearest = std::numeric_limits<double>::infinity();
  EnergyAt<double>& energy = scratch_->energy;
  energy.place(theta, phi);
  for (Index i = 0; i < architecture_.depth(); ++i) {
    if (!architecture_.bounded(i + 1)) continue;
    const Vector &lower = energy.lower(i), &upper = energy.upper(i);
    for (Index n = 0; n < batch(); ++n)
      for (Index j = 0; j < lower.size(); ++j) {
        const double u = energy.state(i)(j, n),
                     force = energy.force(i)(j, n) / energy.couplings().d[static_cast<std::size_t>(i)][j];
        const bool held = energy.free(i)(j, n) == 0;
        nearest = std::min(nearest, held ? std::abs(force) : std::min(u - lower[j], upper[j] - u));
      }
  }
  return nearest;
}

/// With Δ the change of the states of one sample, a change of θ moves its forces by δW_k Δ_{k−1} + δW_{k+1}ᵀ
/// Δ_{k+1} and, in circuits, δD·Δ_k, where δW = a·δg and δD sums the conductances at a unit. Samples have
/// rows of their own, so the norm over the batch is that of one sample.
Constants NetworkProblem::constants(const Vector& theta, const Vector& center, double radius) {
  Constants c;
  if (architecture_.smooth() || !(distance_to_kink(center, theta) > radius)) return c;
  const double share = 1 / static_cast<double>(batch());
  c.hessian_lipschitz = 0;
  c.outer_smoothness = share * (architecture_.read_out == ReadOut::squared ? 1 : 0.5);
  c.outer_cross_lipschitz = 0;
  double spread = 2;
  if (architecture_.resistive()) {
    const double a = architecture_.gain;
    Index most = 0;
    for (Index k = 1; k <= architecture_.depth(); ++k) {
      const Index above = k < architecture_.depth() ? architecture_.width(k + 1) : 0;
      most = std::max(most, (k == 1 ? 2 : 1) * architecture_.width(k - 1) + 2 + above);
    }
    spread = 2 * a + std::sqrt(static_cast<double>(most)) * std::max(1.0, a * a);
  }
  c.cross_lipschitz = share * spread;
  return c;
}

Holomorphic* NetworkProblem::holomorphic() {
  return architecture_.smooth() ? this : nullptr;
}

void NetworkProblem::complex_derivatives(const Eigen::VectorXcd& phi, const Vector& theta,
                                         std::complex<double> beta, ComplexWanted wanted) {
  using Complex = std::complex<double>;
  EnergyAt<Complex>& energy = scratch_->complex_at(architecture_, samples_);
  energy.place(theta, phi);
  const double share = 1 / static_cast<double>(batch());
  if (wanted.phi) {
    energy.gradient(*wanted.phi);
    const Index outputs = architecture_.outputs(), size = outputs * batch();
    const Eigen::Map<const Eigen::MatrixXcd> u(phi.data() + phi.size() - size, outputs, batch());
    Eigen::Map<Eigen::MatrixXcd> slope(wanted.phi->data() + phi.size() - size, outputs, batch());
    for (Index n = 0; n < batch(); ++n)
      slope.col(n) += beta * cost_slope<Complex>(architecture_.read_out, u.col(n), samples_.targets.col(n));
    *wanted.phi *= share;
  }
  if (wanted.theta) {
    energy.parameters(*scratch_->complex_derivative);
    scratch_->complex_derivative->pull_back(architecture_, *wanted.theta);
    *wanted.theta *= share;
  }
}

bool NetworkProblem::complex_hessian(const Eigen::VectorXcd& phi, const Vector& theta,
                                     std::complex<double> beta, Eigen::MatrixXcd& out) {
  EnergyAt<std::complex<double>>& energy = scratch_->complex_at(architecture_, samples_);
  energy.place(theta, phi);
  assemble(architecture_, samples_, energy, beta, out);
  return true;
}

double NetworkProblem::margin(const Eigen::VectorXcd& phi, const Vector&) {
  // Poles: iπ/2 of tanh, iπ of the sigmoid; Σ exp(u) has no zero while |Im u| < π/2.
  const Index outputs = architecture_.outputs() * batch();
  const double hidden =
      architecture_.activation == Activation::tanh ? std::numbers::pi / 2 : std::numbers::pi;
  double room =
      phi.size() == outputs ? 1 : 1 - phi.head(phi.size() - outputs).imag().cwiseAbs().maxCoeff() / hidden;
  if (architecture_.read_out == ReadOut::cross_entropy)
    room = std::min(room, 1 - phi.tail(outputs).imag().cwiseAbs().maxCoeff() / (std::numbers::pi / 2));
  return room;
}

}  // namespace bilevel::networks
