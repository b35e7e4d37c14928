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

LayeredCircuit layered_circuit(const LayeredCircuitOptions& options) {
  options.validate().throw_if_any();
  LayeredCircuit network;
  network.inputs = options.sizes.front();
  network.input_volts = options.input_volts;
  network.bias = options.bias;
  Circuit& circuit = network.circuit;
  std::mt19937_64 engine(options.seed);
  std::uniform_real_distribution<double> siemens(options.least_siemens, options.most_siemens);

  std::vector<int> before, rails;
  const auto add_source = [&](std::vector<int>& to, double volts) {
    to.push_back(circuit.nodes);
    circuit.sources.push_back({circuit.nodes++, volts});
  };
  for (Index i = 0; i < 2 * network.inputs; ++i) add_source(before, 0);
  if (options.bias)
    for (const double sign : {1.0, -1.0}) add_source(rails, sign * options.input_volts);

  for (std::size_t layer = 1; layer < options.sizes.size(); ++layer) {
    const bool hidden = layer + 1 < options.sizes.size();
    const double gain = hidden && !options.gains.empty() ? options.gains[layer - 1] : 1;
    std::vector<int> units;
    for (Index unit = 0; unit < options.sizes[layer]; ++unit) {
      const int node = circuit.nodes++;
      for (const std::vector<int>* group : {&before, &rails})
        for (const int from : *group) circuit.resistors.push_back({from, node, siemens(engine)});
      units.push_back(node);
      if (!hidden) continue;
      Diode diode = options.diode;
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

Eigen::MatrixXd LayeredCircuit::sources(const Eigen::MatrixXd& x) const {
  if (x.rows() != inputs)
    throw InvalidInput(
        fmt::format("layered circuit: samples have {} inputs, the network {}", x.rows(), inputs));
  Eigen::MatrixXd volts(2 * inputs + (bias ? 2 : 0), x.cols());
  volts.topRows(inputs) = input_volts * x;
  volts.middleRows(inputs, inputs) = -input_volts * x;
  if (bias) {
    volts.row(2 * inputs).setConstant(input_volts);
    volts.row(2 * inputs + 1).setConstant(-input_volts);
  }
  return volts;
}

}  // namespace bilevel::networks
