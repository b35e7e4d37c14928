#pragma once

#include <cstdint>
#include <vector>

#include <Eigen/Core>

#include <bilevel/networks/architecture.hpp>
#include <bilevel/networks/circuit.hpp>

namespace bilevel::networks {

struct LayeredCircuitOptions {
  std::vector<Index> sizes{};  ///< units of the layers, input first, output last; at least two
  /// An input x becomes two sources, at ±input_volts·x: conductances are not negative, so that a unit needs
  /// both signs to weigh an input against another.
  double input_volts = 1;
  bool bias = true;  ///< resistors from every hidden and output unit to rails at ±input_volts
  /// Gain of the amplifier behind every unit, one for each hidden layer; empty for none. Signals shrink from
  /// layer to layer, since the voltage of a unit is a mean of those before and after it.
  std::vector<double> gains{};
  Diode diode{};  ///< of the hidden units; its nodes do not matter
  /// Conductances at the start, siemens, drawn evenly between the two.
  double least_siemens = 0.01, most_siemens = 0.1;
  std::uint64_t seed = 1;

  Violations validate() const;
};

/// A layered resistive network (Kendall, Pantone, Manickavasagam, Bengio and Scellier 2020): every unit is a
/// node, joined by a resistor to every unit of the layer before it. A hidden unit has a diode to ground that
/// keeps its voltage from falling below about −0.7 V (units 0, 2, …) or from rising above 0.7 V (1, 3, …).
struct LayeredCircuit {
  Circuit circuit;
  std::vector<int> outputs;  ///< their nodes
  /// Sources at ±input_volts·x and the rails, in the order of circuit.sources, for inputs one in a column.
  Eigen::MatrixXd sources(const Eigen::MatrixXd& inputs) const;
  /// Sets the circuit's sources to those of one sample.
  void clamp(const Eigen::VectorXd& input);

  Index inputs = 0;
  double input_volts = 1;
  std::vector<double> rails;  ///< volts of the sources behind those of the inputs
};

/// Resistors are numbered layer by layer and in a layer unit by unit: those from the layer before (for inputs
/// first all of the positive sources, then the negative), then those to the positive and negative rail.
LayeredCircuit layered_circuit(const LayeredCircuitOptions& options);

/// The circuit of a resistive network with conductances θ, in the same order and with Architecture::leak
/// behind those of each unit: what `bilevel train` has learned, to be built. No diode is ideal; this one
/// nearly is, since its drop falls with the emission: some 8 mV.
LayeredCircuit layered_circuit(const Architecture& architecture, const Eigen::VectorXd& theta,
                               const Diode& diode = {.emission = 0.01});

}  // namespace bilevel::networks
