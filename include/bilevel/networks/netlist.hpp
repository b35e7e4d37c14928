#pragma once

#include <string>

#include <bilevel/networks/circuit.hpp>

namespace bilevel::networks {

/// How accurately SPICE shall settle the circuit. Its Newton iteration stops when no voltage changes by more
/// than reltol·|v| + vntol and no current by more than reltol·|i| + abstol; since it converges quadratically,
/// what is left then is far smaller.
struct NetlistOptions {
  std::string title = "circuit at rest";  ///< one line
  double reltol = 1e-10;
  double abstol = 1e-16;  ///< amperes
  double vntol = 1e-12;   ///< volts
  /// Sources and the targets of pulls ask the program that holds the simulator for their voltage (ngspice's
  /// EXTERNAL), instead of stating it.
  bool external_sources = false;

  Violations validate() const;
};

/// The circuit as SPICE text, every value with 17 digits; also read by `ngspice -b`. Node k is `n<k>`; the
/// i-th element of each kind is R, V, I or D with that number; a pull is `G<i>` towards a source `VP<i>`; an
/// amplifier is a voltage-controlled source `E<i>`, an ammeter `VS<i>` and a current-controlled `F<i>`.
/// Every diode model is given at the temperature of its diodes, so that SPICE does not rescale Is, and has no
/// series resistance and no breakdown. A conductance below 1e-30 S is written as 1e30 Ω: SPICE has no zero.
std::string netlist(const Circuit& circuit, const NetlistOptions& options = {});

}  // namespace bilevel::networks
