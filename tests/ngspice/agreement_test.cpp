// Our own circuit solver against ngspice.
#include <algorithm>

#include <gtest/gtest.h>

#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/networks/netlist.hpp>
#include <bilevel/ngspice/ngspice_solver.hpp>

#include "networks/network_cases.hpp"
#include "networks/random_circuit.hpp"

namespace bilevel::networks {
namespace agreement_test {

TEST(NgspiceAgreement, RandomCircuitsRestAtTheSameVoltages) {
  double worst = 0, worst_residual = 0, worst_theirs = 0;
  long iterations = 0, most = 0, diodes = 0, amplifiers = 0;
  constexpr int count = 400;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Circuit circuit = random_circuit(seed);
    const OperatingPoint ours = operating_point(circuit), theirs = ngspice_operating_point(circuit);
    EXPECT_TRUE(succeeded(ours.status)) << ours.message;
    EXPECT_TRUE(succeeded(theirs.status)) << theirs.message;
    ASSERT_TRUE(theirs.voltages.allFinite());
    const double difference = (ours.voltages - theirs.voltages).cwiseAbs().maxCoeff();
    EXPECT_LE(difference, 1e-6);
    EXPECT_LE(ours.residual, 1e-12);
    worst = std::max(worst, difference);
    worst_residual = std::max(worst_residual, ours.residual);
    worst_theirs = std::max(worst_theirs, theirs.residual);
    iterations += ours.iterations;
    most = std::max(most, ours.iterations);
    diodes += static_cast<long>(circuit.diodes.size());
    amplifiers += static_cast<long>(circuit.amplifiers.size());
  }
  EXPECT_GT(diodes, 2 * count);
  EXPECT_GT(amplifiers, count / 2);
  std::printf(
      "%d circuits, %ld diodes, %ld amplifiers: voltages within %.3g V, residuals %.3g and %.3g, "
      "%.1f iterations of ours, at most %ld\n",
      count, diodes, amplifiers, worst, worst_residual, worst_theirs, static_cast<double>(iterations) / count,
      most);
}

/// A resistive network of the energy with ideal diodes, exported: ngspice rests where the network does.
TEST(NgspiceAgreement, TheNetlistOfAResistiveNetworkRestsWhereItDoes) {
  const Architecture a{.energy = Energy::resistive,
                       .layers = {12, 10, 6, 4},
                       .activation = Activation::diode,
                       .input_gain = 20,
                       .gain = 2};
  constexpr Index count = 8;
  NetworkProblem network = network_cases::problem(a, count, 5);
  Relaxation relaxation(network, network_cases::tight(a));
  const Eigen::VectorXd phi = relaxation.solve(network.initial_theta(), 0, network.initial_phi()).phi;
  const Eigen::Map<const Eigen::MatrixXd> outputs(phi.data() + phi.size() - count * a.outputs(), a.outputs(),
                                                  count);
  LayeredCircuit built = layered_circuit(a, network.initial_theta());
  for (Index n = 0; n < count; ++n) {
    built.clamp(network.samples().inputs.col(n));
    const OperatingPoint theirs = ngspice_operating_point(netlist(built.circuit), built.circuit.nodes),
                         ours = operating_point(built.circuit);
    ASSERT_TRUE(succeeded(theirs.status)) << theirs.message;
    EXPECT_LE((theirs.voltages - ours.voltages).cwiseAbs().maxCoeff(), 1e-6);
    for (Index i = 0; i < a.outputs(); ++i)
      // Diodes drop some 8 mV, and each of the two amplifiers doubles that.
      EXPECT_NEAR(theirs.voltages[built.outputs[static_cast<std::size_t>(i)]], outputs(i, n), 0.02);
  }
}

}  // namespace agreement_test
}  // namespace bilevel::networks
