#include <bilevel/networks/layered_circuit.hpp>

#include <cmath>
#include <random>

namespace bilevel::networks {

Violations LayeredCircuitOptions::validate() const {
  Violations v("layered_circuit");
  v.require(sizes.size() >= 2, "sizes", fmt::format("[{}]", fmt::join(sizes, ", ")),
            "must name an input and an output layer");
  for (std::size_t k = 0; k < sizes.size(); ++k) v.at_least(fmt::format("sizes[{}]", k), sizes[k], 1);
  v.require(gains.empty() || gains.size() + 2 == sizes.size(), "gains",
            fmt::format("[{}]", fmt::join(gains, ", ")), "must be empty or one for each hidden layer");
  for (std::size_t k = 0; k < gains.size(); ++k) v.positive(fmt::format("gains[{}]", k), gains[k]);
  v.positive("input_volts", input_volts).positive("least_siemens", least_siemens);
  v.require(most_siemens >= least_siemens && std::isfinite(most_siemens), "most_siemens", most_siemens,
            "must be finite and at least least_siemens");
  return v;
}

namespace {

/// How the layers behind the inputs are wired: one entry of `rails` (volts; 0 for none) and `gains` for each.
struct Wiring {
  std::vector<Index> sizes;
  double input_volts, leak;
  std::vector<double> rails, gains;
  Diode diode;
};

/// siemens(layer, unit, i) is asked for the resistors of a unit one after the other.
template <class Siemens>
LayeredCircuit wired(const Wiring& wiring, const Siemens& siemens) {
  LayeredCircuit network;
  network.inputs = wiring.sizes.front();
  network.input_volts = wiring.input_volts;
  Circuit& circuit = network.circuit;
  std::vector<int> before, rails;
  const auto add_source = [&](std::vector<int>& to, double volts) {
    to.push_back(circuit.nodes);
    circuit.sources.push_back({circuit.nodes++, volts});
  };
  for (Index i = 0; i < 2 * network.inputs; ++i) add_source(before, 0);

  for (std::size_t layer = 1; layer < wiring.sizes.size(); ++layer) {
    const bool hidden = layer + 1 < wiring.sizes.size();
    const double gain = wiring.gains[layer - 1], volts = wiring.rails[layer - 1];
    // Layers at the same volts share their rails.
    if (volts != (network.rails.empty() ? 0 : network.rails[network.rails.size() - 2])) {
      rails.clear();
      for (const double sign : {1.0, -1.0}) {
        add_source(rails, sign * volts);
        network.rails.push_back(sign * volts);
      }
    }
    std::vector<int> units;
    for (Index unit = 0; unit < wiring.sizes[layer]; ++unit) {
      const int node = circuit.nodes++;
      Index number = 0;
      for (const std::vector<int>* group : {&before, &rails})
        for (const int from : *group)
          circuit.resistors.push_back({from, node, siemens(static_cast<Index>(layer), unit, number++)});
      if (wiring.leak > 0) circuit.resistors.push_back({node, 0, wiring.leak});
      units.push_back(node);
      if (!hidden) continue;
      Diode diode = wiring.diode;
      diode.anode = unit % 2 == 0 ? 0 : node;
      diode.cathode = unit % 2 == 0 ? node : 0;
      circuit.diodes.push_back(diode);
      if (gain == 1) continue;
      circuit.amplifiers.push_back({node, circuit.nodes, gain});
      units.back() = circuit.nodes++;
    }
    before = std::move(units);
  }
  network.outputs = std::move(before);
  circuit.validate().throw_if_any();
  return network;
}

}  // namespace

LayeredCircuit layered_circuit(const LayeredCircuitOptions& options) {
  options.validate().throw_if_any();
  const std::size_t layers = options.sizes.size() - 1;
  Wiring wiring{.sizes = options.sizes,
                .input_volts = options.input_volts,
                .leak = 0,
                .rails = std::vector<double>(layers, options.bias ? options.input_volts : 0),
                .gains = options.gains,
                .diode = options.diode};
  wiring.gains.resize(layers, 1);
  std::mt19937_64 engine(options.seed);
  std::uniform_real_distribution<double> siemens(options.least_siemens, options.most_siemens);
  return wired(wiring, [&](Index, Index, Index) { return siemens(engine); });
}

LayeredCircuit layered_circuit(const Architecture& a, const Eigen::VectorXd& theta, const Diode& diode) {
  if (!a.resistive())
    throw InvalidInput(fmt::format("layered circuit: {} is no circuit; resistive is", name(a.energy)));
  a.validate().throw_if_any();
  require_parameters(a, theta);
  const auto layers = static_cast<std::size_t>(a.depth());
  Wiring wiring{.sizes = a.layers,
                .input_volts = a.input_gain,
                .leak = Architecture::leak,
                .rails = {},
                .gains = {},
                .diode = diode};
  for (Index k = 1; k <= a.depth(); ++k) wiring.rails.push_back(a.rail(k));
  wiring.gains.assign(layers, a.gain);
  return wired(wiring, [&](Index k, Index unit, Index i) {
    const LayerParameters p = a.layer(k);
    const auto conductance = [&](Index first, Index column) {
      return theta[first + column * p.units + unit];
    };
    if (i < p.inputs) return conductance(p.weights, i);
    i -= p.inputs;
    if (k == 1 && i < p.inputs) return conductance(p.opposite, i);
    return conductance(p.bias, k == 1 ? i - p.inputs : i);
  });
}

Eigen::MatrixXd LayeredCircuit::sources(const Eigen::MatrixXd& x) const {
  if (x.rows() != inputs)
    throw InvalidInput(
        fmt::format("layered circuit: samples have {} inputs, the network {}", x.rows(), inputs));
  Eigen::MatrixXd volts(2 * inputs + static_cast<Index>(rails.size()), x.cols());
  volts.topRows(inputs) = input_volts * x;
  volts.middleRows(inputs, inputs) = -input_volts * x;
  for (std::size_t i = 0; i < rails.size(); ++i)
    volts.row(2 * inputs + static_cast<Index>(i)).setConstant(rails[i]);
  return volts;
}

void LayeredCircuit::clamp(const Eigen::VectorXd& input) {
  const Eigen::VectorXd volts = sources(input);
  for (std::size_t i = 0; i < circuit.sources.size(); ++i)
    circuit.sources[i].volts = volts[static_cast<Index>(i)];
}

}  // namespace bilevel::networks
