#pragma once

#include <vector>

#include <bilevel/networks/circuit_equations.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel::networks {

/// Conductances θ of a circuit's resistors, learned so that some nodes come to rest where they should. The
/// circuit is given once; each sample puts other voltages on its sources and has its own targets y.
///   φ = the voltages that nothing holds, sample after sample;   L_in = mean over samples of the co-content E
///   L_out = mean over samples of ½‖v_out − y‖²
/// E and the squared distance add up node by node, so that nudging by β is a pull of β siemens on every
/// output node. Fixed resistors are learned ones whose bounds coincide.
class CircuitProblem final : public Problem<Eigen::VectorXd> {
 public:
  using Vec = Eigen::VectorXd;
  using Mat = Eigen::MatrixXd;

  /// `sources` has a row for each voltage source of the circuit and a column for each sample, `targets` a row
  /// for each output node. Throws InvalidInput, naming what does not fit.
  CircuitProblem(Circuit circuit, std::vector<int> outputs, Mat sources, Mat targets);

  /// The samples that φ and the means are of from now on; all of them at first. An estimator keeps the size
  /// of φ that it was made with: give it batches of one size.
  void select(std::vector<Index> samples);

  Vec initial_phi() const override { return Vec::Zero(nodes() * samples()); }
  Vec initial_theta() const override;
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override;
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override;
  Constants constants(const Vec& theta, const Vec& center, double radius) override;

  Index nodes() const { return equations_.size(); }  ///< free ones, of one sample
  Index samples() const { return static_cast<Index>(selected_.size()); }
  const std::vector<int>& outputs() const { return outputs_; }
  /// What is put on the sources for the k-th selected sample, and its targets.
  auto sources(Index k) const { return sources_.col(selected_[static_cast<std::size_t>(k)]); }
  auto targets(Index k) const { return targets_.col(selected_[static_cast<std::size_t>(k)]); }
  /// Voltages of the output nodes, a column for each selected sample.
  Mat output_volts(const Vec& phi) const;

  /// The circuit with a pull for each output node at the end of its pulls, and its equations, for solvers.
  const Circuit& circuit() const { return equations_.circuit(); }
  std::size_t first_output_pull() const { return first_pull_; }
  CircuitEquations& equations() { return equations_; }
  /// Puts θ into the equations, then sample k nudged by β.
  void set_theta(const Vec& theta) { equations_.set_conductances(theta); }
  void set_sample(Index k, double beta);
  /// Throws InvalidInput that names the first conductance which is negative or not finite.
  void require_conductances(const Vec& theta, std::string_view what) const;

 private:
  double weight() const { return 1 / static_cast<double>(samples()); }

  std::size_t first_pull_;
  CircuitEquations equations_;
  std::vector<int> outputs_;
  Mat sources_, targets_;
  std::vector<Index> selected_;
  Vec start_;
};

}  // namespace bilevel::networks
