#include <bilevel/networks/circuit.hpp>

#include <cmath>
#include <numeric>

#include <bilevel/networks/circuit_equations.hpp>

namespace bilevel::networks {
namespace {

/// Which nodes hang together.
class Islands {
 public:
  explicit Islands(int nodes) : parent_(static_cast<std::size_t>(nodes)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int root(int node) {
    while (parent_[static_cast<std::size_t>(node)] != node) {
      int& up = parent_[static_cast<std::size_t>(node)];
      up = parent_[static_cast<std::size_t>(up)];
      node = up;
    }
    return node;
  }
  void join(int a, int b) { parent_[static_cast<std::size_t>(root(a))] = root(b); }

 private:
  std::vector<int> parent_;
};

/// Collects what is wrong, and remembers whether every node named exists: only then can paths be followed.
struct Check {
  const Circuit& circuit;
  Violations v{"circuit"};
  bool nodes_exist = true;

  void node(std::string_view field, std::size_t i, std::string_view end, int value) {
    const bool exists = value >= 0 && value < circuit.nodes;
    nodes_exist = nodes_exist && exists;
    v.require(exists, fmt::format("{}[{}].{}", field, i, end), value,
              fmt::format("must be a node, 0 to {}", circuit.nodes - 1));
  }
  void number(std::string_view field, std::size_t i, std::string_view what, double value, bool holds,
              std::string_view constraint) {
    v.require(holds && std::isfinite(value), fmt::format("{}[{}].{}", field, i, what), value, constraint);
  }
};

void check_elements(Check& c) {
  const Circuit& circuit = c.circuit;
  for (std::size_t i = 0; i < circuit.resistors.size(); ++i) {
    const Resistor& r = circuit.resistors[i];
    c.node("resistors", i, "a", r.a);
    c.node("resistors", i, "b", r.b);
    c.number("resistors", i, "siemens", r.siemens, r.siemens >= 0, "must be zero or more and finite");
  }
  for (std::size_t i = 0; i < circuit.sources.size(); ++i) {
    c.node("sources", i, "node", circuit.sources[i].node);
    c.number("sources", i, "volts", circuit.sources[i].volts, true, "must be finite");
  }
  for (std::size_t i = 0; i < circuit.currents.size(); ++i) {
    c.node("currents", i, "from", circuit.currents[i].from);
    c.node("currents", i, "to", circuit.currents[i].to);
    c.number("currents", i, "amperes", circuit.currents[i].amperes, true, "must be finite");
  }
  for (std::size_t i = 0; i < circuit.diodes.size(); ++i) {
    const Diode& d = circuit.diodes[i];
    c.node("diodes", i, "anode", d.anode);
    c.node("diodes", i, "cathode", d.cathode);
    c.number("diodes", i, "saturation_current", d.saturation_current, d.saturation_current > 0,
             "must be positive and finite");
    c.number("diodes", i, "emission", d.emission, d.emission > 0, "must be positive and finite");
    c.number("diodes", i, "kelvin", d.kelvin, d.kelvin > 0, "must be positive and finite");
  }
  for (std::size_t i = 0; i < circuit.amplifiers.size(); ++i) {
    const Amplifier& a = circuit.amplifiers[i];
    c.node("amplifiers", i, "input", a.input);
    c.node("amplifiers", i, "output", a.output);
    c.number("amplifiers", i, "gain", a.gain, a.gain != 0, "must be finite and not zero");
  }
  for (std::size_t i = 0; i < circuit.pulls.size(); ++i) {
    c.node("pulls", i, "node", circuit.pulls[i].node);
    c.number("pulls", i, "volts", circuit.pulls[i].volts, true, "must be finite");
    c.number("pulls", i, "siemens", circuit.pulls[i].siemens, true, "must be finite");
  }
}

/// Every node's voltage is given once at most, and no amplifier drives itself.
void check_holders(Check& c) {
  std::vector<int> holders(static_cast<std::size_t>(c.circuit.nodes), 0),
      driver(static_cast<std::size_t>(c.circuit.nodes), -1);
  holders[0] = 1;
  for (const VoltageSource& s : c.circuit.sources) ++holders[static_cast<std::size_t>(s.node)];
  for (const Amplifier& a : c.circuit.amplifiers) {
    ++holders[static_cast<std::size_t>(a.output)];
    driver[static_cast<std::size_t>(a.output)] = a.input;
  }
  for (std::size_t node = 0; node < holders.size(); ++node)
    c.v.require(holders[node] <= 1, "node", node,
                node == 0 ? "is ground: no source or amplifier may hold it"
                          : "is held by more than one source or amplifier");
  for (std::size_t i = 0; i < c.circuit.amplifiers.size(); ++i) {
    int node = c.circuit.amplifiers[i].input;
    for (std::size_t steps = 0; node >= 0 && steps <= c.circuit.amplifiers.size(); ++steps)
      node = driver[static_cast<std::size_t>(node)];
    c.v.require(node < 0, fmt::format("amplifiers[{}].output", i), c.circuit.amplifiers[i].output,
                "depends on itself through amplifiers");
  }
}

void check_paths(Check& c) {
  Islands islands(c.circuit.nodes);
  for (const Resistor& r : c.circuit.resistors)
    if (r.siemens > 0) islands.join(r.a, r.b);
  for (const Diode& d : c.circuit.diodes) islands.join(d.anode, d.cathode);
  for (const Amplifier& a : c.circuit.amplifiers) islands.join(a.input, a.output);
  for (const VoltageSource& s : c.circuit.sources) islands.join(s.node, 0);
  for (const Pull& p : c.circuit.pulls)
    if (p.siemens != 0) islands.join(p.node, 0);
  for (int node = 1; node < c.circuit.nodes; ++node)
    c.v.require(islands.root(node) == islands.root(0), "node", node,
                "has no conducting path to ground or to a source: its voltage is undetermined");
}

}  // namespace

Violations Circuit::validate() const {
  Check c{*this};
  c.v.at_least("nodes", nodes, 1);
  c.v.not_negative("gmin", gmin);
  check_elements(c);
  if (c.nodes_exist && nodes >= 1) {
    check_holders(c);
    if (c.v.empty()) check_paths(c);
  }
  return c.v;
}

Violations OperatingPointOptions::validate() const {
  Violations v("operating_point");
  return v.positive("tolerance", tolerance).at_least("max_iterations", max_iterations, 1);
}

OperatingPoint operating_point(const Circuit& circuit, const OperatingPointOptions& options,
                               const Eigen::VectorXd& start) {
  options.validate().throw_if_any();
  CircuitEquations equations(circuit);
  if (start.size() != 0 && start.size() != circuit.nodes)
    throw InvalidInput(fmt::format("operating_point: the start has {} voltages, the circuit {} nodes",
                                   start.size(), circuit.nodes));
  Eigen::VectorXd x = Eigen::VectorXd::Zero(equations.size());
  if (start.size() != 0)
    for (Index i = 0; i < x.size(); ++i) x[i] = start[equations.free_node(i)];
  const CircuitEquations::Outcome outcome = equations.settle(x, options);
  OperatingPoint point;
  point.voltages.resize(circuit.nodes);
  for (int node = 0; node < circuit.nodes; ++node) point.voltages[node] = equations.volts(node, x);
  point.status = outcome.status;
  point.iterations = outcome.iterations;
  point.residual = outcome.residual;
  point.message = equations.message(outcome, options);
  return point;
}

}  // namespace bilevel::networks
