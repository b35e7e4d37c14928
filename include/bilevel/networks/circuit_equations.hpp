#pragma once

#include <string>
#include <vector>

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <bilevel/networks/circuit.hpp>
#include <bilevel/problem/equilibrium.hpp>

namespace bilevel::networks {

/// The equations of a circuit in the voltages x of the nodes that nothing holds. Every other node follows one
/// of them through amplifiers, v = scale·x, or is given. Values of the elements can be changed between
/// solves, which then allocate nothing. One object, one thread.
class CircuitEquations {
 public:
  using Vec = Eigen::VectorXd;
  using In = const Eigen::Ref<const Vec>&;

  /// Where the voltage of a node comes from: scale·x[free] or scale times that of a source; ground has
  /// neither.
  struct Place {
    Index free = -1;
    Index source = -1;
    double scale = 1;
  };

  /// Throws InvalidInput where the circuit's validate() complains.
  explicit CircuitEquations(Circuit circuit);

  Index size() const { return static_cast<Index>(free_nodes_.size()); }
  const Circuit& circuit() const { return circuit_; }
  const Place& place(int node) const { return places_[static_cast<std::size_t>(node)]; }
  int free_node(Index i) const { return free_nodes_[static_cast<std::size_t>(i)]; }
  double volts(int node, In x) const;

  /// New values, one for each resistor or source, unchecked.
  void set_conductances(const Vec& siemens);
  void set_sources(In volts);
  void set_pull(std::size_t pull, double volts, double siemens);

  /// The co-content E; its gradient, the currents that leave the free nodes, where wanted.
  double energy(In x, Eigen::Ref<Vec>* gradient);
  /// Adds weight·∂E/∂g = weight·½(v_a − v_b)² of every resistor.
  void add_conductance_slopes(In x, double weight, Vec& out);
  /// Adds weight·Σ_i p_i ∂²E/∂x_i∂g = weight·(v_a − v_b)(p_a − p_b), p carried to the nodes as x is.
  void add_cross_times(In x, In p, double weight, Vec& out);
  /// Adds weight·Σ_g ∂²E/∂x∂g·u_g.
  void add_cross_apply(In x, const Vec& u, double weight, Eigen::Ref<Vec>&& out);
  /// ∂²E/∂x².
  void hessian(In x, Eigen::MatrixXd& out);

  struct Outcome {
    Status status = Status::not_run;
    long iterations = 0;
    double residual = unknown;  ///< in the units of OperatingPointOptions::tolerance
    Index worst = 0;            ///< the free node that has it, or that floats
  };
  /// Newton's method on E with Cholesky factors; x holds the start and becomes the state.
  Outcome settle(Eigen::Ref<Vec> x, const OperatingPointOptions& options);
  std::string message(const Outcome& outcome, const OperatingPointOptions& options) const;
  /// How far x is from rest, in the same units; voltages below `least_volts` count as that much, for states
  /// that were found to an absolute accuracy.
  Outcome measure(In x, double least_volts);
  /// Whether E curves upwards at the x last measured, so that what rests there is a minimum.
  bool curves_upwards();

 private:
  void resolve_places();
  void carry(In x, Vec& nodes, bool given) const;
  void gather(const Vec& nodes, double weight, Eigen::Ref<Vec> out) const;
  void stamp(int a, int b, double siemens);
  void assemble();
  void add_diode(const Diode& diode, double current, double slope);
  double given_volts(int node) const { return place(node).free >= 0 ? 0 : volts(node, direction_); }
  Outcome linearise(In x, double least_volts);
  long predict(Eigen::Ref<Vec> x);
  bool factor();
  double search(double linear_slope);
  double content(In x);

  Circuit circuit_;
  std::vector<Place> places_;
  std::vector<int> free_nodes_;
  Vec node_volts_, node_other_;  // of every node
  // The linear part of ∂E is linear_·x − push_; the others hold the sizes of the terms of both.
  Eigen::MatrixXd linear_, linear_size_, hessian_;
  Vec push_, push_size_, gradient_, scale_, direction_, product_;
  Vec diode_volts_, diode_step_;
  Eigen::LLT<Eigen::MatrixXd> factor_;
  double shift_ = 0;  // added to the diagonal so that the last factor exists, relative to its largest element
};

}  // namespace bilevel::networks
