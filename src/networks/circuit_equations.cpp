#include <bilevel/networks/circuit_equations.hpp>

#include <algorithm>
#include <cmath>

#include "diode_law.hpp"

namespace bilevel::networks {

using Vec = Eigen::VectorXd;

CircuitEquations::CircuitEquations(Circuit circuit) : circuit_(std::move(circuit)) {
  circuit_.validate().throw_if_any();
  resolve_places();
  const Index n = size(), diodes = static_cast<Index>(circuit_.diodes.size());
  node_volts_ = node_other_ = Vec::Zero(circuit_.nodes);
  linear_ = linear_size_ = hessian_ = Eigen::MatrixXd::Zero(n, n);
  push_ = push_size_ = gradient_ = scale_ = direction_ = product_ = Vec::Zero(n);
  diode_volts_ = diode_step_ = Vec::Zero(diodes);
  factor_.compute(Eigen::MatrixXd::Identity(n, n));  // takes its memory, and can be copied from now on
}

void CircuitEquations::resolve_places() {
  const auto at = [](int node) { return static_cast<std::size_t>(node); };
  places_.assign(at(circuit_.nodes), {});
  std::vector<const Amplifier*> driver(at(circuit_.nodes), nullptr);
  for (const Amplifier& a : circuit_.amplifiers) driver[at(a.output)] = &a;
  for (std::size_t s = 0; s < circuit_.sources.size(); ++s)
    places_[at(circuit_.sources[s].node)].source = static_cast<Index>(s);
  for (int node = 1; node < circuit_.nodes; ++node)
    if (!driver[at(node)] && places_[at(node)].source < 0) {
      places_[at(node)].free = size();
      free_nodes_.push_back(node);
    }
  for (int node = 1; node < circuit_.nodes; ++node) {
    double scale = 1;
    int root = node;
    for (; driver[at(root)]; root = driver[at(root)]->input) scale *= driver[at(root)]->gain;
    if (root != node) places_[at(node)] = {places_[at(root)].free, places_[at(root)].source, scale};
  }
}

double CircuitEquations::volts(int node, In x) const {
  const Place& p = place(node);
  if (p.free >= 0) return p.scale * x[p.free];
  return p.source >= 0 ? p.scale * circuit_.sources[static_cast<std::size_t>(p.source)].volts : 0;
}

void CircuitEquations::set_conductances(const Vec& siemens) {
  for (std::size_t i = 0; i < circuit_.resistors.size(); ++i)
    circuit_.resistors[i].siemens = siemens[static_cast<Index>(i)];
}

void CircuitEquations::set_sources(In volts) {
  for (std::size_t i = 0; i < circuit_.sources.size(); ++i)
    circuit_.sources[i].volts = volts[static_cast<Index>(i)];
}

void CircuitEquations::set_pull(std::size_t pull, double volts, double siemens) {
  circuit_.pulls[pull].volts = volts;
  circuit_.pulls[pull].siemens = siemens;
}

/// From the free nodes to all; what is given is zero in a displacement.
void CircuitEquations::carry(In x, Vec& nodes, bool given) const {
  for (int node = 0; node < circuit_.nodes; ++node)
    nodes[node] = given || place(node).free >= 0 ? volts(node, x) : 0;
}

/// The transpose of that: currents that leave the nodes become derivatives by the free voltages.
void CircuitEquations::gather(const Vec& nodes, double weight, Eigen::Ref<Vec> out) const {
  for (int node = 1; node < circuit_.nodes; ++node)
    if (const Place& p = place(node); p.free >= 0) out[p.free] += weight * p.scale * nodes[node];
}

double CircuitEquations::energy(In x, Eigen::Ref<Vec>* gradient) {
  carry(x, node_volts_, true);
  Vec& leaving = node_other_;
  if (gradient) leaving.setZero();
  double total = 0;
  for (const Resistor& r : circuit_.resistors) {
    const double drop = node_volts_[r.a] - node_volts_[r.b], current = r.siemens * drop;
    total += 0.5 * current * drop;
    leaving[r.a] += current;
    leaving[r.b] -= current;
  }
  for (const Diode& d : circuit_.diodes) {
    const DiodeLaw law(d, circuit_.gmin);
    const double drop = node_volts_[d.anode] - node_volts_[d.cathode];
    total += law.content(drop);
    if (!gradient) continue;
    const double current = law.current(drop);
    leaving[d.anode] += current;
    leaving[d.cathode] -= current;
  }
  for (const CurrentSource& s : circuit_.currents) {
    total -= s.amperes * (node_volts_[s.to] - node_volts_[s.from]);
    leaving[s.from] += s.amperes;
    leaving[s.to] -= s.amperes;
  }
  for (const Pull& p : circuit_.pulls) {
    const double drop = node_volts_[p.node] - p.volts;
    total += 0.5 * p.siemens * drop * drop;
    leaving[p.node] += p.siemens * drop;
  }
  if (gradient) {
    gradient->setZero();
    gather(leaving, 1, *gradient);
  }
  return total;
}

void CircuitEquations::add_conductance_slopes(In x, double weight, Vec& out) {
  carry(x, node_volts_, true);
  for (std::size_t i = 0; i < circuit_.resistors.size(); ++i) {
    const double drop = node_volts_[circuit_.resistors[i].a] - node_volts_[circuit_.resistors[i].b];
    out[static_cast<Index>(i)] += 0.5 * weight * drop * drop;
  }
}

void CircuitEquations::add_cross_times(In x, In p, double weight, Vec& out) {
  carry(x, node_volts_, true);
  carry(p, node_other_, false);
  for (std::size_t i = 0; i < circuit_.resistors.size(); ++i) {
    const auto [a, b, siemens] = circuit_.resistors[i];
    out[static_cast<Index>(i)] +=
        weight * (node_volts_[a] - node_volts_[b]) * (node_other_[a] - node_other_[b]);
  }
}

void CircuitEquations::add_cross_apply(In x, const Vec& u, double weight, Eigen::Ref<Vec>&& out) {
  carry(x, node_volts_, true);
  node_other_.setZero();
  for (std::size_t i = 0; i < circuit_.resistors.size(); ++i) {
    const auto [a, b, siemens] = circuit_.resistors[i];
    const double change = u[static_cast<Index>(i)] * (node_volts_[a] - node_volts_[b]);
    node_other_[a] += change;
    node_other_[b] -= change;
  }
  gather(node_other_, weight, out);
}

/// Adds a branch of slope `siemens` from a to b to the matrix, and what its given end pushes.
void CircuitEquations::stamp(int a, int b, double siemens) {
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    const Place &p = place(from), &q = place(to);
    if (p.free < 0) continue;
    linear_(p.free, p.free) += siemens * p.scale * p.scale;
    linear_size_(p.free, p.free) += std::abs(siemens) * p.scale * p.scale;
    const double across = siemens * p.scale * q.scale;
    if (q.free >= 0) {
      linear_(p.free, q.free) -= across;
      linear_size_(p.free, q.free) += std::abs(across);
    } else if (q.source >= 0) {
      const double push = across * circuit_.sources[static_cast<std::size_t>(q.source)].volts;
      push_[p.free] += push;
      push_size_[p.free] += std::abs(push);
    }
  }
}

void CircuitEquations::assemble() {
  linear_.setZero();
  linear_size_.setZero();
  push_.setZero();
  push_size_.setZero();
  for (const Resistor& r : circuit_.resistors) stamp(r.a, r.b, r.siemens);
  const auto inject = [&](int node, double amperes) {
    const Place& p = place(node);
    if (p.free < 0) return;
    push_[p.free] += p.scale * amperes;
    push_size_[p.free] += std::abs(p.scale * amperes);
  };
  for (const Pull& p : circuit_.pulls) {
    stamp(p.node, 0, p.siemens);
    inject(p.node, p.siemens * p.volts);
  }
  for (const CurrentSource& s : circuit_.currents) {
    inject(s.to, s.amperes);
    inject(s.from, -s.amperes);
  }
}

/// A diode's share of ∂E and ∂²E.
void CircuitEquations::add_diode(const Diode& diode, double current, double slope) {
  const Place &p = place(diode.anode), &q = place(diode.cathode);
  if (p.free >= 0) {
    gradient_[p.free] += p.scale * current;
    hessian_(p.free, p.free) += slope * p.scale * p.scale;
  }
  if (q.free >= 0) {
    gradient_[q.free] -= q.scale * current;
    hessian_(q.free, q.free) += slope * q.scale * q.scale;
  }
  if (p.free >= 0 && q.free >= 0) {
    hessian_(p.free, q.free) -= slope * p.scale * q.scale;
    hessian_(q.free, p.free) -= slope * p.scale * q.scale;
  }
}

/// ∂E, ∂²E and the scale of the residual at x; assemble() came before.
CircuitEquations::Outcome CircuitEquations::linearise(In x, double least_volts) {
  gradient_.noalias() = linear_ * x;
  gradient_ -= push_;
  product_ = x.cwiseAbs();
  scale_.noalias() = linear_size_ * product_;
  scale_ += push_size_;
  hessian_ = linear_;
  for (std::size_t k = 0; k < circuit_.diodes.size(); ++k) {
    const Diode& d = circuit_.diodes[k];
    const DiodeLaw law(d, circuit_.gmin);
    const Place &p = place(d.anode), &q = place(d.cathode);
    const double from = volts(d.anode, x), to = volts(d.cathode, x), drop = from - to;
    diode_volts_[static_cast<Index>(k)] = drop;
    const double current = law.current(drop), slope = law.slope(drop);
    const double size = std::abs(current) + slope * (std::abs(from) + std::abs(to));
    if (p.free >= 0) scale_[p.free] += std::abs(p.scale) * size;
    if (q.free >= 0) scale_[q.free] += std::abs(q.scale) * size;
    add_diode(d, current, slope);
  }
  scale_ += least_volts * hessian_.diagonal().cwiseAbs();
  Outcome outcome;
  outcome.residual = 0;
  for (Index i = 0; i < size(); ++i) {
    const double share = gradient_[i] == 0 ? 0 : std::abs(gradient_[i]) / scale_[i];
    if (share > outcome.residual || std::isnan(share)) {
      outcome.residual = share;
      outcome.worst = i;
      if (std::isnan(share)) break;
    }
  }
  return outcome;
}

CircuitEquations::Outcome CircuitEquations::measure(In x, double least_volts) {
  assemble();
  return linearise(x, least_volts);
}

void CircuitEquations::hessian(In x, Eigen::MatrixXd& out) {
  measure(x, 0);
  out = hessian_;
}

}  // namespace bilevel::networks
