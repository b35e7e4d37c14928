#pragma once

#include <memory>
#include <string>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/networks/circuit_problem.hpp>
#include <bilevel/networks/netlist.hpp>

namespace bilevel::networks {

struct NgspiceOptions {
  /// The shared library; empty for the one that the environment variable BILEVEL_NGSPICE_LIBRARY names, else
  /// `libngspice.so.0`. It is loaded when it is first wanted and holds one circuit at a time: calls wait for
  /// each other.
  std::string library{};
  double reltol = 1e-10, abstol = 1e-16, vntol = 1e-12;  ///< see NetlistOptions
  /// What a state may miss Kirchhoff's law by, in the units of OperatingPointOptions::tolerance, before it is
  /// reported as not settled. It is measured at the voltages that ngspice returns.
  double residual = 1e-6;

  Violations validate() const;
};

/// Settles the circuit by ngspice. Throws InvalidInput where the circuit is not valid or ngspice cannot be
/// loaded; that it does not converge is a status, with what it said in the message.
OperatingPoint ngspice_operating_point(const Circuit& circuit, const NgspiceOptions& options = {});

/// The same for SPICE text of your own, whose title is its first line. `voltages` are those of nodes n1, n2,
/// … up to `nodes` − 1, NaN where the text has no such node.
OperatingPoint ngspice_operating_point(const std::string& netlist, int nodes,
                                       const NgspiceOptions& options = {});

/// Settles every selected sample of a CircuitProblem by ngspice: conductances are loaded when θ changes, the
/// nudge is altered when β changes, and the sources of a sample are handed over while ngspice asks for them.
/// Where ngspice finds no state for a sample, the start is returned for it. The problem must outlive it.
class NgspiceSolver final : public InnerSolver<Eigen::VectorXd> {
 public:
  explicit NgspiceSolver(CircuitProblem& problem, NgspiceOptions options = {});
  ~NgspiceSolver() override;
  std::string_view name() const override { return "ngspice"; }
  Solution<Eigen::VectorXd> solve(const Eigen::VectorXd& theta, double beta,
                                  const Eigen::VectorXd& start) override;

  long loads() const;    ///< circuits that were parsed
  long alters() const;   ///< elements that were changed in place
  long settled() const;  ///< operating points asked for

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bilevel::networks
