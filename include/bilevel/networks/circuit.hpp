#pragma once

#include <string>
#include <vector>

#include <Eigen/Core>

#include <bilevel/outcome/status.hpp>
#include <bilevel/outcome/violations.hpp>

namespace bilevel::networks {

/// Current siemens·(v_a − v_b) from a to b.
struct Resistor {
  int a = 0, b = 0;
  double siemens = 0;
};

/// Holds `node` at `volts` above ground.
struct VoltageSource {
  int node = 0;
  double volts = 0;
};

/// Carries `amperes` from node `from` to node `to`.
struct CurrentSource {
  int from = 0, to = 0;
  double amperes = 0;
};

/// Shockley's diode as SPICE has it: with u = v_anode − v_cathode and V = emission·kT/q
///   i(u) = Is·(exp(u/V) − 1) + gmin·u                    for u ≥ −3V
///   i(u) = −Is·(1 + (3V/(e·u))³) + gmin·u                below: what leaks tends to Is by a power, not exp
/// The two pieces meet with equal slope; i increases everywhere, so that its integral is convex.
struct Diode {
  int anode = 0, cathode = 0;
  double saturation_current = 1e-14;  ///< Is, amperes
  double emission = 1;                ///< n
  double kelvin = 300.15;             ///< SPICE's 27 °C; Is is that of this temperature

  /// V = n·kT/q, with Boltzmann's constant and the elementary charge of CODATA 2014, as in ngspice 39. The
  /// values of 2018 are larger by 3.4e-7, which moves a drop of 0.7 V by 0.2 µV.
  double thermal_volts() const { return emission * kelvin * (1.38064852e-23 / 1.6021766208e-19); }
};

/// Copies gain·v_input to `output`, which it holds, and draws gain times the current that it delivers there
/// from `input`: power in equals power out, so that what lies behind it counts in the energy of the circuit
/// as it stands, with v_output = gain·v_input.
struct Amplifier {
  int input = 0, output = 0;
  double gain = 1;
};

/// Current siemens·(volts − v_node) into the node, of either sign: how a loss ½(v − y)² leans on a node.
struct Pull {
  int node = 0;
  double volts = 0;
  double siemens = 0;
};

/// A circuit at rest, as plain data. Node 0 is ground. It settles where its co-content (Millar 1951) is
/// stationary as a function of the voltages that nothing holds,
///   E = Σ ½g(v_a − v_b)² + Σ ∫ i(u) du − Σ I(v_to − v_from) + Σ ½s(v − volts)²,
/// which is convex, so that there is one such state, where no pull has negative siemens.
struct Circuit {
  int nodes = 1;  ///< with ground
  std::vector<Resistor> resistors{};
  std::vector<VoltageSource> sources{};
  std::vector<CurrentSource> currents{};
  std::vector<Diode> diodes{};
  std::vector<Amplifier> amplifiers{};
  std::vector<Pull> pulls{};
  double gmin = 1e-12;  ///< across every diode, siemens; SPICE's default

  /// Names every value out of range, nodes that do not exist, are held twice, drive themselves in a circle,
  /// or have no conducting path to anything whose voltage is given.
  Violations validate() const;
};

struct OperatingPointOptions {
  /// Largest residual current of a node, relative to Σ (slope·(|v_a| + |v_b|) + |i|) over its branches:
  /// the relative change of voltages that would explain it. Below 1e-14 rounding is in the way.
  double tolerance = 1e-12;
  long max_iterations = 500;

  Violations validate() const;
};

struct OperatingPoint {
  Eigen::VectorXd voltages;  ///< of every node, ground first
  Status status = Status::not_run;
  std::string message;
  long iterations = 0;
  double residual = 0;  ///< in the units of OperatingPointOptions::tolerance
};

/// Settles the circuit by Newton's method on its co-content. Throws InvalidInput where validate() complains.
/// `start` holds voltages of every node to start from; empty for zero.
OperatingPoint operating_point(const Circuit& circuit, const OperatingPointOptions& options = {},
                               const Eigen::VectorXd& start = {});

}  // namespace bilevel::networks
