#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <set>

#include <bilevel/networks/circuit.hpp>

namespace bilevel::networks {

/// A circuit of 3 to 15 nodes with every kind of element. Values span decades, as those of real circuits do:
/// resistors of 10 Ω to 100 kΩ, sources up to 10 V and 10 mA, diodes from 1 fA to 1 µA at −20 to 120 °C.
inline Circuit random_circuit(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto even = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine);
  };
  const auto decades = [&](double low, double high) { return std::exp(even(std::log(low), std::log(high))); };
  const auto whole = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine); };
  const auto sign = [&] { return whole(0, 1) ? 1.0 : -1.0; };

  Circuit c;
  std::set<int> given{0};
  const int first = whole(3, 12);
  const auto add_resistor = [&](int a, int b) { c.resistors.push_back({a, b, decades(1e-5, 0.1)}); };
  for (c.nodes = 1; c.nodes < first; ++c.nodes) add_resistor(c.nodes, whole(0, c.nodes - 1));
  for (int i = whole(0, first); i > 0; --i) {
    const int a = whole(0, first - 1), b = whole(0, first - 1);
    if (a != b) add_resistor(a, b);
  }
  for (int i = whole(1, 3); i > 0; --i) {
    const int node = whole(1, first - 1);
    if (static_cast<int>(given.size()) + 1 < first && given.insert(node).second)
      c.sources.push_back({node, sign() * decades(0.1, 10)});
  }
  for (int i = whole(0, 2); i > 0; --i)
    c.currents.push_back({whole(0, first - 1), whole(0, first - 1), sign() * decades(1e-6, 1e-2)});
  for (int i = whole(0, 2); i > 0; --i) {
    const int input = whole(1, first - 1);
    c.amplifiers.push_back({input, c.nodes, decades(0.25, 4)});
    if (given.contains(input)) given.insert(c.nodes);
    add_resistor(c.nodes, whole(0, first - 1));
    add_resistor(c.nodes, whole(0, c.nodes - 1));
    ++c.nodes;
  }
  for (int i = whole(1, 6); i > 0; --i) {
    const int a = whole(0, c.nodes - 1), b = whole(0, c.nodes - 1);
    // Straight across a source a diode would carry any current.
    if (a == b || (given.contains(a) && given.contains(b))) continue;
    c.diodes.push_back({a, b, decades(1e-15, 1e-6), even(1, 2), even(253, 393)});
  }
  for (int i = whole(0, 2); i > 0; --i)
    c.pulls.push_back({whole(1, first - 1), even(-1, 1), whole(0, 3) ? decades(1e-6, 1e-2) : -1e-7});
  c.gmin = whole(0, 1) ? 1e-12 : decades(1e-14, 1e-9);
  return c;
}

}  // namespace bilevel::networks
