// Derivatives of the losses, the exact gradient against equilibrium propagation, and training.
#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/exact.hpp>
#include <bilevel/networks/circuit_solver.hpp>
#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/problem/check.hpp>

#include <refusal.hpp>

#include "network_cases.hpp"

namespace bilevel::networks {
namespace circuit_problem_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Three inputs, amplifiers, both kinds of diodes; five samples.
CircuitProblem small_problem(std::uint64_t seed, double gain = 2) {
  const LayeredCircuit network = layered_circuit({.sizes = {3, 4, 3, 2},
                                                  .input_volts = 3,
                                                  .gains = {gain, 1 / gain},
                                                  .diode = {.saturation_current = 1e-6},
                                                  .seed = seed});
  Vec values(15 + 10);
  Space<Vec>::random(seed, values);
  const Mat inputs = values.head(15).reshaped(3, 5), targets = 0.3 * values.tail(10).reshaped(2, 5);
  return CircuitProblem(network.circuit, network.outputs, network.sources(inputs), targets);
}

TEST(CircuitProblem, DerivativesAreRight) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CircuitProblem problem = small_problem(seed);
    const Vec theta = problem.initial_theta();
    CircuitSolver solver(problem);
    Vec phi = solver.solve(theta, 0, problem.initial_phi()).phi;
    phi *= 0.9;  // not at rest
    const CheckReport report = check_derivatives<Vec>(problem, phi, theta, {.seed = seed, .beta = 0.01});
    EXPECT_TRUE(report.passed()) << "seed " << seed << "\n" << report.table();
  }
}

TEST(CircuitProblem, EquilibriumPropagationFindsTheExactGradient) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    CircuitProblem problem = small_problem(seed);
    CircuitSolver solver(problem);
    const Vec theta = problem.initial_theta();
    const auto exact = Exact<Vec>(problem, solver).estimate(theta, {});
    ASSERT_EQ(exact.status, Status::converged) << exact.message;
    EquilibriumPropagation<Vec> propagation(problem, solver, {.nudge = Nudge::central, .beta = 1e-5});
    const auto nudged = propagation.estimate(theta, {});
    EXPECT_EQ(nudged.status, Status::converged) << nudged.message;
    EXPECT_LE((nudged.gradient - exact.gradient).norm(), 1e-6 * exact.gradient.norm()) << "seed " << seed;
  }
}

TEST(CircuitProblem, ExactGradientIsTheDifferenceOfWholeSolves) {
  CircuitProblem problem = small_problem(7);
  CircuitSolver solver(problem);
  const Vec theta = problem.initial_theta();
  const Vec gradient = Exact<Vec>(problem, solver).estimate(theta, {}).gradient;
  const auto value = [&](const Vec& at) {
    return problem.outer(solver.solve(at, 0, problem.initial_phi()).phi, at, {});
  };
  for (Index i = 0; i < theta.size(); i += 5) {
    const double h = 1e-4 * theta[i];
    Vec up = theta, down = theta;
    up[i] += h;
    down[i] -= h;
    EXPECT_NEAR((value(up) - value(down)) / (2 * h), gradient[i], 1e-7 * gradient.norm())
        << "conductance " << i;
  }
}

TEST(CircuitProblem, SamplesAreSettledOneByOne) {
  CircuitProblem problem = small_problem(1);
  CircuitSolver solver(problem);
  const Vec theta = problem.initial_theta();
  const Mat all = problem.output_volts(solver.solve(theta, 0.01, problem.initial_phi()).phi);
  problem.select({3, 1});
  EXPECT_EQ(problem.initial_phi().size(), 2 * problem.nodes());
  const Mat two = problem.output_volts(solver.solve(theta, 0.01, problem.initial_phi()).phi);
  EXPECT_EQ(two.col(0), all.col(3));
  EXPECT_EQ(two.col(1), all.col(1));
  EXPECT_THROW(problem.select({5}), InvalidInput);
  EXPECT_THROW(problem.select({}), InvalidInput);
}

TEST(CircuitProblem, NamesWhatItRefuses) {
  CircuitProblem problem = small_problem(1);
  CircuitSolver solver(problem);
  Vec theta = problem.initial_theta();
  theta[2] = -0.25;
  EXPECT_EQ(refusal([&] { solver.solve(theta, 0, problem.initial_phi()); }),
            "circuit: conductance 2 = -0.25 S must be zero or more and finite");
  theta[2] = std::nan("");
  EXPECT_EQ(refusal([&] { solver.solve(theta, 0, problem.initial_phi()); }),
            "circuit: conductance 2 = nan S must be zero or more and finite");
  theta[2] = 0;
  EXPECT_EQ(refusal([&] { solver.solve(theta, INFINITY, problem.initial_phi()); }),
            "circuit: beta = inf must be finite");
  EXPECT_EQ(solver.solve(theta, 0, problem.initial_phi()).status, Status::converged);

  const LayeredCircuit network = layered_circuit({.sizes = {1, 2, 1}});
  const Mat x = Mat::Ones(1, 2), y = Mat::Zero(1, 2);
  const auto make = [&](const Mat& sources, const Mat& targets, int output) {
    return refusal([&] { CircuitProblem(network.circuit, {output}, sources, targets); });
  };
  EXPECT_NE(make(network.sources(x), Mat::Zero(1, 3), network.outputs[0]).find("targets 1x3"),
            std::string::npos);
  EXPECT_EQ(make(network.sources(x), y, 1), "circuit problem: output node 1 is held by a source");
  Mat bad = network.sources(x);
  bad(0, 1) = std::nan("");
  EXPECT_EQ(make(bad, y, network.outputs[0]), "circuit problem: source 0 of sample 1 is nan");
  EXPECT_NE(refusal([&] { network.sources(Mat::Ones(2, 1)); }).find("2 inputs, the network 1"),
            std::string::npos);
}

TEST(CircuitProblem, SaysWhichNodeFloats) {
  CircuitProblem problem = small_problem(1, 1);
  CircuitSolver solver(problem);
  // Without its conductances an output node is joined to nothing.
  Vec theta = problem.initial_theta();
  const int node = problem.outputs()[0];
  for (std::size_t i = 0; i < problem.circuit().resistors.size(); ++i)
    if (problem.circuit().resistors[i].b == node) theta[static_cast<Index>(i)] = 0;
  const auto s = solver.solve(theta, 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::singular);
  EXPECT_NE(s.message.find(fmt::format("node {} floats", node)), std::string::npos) << s.message;
}

/// The circuit of a resistive network rests where the network does, the closer the more ideal its diodes.
TEST(LayeredCircuit, IsTheResistiveNetwork) {
  for (const std::vector<Index>& layers : {std::vector<Index>{5, 3}, {5, 7, 3}, {5, 6, 4, 3}}) {
    const Architecture a{.energy = Energy::resistive,
                         .layers = layers,
                         .activation = Activation::diode,
                         .input_gain = 8,
                         .gain = 1.5};
    SCOPED_TRACE(network_cases::label(a));
    NetworkProblem network = network_cases::problem(a, 6, 11);
    Relaxation relaxation(network, network_cases::tight(a));
    const Vec theta = network.initial_theta();
    const Vec phi = relaxation.solve(theta, 0, network.initial_phi()).phi;
    const Eigen::Map<const Mat> outputs(phi.data() + phi.size() - 6 * a.outputs(), a.outputs(), 6);
    double before = 0;
    for (const double emission : {0.1, 0.01}) {
      LayeredCircuit built = layered_circuit(a, theta, {.emission = emission});
      ASSERT_EQ(static_cast<std::size_t>(built.sources(network.samples().inputs).rows()),
                built.circuit.sources.size());
      double worst = 0;
      for (Index n = 0; n < 6; ++n) {
        built.clamp(network.samples().inputs.col(n));
        const OperatingPoint rest = operating_point(built.circuit);
        ASSERT_TRUE(succeeded(rest.status)) << rest.message;
        for (Index i = 0; i < a.outputs(); ++i)
          worst = std::max(
              worst, std::abs(rest.voltages[built.outputs[static_cast<std::size_t>(i)]] - outputs(i, n)));
      }
      if (layers.size() == 2) {
        EXPECT_LE(worst, 1e-9);
      } else if (before > 0) {
        EXPECT_LE(worst, 0.01);
        EXPECT_NEAR(before / worst, 10, 4);
      }
      before = worst;
    }
  }
  const Architecture hopfield{.energy = Energy::hopfield, .layers = {5, 3}};
  EXPECT_NE(refusal([&] { layered_circuit(hopfield, Vec::Zero(18)); }).find("hopfield is no circuit"),
            std::string::npos);
}

TEST(LayeredCircuit, NamesWhatItRefuses) {
  const auto text = [](const LayeredCircuitOptions& options) {
    return fmt::format("{}", fmt::join(options.validate().texts(), "; "));
  };
  EXPECT_NE(text({.sizes = {3}}).find("sizes = [3]"), std::string::npos);
  EXPECT_NE(text({.sizes = {3, 0, 1}}).find("sizes[1] = 0"), std::string::npos);
  EXPECT_NE(text({.sizes = {3, 2, 1}, .gains = {1, 2}}).find("gains = [1, 2]"), std::string::npos);
  EXPECT_NE(text({.sizes = {3, 2, 1}, .gains = {-1}}).find("gains[0] = -1"), std::string::npos);
  EXPECT_NE(text({.sizes = {3, 1}, .input_volts = 0}).find("input_volts = 0"), std::string::npos);
  EXPECT_NE(text({.sizes = {3, 1}, .most_siemens = 1e-3}).find("most_siemens = 0.001"), std::string::npos);
  EXPECT_EQ(text({.sizes = {3, 2, 1}, .gains = {4}}), "");
}

}  // namespace circuit_problem_test
}  // namespace bilevel::networks
