#include "network_cases.hpp"

#include <gtest/gtest.h>

#include <bilevel/gradient/exact.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/problem/check.hpp>

#include <refusal.hpp>

namespace network_problem_test {

using namespace network_cases;

/// Inside all bounds, away from them.
Vec inside(const Architecture& a, Index batch, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform(0.1, 0.9);
  Vec phi(a.states() * batch);
  Index at = 0;
  for (Index k = 1; k <= a.depth(); ++k)
    for (Index n = 0; n < batch; ++n)
      for (Index i = 0; i < a.width(k); ++i)
        phi[at++] = (a.resistive() && a.bounded(k) && i % 2 == 1 ? -1 : 1) * uniform(engine);
  return phi;
}

TEST(NetworkProblem, DerivativesPassTheCheckOfTheLibrary) {
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    for (const std::uint64_t seed : {1u, 2u}) {
      NetworkProblem network = problem(a, 3, seed);
      const auto report = bilevel::check_derivatives<Vec>(network, inside(a, 3, seed),
                                                          network.initial_theta(), {.seed = seed});
      EXPECT_TRUE(report.passed()) << "seed " << seed << "\n" << report.table();
    }
  }
}

TEST(NetworkProblem, ForcesAndEnergiesAreThoseOfTheFormulas) {
  // Written out for one sample of a Hopfield and a resistive network with one hidden layer.
  Architecture hopfield{.energy = Energy::hopfield, .layers = {2, 2, 1}, .activation = Activation::clip};
  Vec theta(9);
  theta << 0.5, -1, 2, 0.25, /*b1*/ 0.1, 0.2, /*W2*/ 1.5, -0.5, /*b2*/ 0.3;
  NetworkProblem network(hopfield, {Vec{{1.0, -2.0}}, Vec{{1.0}}}, theta);
  Vec phi{{0.5, 0.75, 0.4}}, force(3);
  // W1 = [0.5 2; −1 0.25], drive = W1 x + b1 = (−3.4, −1.3).
  const double energy = network.inner(phi, theta, {.phi = &force});
  EXPECT_NEAR(
      energy,
      0.5 * (0.25 + 0.5625 + 0.16) - (0.5 * -3.4 + 0.75 * -1.3) - 0.4 * (1.5 * 0.5 - 0.5 * 0.75 + 0.3),
      1e-14);
  EXPECT_NEAR(force[0], 0.5 + 3.4 - 1.5 * 0.4, 1e-14);
  EXPECT_NEAR(force[1], 0.75 + 1.3 + 0.5 * 0.4, 1e-14);
  EXPECT_NEAR(force[2], 0.4 - (1.5 * 0.5 - 0.5 * 0.75 + 0.3), 1e-14);

  Architecture resistive{.energy = Energy::resistive,
                         .layers = {1, 2, 1},
                         .activation = Activation::diode,
                         .input_gain = 10,
                         .gain = 2};
  Vec g(12);
  g << /*+x*/ 0.1, 0.2, /*−x*/ 0.3, 0.4, /*rails*/ 0.01, 0.02, 0.03, 0.04, /*up*/ 0.5, 0.6, /*rails*/ 0.07,
      0.08;
  NetworkProblem circuit(resistive, {Vec{{0.5}}, Vec{{1.0}}}, g);
  const double u0 = 0.3, u1 = -0.2, o = 0.1;
  double sum = 0;
  const auto add = [&](double conductance, double from, double to) {
    sum += 0.5 * conductance * (from - to) * (from - to);
  };
  add(0.1, 5, u0), add(0.2, 5, u1), add(0.3, -5, u0), add(0.4, -5, u1);
  add(0.01, 10, u0), add(0.02, 10, u1), add(0.03, -10, u0), add(0.04, -10, u1);
  add(0.5, 2 * u0, o), add(0.6, 2 * u1, o), add(0.07, 1, o), add(0.08, -1, o);
  for (const double unit : {u0, u1, o}) add(Architecture::leak, 0, unit);
  EXPECT_NEAR(circuit.inner(Vec{{u0, u1, o}}, g, {}), sum, 1e-13);
}

/// Settles tightly; false where a unit sits near a kink.
bool settles(NetworkProblem& network, Vec& phi, double margin) {
  Relaxation relaxation(network, tight(network.architecture()));
  const auto solution = relaxation.solve(network.initial_theta(), 0, network.initial_phi());
  EXPECT_TRUE(succeeded(solution.status)) << solution.message;
  EXPECT_LE(solution.residual_norm, 1e-12) << solution.message;
  phi = solution.phi;
  return network.distance_to_kink(phi, network.initial_theta()) > margin;
}

TEST(NetworkProblem, CentralEquilibriumPropagationIsTheExactGradient) {
  int judged = 0;
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    int taken = 0;
    for (std::uint64_t seed = 1; seed <= 12 && taken < 3; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      NetworkProblem network = problem(a, 4, seed);
      Vec phi;
      if (!settles(network, phi, 0.01)) continue;
      ++taken;
      ++judged;
      Relaxation relaxation(network, tight(a));
      bilevel::Exact<Vec> exact(network, relaxation);
      bilevel::EquilibriumPropagation<Vec> nudged(
          network, relaxation, {.nudge = bilevel::Nudge::central, .beta = 1e-4, .certificate = false});
      const auto truth = exact.estimate(network.initial_theta(), {});
      const auto estimate = nudged.estimate(network.initial_theta(), {});
      ASSERT_TRUE(succeeded(truth.status)) << truth.message;
      EXPECT_LE((estimate.gradient - truth.gradient).norm(), 1e-6 * truth.gradient.norm())
          << estimate.message;
    }
    EXPECT_GE(taken, 1) << "no draw without a unit near a kink";
  }
  EXPECT_GE(judged, 60);
}

/// Gradient of the mean cost of the feed-forward network, by hand.
Vec backpropagation(const NetworkProblem& network, const Vec& theta) {
  const Architecture& a = network.architecture();
  const auto& [x, y] = network.samples();
  std::vector<Mat> u{x}, s{x};
  const auto squash = [&](const Mat& m) {
    return a.activation == Activation::tanh ? Mat(m.array().tanh()) : Mat(1 / (1 + (-m.array()).exp()));
  };
  for (Index k = 1; k <= a.depth(); ++k) {
    const auto p = a.layer(k);
    const Eigen::Map<const Mat> w(theta.data() + p.weights, p.units, p.inputs);
    u.push_back((w * s.back()).colwise() + theta.segment(p.bias, p.units));
    s.push_back(k < a.depth() ? squash(u.back()) : u.back());
  }
  Mat back = u.back() - y;
  if (a.read_out == ReadOut::cross_entropy) {
    back = u.back().array().exp();
    back = (back.array().rowwise() / back.array().colwise().sum()).matrix() - y;
  }
  Vec gradient(theta.size());
  for (Index k = a.depth(); k >= 1; --k) {
    const auto p = a.layer(k);
    const Mat& below = s[static_cast<std::size_t>(k - 1)];
    Eigen::Map<Mat>(gradient.data() + p.weights, p.units, p.inputs) = back * below.transpose();
    gradient.segment(p.bias, p.units) = back.rowwise().sum();
    const Eigen::Map<const Mat> w(theta.data() + p.weights, p.units, p.inputs);
    back = (w.transpose() * back).eval();
    if (k > 1)
      back = a.activation == Activation::tanh ? Mat(back.array() * (1 - below.array().square()))
                                              : Mat(back.array() * below.array() * (1 - below.array()));
  }
  return gradient / static_cast<double>(x.cols());
}

TEST(NetworkProblem, PredictiveCodingTendsToBackpropagation) {
  for (const Architecture& a : architectures()) {
    if (a.energy != Energy::predictive_coding) continue;
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 4, 5);
    const Vec& theta = network.initial_theta();
    const Vec truth = backpropagation(network, theta);
    Relaxation relaxation(network, tight(a));
    const auto implicit =
        bilevel::make_estimator<Vec>("implicit-direct", network, relaxation)->estimate(theta, {});
    EXPECT_LE((implicit.gradient - truth).norm(), 1e-10 * truth.norm()) << implicit.message;
    double before = 0;
    for (const double beta : {1e-2, 1e-3}) {
      bilevel::EquilibriumPropagation<Vec> nudged(network, relaxation, {.beta = beta, .certificate = false});
      const double error = (nudged.estimate(theta, {}).gradient - truth).norm() / truth.norm();
      EXPECT_LE(error, 10 * beta);
      if (before > 0) {
        EXPECT_NEAR(before / error, 10, 1) << "the bias is of first order";
      }
      before = error;
    }
  }
}

TEST(NetworkProblem, HolomorphicPropagationIsExactWhereUnitsAreAnalytic) {
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 2, 7);
    Relaxation relaxation(network, tight(a));
    if (!a.smooth()) {
      EXPECT_EQ(network.holomorphic(), nullptr);
      EXPECT_THROW(bilevel::make_estimator<Vec>("ep-holomorphic", network, relaxation), InvalidInput);
      continue;
    }
    const auto truth = bilevel::Exact<Vec>(network, relaxation).estimate(network.initial_theta(), {});
    const auto estimate = bilevel::make_estimator<Vec>("ep-holomorphic", network, relaxation)
                              ->estimate(network.initial_theta(), {});
    EXPECT_LE((estimate.gradient - truth.gradient).norm(), 1e-8 * truth.gradient.norm()) << estimate.message;
  }
}

TEST(NetworkProblem, OtherEstimatorsRunOnTheSameNetwork) {
  for (const Architecture& a : architectures()) {
    if (a.layers.size() != 3) continue;
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 2, 3);
    Vec phi;
    if (!settles(network, phi, 0.01)) continue;
    Relaxation relaxation(network, tight(a));
    const Vec& theta = network.initial_theta();
    const Vec truth = bilevel::Exact<Vec>(network, relaxation).estimate(theta, {}).gradient;
    for (const char* name :
         {"implicit-cg", "implicit-cg-preconditioned", "implicit-neumann", "implicit-minres"}) {
      const auto estimate = bilevel::make_estimator<Vec>(name, network, relaxation)->estimate(theta, {});
      EXPECT_LE((estimate.gradient - truth).norm(), 1e-7 * truth.norm()) << name << ": " << estimate.message;
    }
    // Springs of compliance ε change the gradient by O(ε).
    const auto agnostic =
        bilevel::make_estimator<Vec>("ep-agnostic", network, relaxation)->estimate(theta, {});
    if (a.smooth()) {
      EXPECT_LE((agnostic.gradient - truth).norm(), 0.02 * truth.norm()) << agnostic.message;
    }
  }
}

TEST(NetworkProblem, OwnPreconditionerSolvesAtOnce) {
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 3, 4);
    Vec phi;
    settles(network, phi, 0);
    std::unique_ptr<bilevel::Curvature<Vec>> curvature;
    network.linearise(phi, network.initial_theta(), 0.3, curvature);
    std::mt19937_64 engine(9);
    const Vec v = random_matrix(phi.size(), 1, engine);
    Vec product(v.size()), back(v.size());
    curvature->times(v, product);
    ASSERT_TRUE(curvature->precondition(product, back));
    EXPECT_LE((back - v).norm(), 1e-10 * v.norm());
  }
}

TEST(NetworkProblem, BadInputIsNamed) {
  Architecture a{.energy = Energy::hopfield, .layers = {4, 3, 2}};
  const Vec theta = initial_parameters(a, 1);
  EXPECT_NE(refusal([&] {
              NetworkProblem(a, {Mat::Zero(5, 2), Mat::Zero(2, 2)}, theta);
            }).find("5 features, the first layer has 4"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              NetworkProblem(a, {Mat::Zero(4, 2), Mat::Zero(3, 2)}, theta);
            }).find("targets are 3 × 2"),
            std::string::npos);
  EXPECT_NE(refusal([&] { one_hot({0, 7}, 3); }).find("sample 1 has the label 7"), std::string::npos);
  Vec bad = theta;
  bad[13] = std::nan("");
  EXPECT_NE(refusal([&] {
              NetworkProblem(a, {Mat::Zero(4, 2), Mat::Zero(2, 2)}, bad);
            }).find("bias 1 of layer 1 is nan"),
            std::string::npos);
  Architecture r{.energy = Energy::resistive, .layers = {2, 3, 2}, .activation = Activation::diode};
  Vec g = initial_parameters(r, 1);
  g[0] = -0.5;
  EXPECT_NE(refusal([&] {
              require_parameters(r, g);
            }).find("weight 0 of layer 1 is a conductance and cannot be -0.5"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              Architecture{.layers = {4}}.validate().throw_if_any();
            }).find("at least inputs and outputs"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              Architecture{.energy = Energy::predictive_coding, .layers = {4, 2}}.validate().throw_if_any();
            }).find("must be sigmoid or tanh"),
            std::string::npos);
  EXPECT_NE(refusal([&] { energy_of("ising"); }).find("known are hopfield, predictive-coding, resistive"),
            std::string::npos);
}

}  // namespace network_problem_test
