// What an operating point costs: our own solver from zero, ngspice with sources handed over by callback, with
// sources changed by `alter`, and with the netlist parsed anew; and parsing against altering every resistor.
// Prints markdown.

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include <bilevel/networks/circuit_equations.hpp>
#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/networks/netlist.hpp>
#include <bilevel/outcome/cost.hpp>

#include "library.hpp"

using namespace bilevel;
using namespace bilevel::networks;

namespace {

/// Microseconds of one call, the least of several rounds: what others do to the machine only adds.
template <class Work>
double microseconds(Work&& work) {
  double least = 1e300;
  for (int round = 0; round < 7; ++round) {
    int calls = 0;
    Stopwatch watch;
    do {
      work(calls++);
    } while (watch.seconds() < 0.05);
    least = std::min(least, 1e6 * watch.seconds() / calls);
  }
  return least;
}

void row(const std::vector<Index>& sizes) {
  LayeredCircuit network = layered_circuit({.sizes = sizes, .input_volts = 4});
  Circuit& circuit = network.circuit;
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> volts(-4, 4);
  std::vector<double> values(circuit.sources.size());
  const auto draw = [&] {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = circuit.sources[i].volts = volts(engine);
  };
  NgspiceLibrary& ngspice = NgspiceLibrary::get("");
  const auto settle = [&] {
    if (!ngspice.settle()) throw std::runtime_error(ngspice.complaint());
    ngspice.forget();
  };

  CircuitEquations equations(circuit);
  Eigen::VectorXd x(equations.size());
  const double ours = microseconds([&](int) {
    draw();
    equations.set_sources(
        Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Index>(values.size())));
    x.setZero();
    if (!succeeded(equations.settle(x, {}).status)) throw std::runtime_error("ours did not settle");
  });
  ngspice.load(netlist(circuit, {.external_sources = true}));
  ngspice.offer(values, {});
  const double handed = microseconds([&](int) {
    draw();
    settle();
  });
  ngspice.load(netlist(circuit));
  const double altered = microseconds([&](int) {
    draw();
    for (std::size_t i = 0; i < values.size(); ++i) ngspice.alter(fmt::format("v{}", i), values[i]);
    settle();
  });
  const double reloaded = microseconds([&](int) {
    draw();
    ngspice.load(netlist(circuit));
    settle();
  });
  const double parsed = microseconds([&](int) { ngspice.load(netlist(circuit)); });
  const double resistors = microseconds([&](int) {
    for (std::size_t i = 0; i < circuit.resistors.size(); ++i)
      ngspice.alter(fmt::format("r{}", i), 1 / circuit.resistors[i].siemens);
  });
  fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} |\n", fmt::join(sizes, "-"),
             circuit.resistors.size(), ours, handed, altered, reloaded, parsed, resistors);
}

}  // namespace

int main() {
  fmt::print(
      "| layers | resistors | ours, µs | ngspice: sources by callback | by alter | by reload | parse alone "
      "| alter every resistor |\n|---|---|---|---|---|---|---|---|\n");
  for (const std::vector<Index>& sizes :
       {std::vector<Index>{2, 4, 1}, {16, 12, 5}, {64, 16, 10}, {64, 32, 16, 10}})
    row(sizes);
}
