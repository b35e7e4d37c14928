// Circuits with a closed form, random ones against Kirchhoff's law, and what is refused.
#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/networks/circuit_equations.hpp>
#include <bilevel/networks/netlist.hpp>
#include <bilevel/space/eigen.hpp>

#include "networks/random_circuit.hpp"

namespace bilevel::networks {
namespace circuit_test {

using Vec = Eigen::VectorXd;

/// 1 kΩ from a source to node 2, and a diode from there to ground.
Circuit rectifier(double volts, const Diode& like = {}) {
  Circuit c;
  c.nodes = 3;
  c.sources = {{1, volts}};
  c.resistors = {{1, 2, 1e-3}};
  Diode d = like;
  d.anode = 2;
  d.cathode = 0;
  c.diodes = {d};
  return c;
}

TEST(Circuit, DividerHasItsClosedForm) {
  Circuit c;
  c.nodes = 3;
  c.sources = {{1, 6}};
  c.resistors = {{1, 2, 0.25}, {2, 0, 0.5}};
  const OperatingPoint p = operating_point(c);
  EXPECT_EQ(p.status, Status::converged) << p.message;
  EXPECT_NEAR(p.voltages[2], 2, 1e-15);
  EXPECT_EQ(p.voltages[0], 0);
  EXPECT_EQ(p.voltages[1], 6);
}

TEST(Circuit, SourcesOfCurrentPullsAndAmplifiersHaveTheirClosedForm) {
  Circuit c;
  c.nodes = 4;
  // 3 mA into node 1 with 1 mS to ground; an amplifier of gain 2 drives node 2, loaded with 0.5 mS to node 3.
  c.currents = {{0, 1, 3e-3}};
  c.resistors = {{1, 0, 1e-3}, {2, 3, 0.5e-3}};
  c.amplifiers = {{1, 2, 2}};
  c.pulls = {{3, 1, 0.5e-3}};
  // v3 = (2·v1 + 1)/2, and at node 1: 3 = v1 + 2·0.5·(2·v1 − v3) = v1 + v1 − 0.5, so v1 = 1.75, v3 = 2.25.
  const OperatingPoint p = operating_point(c);
  EXPECT_EQ(p.status, Status::converged) << p.message;
  EXPECT_NEAR(p.voltages[1], 1.75, 1e-14);
  EXPECT_NEAR(p.voltages[2], 3.5, 1e-14);
  EXPECT_NEAR(p.voltages[3], 2.25, 1e-14);
}

/// The root of (volts − v)·g = i(v), which decreases on the left and increases on the right.
double by_bisection(double volts, const Diode& d, double gmin) {
  const double V = d.thermal_volts(), is = d.saturation_current;
  const auto excess = [&](double v) {
    const double x = 3 * V / (v * std::exp(1.0));
    const double i = v >= -3 * V ? is * std::expm1(v / V) : -is * (1 + x * x * x);
    return i + gmin * v - (volts - v) * 1e-3;
  };
  double low = std::min(volts, -1.0) - 1, high = 2;
  for (int i = 0; i < 200; ++i) (excess(0.5 * (low + high)) < 0 ? low : high) = 0.5 * (low + high);
  return 0.5 * (low + high);
}

TEST(Circuit, DiodeBehindAResistorSitsWhereBisectionFindsIt) {
  for (const double volts : {-100.0, -5.0, -0.1, -0.05, 0.0, 1e-3, 0.4, 0.7, 5.0, 100.0, 1e5})
    for (const Diode& like : {Diode{}, Diode{.saturation_current = 1e-6, .emission = 1.7, .kelvin = 350}}) {
      SCOPED_TRACE(::testing::Message() << volts << " V, Is " << like.saturation_current);
      const Circuit c = rectifier(volts, like);
      const OperatingPoint p = operating_point(c);
      EXPECT_EQ(p.status, Status::converged) << p.message;
      const double expected = by_bisection(volts, like, c.gmin);
      EXPECT_NEAR(p.voltages[2], expected, 1e-12 * std::max(1.0, std::abs(expected)));
    }
}

TEST(Circuit, AnyStartLeadsToTheSameState) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Circuit c = random_circuit(seed);
    const OperatingPoint cold = operating_point(c);
    Vec start(c.nodes);
    Space<Vec>::random(seed, start);
    for (const double size : {1.0, 1e3, 1e200}) {
      const OperatingPoint warm = operating_point(c, {}, size * start);
      EXPECT_EQ(warm.status, Status::converged) << warm.message;
      EXPECT_LE((warm.voltages - cold.voltages).cwiseAbs().maxCoeff(),
                1e-7 * std::max(1.0, cold.voltages.cwiseAbs().maxCoeff()));
    }
    EXPECT_LE(operating_point(c, {}, cold.voltages).iterations, 2);
  }
}

TEST(Circuit, RandomCircuitsSettleQuicklyToRounding) {
  long most = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const OperatingPoint p = operating_point(random_circuit(seed));
    EXPECT_EQ(p.status, Status::converged) << "seed " << seed << ": " << p.message;
    EXPECT_LE(p.residual, 1e-12) << "seed " << seed;
    most = std::max(most, p.iterations);
  }
  EXPECT_LE(most, 80);
}

#ifdef EIGEN_RUNTIME_NO_MALLOC
TEST(Circuit, SettlingAllocatesNothing) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CircuitEquations equations(random_circuit(seed));
    Vec x = Vec::Zero(equations.size());
    Eigen::internal::set_is_malloc_allowed(false);
    const auto outcome = equations.settle(x, {});
    Eigen::internal::set_is_malloc_allowed(true);
    EXPECT_EQ(outcome.status, Status::converged) << "seed " << seed;
  }
}
#endif

TEST(Circuit, GradientAndHessianAreThoseOfTheEnergy) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    CircuitEquations equations(random_circuit(seed));
    const Index n = equations.size();
    // Near rest, where diodes conduct but do not explode.
    Vec x = Vec::Zero(n), d(n), left(n), right(n);
    equations.settle(x, {});
    x *= 0.95;
    Space<Vec>::random(seed, d);
    const double h = 1e-6;
    Eigen::Ref<Vec> to_left = left, to_right = right;
    const double up = equations.energy(x + h * d, &to_right), down = equations.energy(x - h * d, &to_left);
    Eigen::MatrixXd hessian;
    equations.hessian(x, hessian);
    const Vec curved = hessian * d;
    EXPECT_LE((right - left - 2 * h * curved).norm(), 1e-6 * h * curved.norm() + 1e-13 * right.norm());
    // The trapezoidal rule errs by h³, here by 1e-12 of the difference at most; the rest is rounding of E.
    EXPECT_NEAR(up - down, h * (right + left).dot(d),
                1e-8 * h * right.norm() * d.norm() + 1e-13 * std::abs(up));
  }
}

TEST(Circuit, NudgesOfEitherSignSettleUntilTheyOutweighTheConductances) {
  Circuit c = rectifier(-3);  // the diode is off: 1 mS against the pull
  c.gmin = 0;
  c.pulls = {{2, 1, -0.5e-3}};
  EXPECT_NEAR(operating_point(c).voltages[2], -7, 1e-6);  // 1·(v + 3) = 0.5·(v − 1), but for Is
  c.pulls[0].siemens = -2e-3;
  const OperatingPoint p = operating_point(c);
  EXPECT_EQ(p.status, Status::negative_curvature) << p.message;
  EXPECT_NE(p.message.find("node 2"), std::string::npos) << p.message;
}

/// What validate() says, in one text.
std::string complaints(const Circuit& c) {
  return fmt::format("{}", fmt::join(c.validate().texts(), "\n"));
}

TEST(Circuit, NamesEveryViolatedValue) {
  Circuit c = rectifier(1);
  EXPECT_EQ(complaints(c), "");
  c.resistors[0].siemens = -0.5;
  c.diodes[0].saturation_current = 0;
  c.sources[0].volts = std::nan("");
  const std::string text = complaints(c);
  for (const char* part : {"circuit.resistors[0].siemens = -0.5 must be zero or more and finite",
                           "circuit.diodes[0].saturation_current = 0 must be positive and finite",
                           "circuit.sources[0].volts = nan must be finite"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_THROW(operating_point(c), InvalidInput);
  EXPECT_THROW(netlist(c), InvalidInput);
}

TEST(Circuit, RefusesWhatHasNoSolution) {
  const auto expect = [](const Circuit& c, const char* part) {
    EXPECT_NE(complaints(c).find(part), std::string::npos) << part << "\n" << complaints(c);
  };
  Circuit c = rectifier(1);
  c.resistors[0].b = 3;
  expect(c, "circuit.resistors[0].b = 3 must be a node, 0 to 2");
  c = rectifier(1);
  c.sources.push_back({1, 2});
  expect(c, "circuit.node = 1 is held by more than one source or amplifier");
  c = rectifier(1);
  c.sources.push_back({0, 2});
  expect(c, "circuit.node = 0 is ground");
  c = rectifier(1);
  c.nodes = 4;
  expect(c, "circuit.node = 3 has no conducting path to ground or to a source");
  c = rectifier(1);
  c.nodes = 5;
  c.amplifiers = {{3, 4, 2}, {4, 3, 0.5}};
  expect(c, "circuit.amplifiers[0].output = 4 depends on itself through amplifiers");
  c = rectifier(1);
  c.nodes = 4;
  c.amplifiers = {{2, 3, 0}};
  expect(c, "circuit.amplifiers[0].gain = 0 must be finite and not zero");
  c = rectifier(1);
  c.gmin = -1;
  expect(c, "circuit.gmin = -1 must be zero or more and finite");
  EXPECT_THROW(operating_point(rectifier(1), {.tolerance = 0}), InvalidInput);
  EXPECT_THROW(operating_point(rectifier(1), {}, Vec::Zero(2)), InvalidInput);
}

TEST(Netlist, StatesEveryElement) {
  Circuit c = rectifier(0.1);
  c.nodes = 4;
  c.amplifiers = {{2, 3, 3}};
  c.resistors.push_back({3, 0, 0});
  c.currents = {{0, 2, 1e-3}};
  c.pulls = {{2, 0.5, -1e-4}};
  EXPECT_EQ(netlist(c, {.title = "all kinds"}),
            "* all kinds\n"
            "R0 n1 n2 1000\n"
            "R1 n3 0 9.9999999999999988e+29\n"
            "V0 n1 0 0.10000000000000001\n"
            "I0 0 n2 0.001\n"
            "D0 n2 0 junction0 temp=27\n"
            ".model junction0 d(is=1e-14 n=1 tnom=27)\n"
            "E0 s0 0 n2 0 3\n"
            "VS0 s0 n3 0\n"
            "F0 n2 0 VS0 3\n"
            "VP0 p0 0 0.5\n"
            "G0 n2 p0 n2 p0 -0.0001\n"
            ".options reltol=1e-10 abstol=9.9999999999999998e-17 "
            "vntol=9.9999999999999998e-13 gmin=9.9999999999999998e-13\n"
            ".op\n"
            ".end\n");
  EXPECT_THROW(netlist(c, {.title = "two\nlines"}), InvalidInput);
  EXPECT_THROW(netlist(c, {.reltol = -1}), InvalidInput);
}

}  // namespace circuit_test
}  // namespace bilevel::networks
