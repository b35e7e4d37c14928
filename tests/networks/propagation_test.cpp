#include "network_cases.hpp"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include <bilevel/gradient/stencil.hpp>
#include <bilevel/networks/backpropagation.hpp>
#include <bilevel/networks/propagation.hpp>
#include <bilevel/problems/kernels.hpp>

#include <conformance/allocation_counter.hpp>

namespace propagation_test {

using namespace network_cases;
using bilevel::Nudge;
using bilevel::Stencil;

struct Kind {
  Nudge nudge;
  int points;
};
constexpr Kind kinds[] = {{Nudge::forward, 2}, {Nudge::forward, 3}, {Nudge::forward, 5}, {Nudge::central, 2}};

PropagationOptions options_of(const Architecture& a, const Kind& kind) {
  PropagationOptions o{.nudge = kind.nudge, .points = kind.points, .beta = 0.3};
  o.free.max_steps = 9;
  o.nudged.max_steps = 5;
  if (a.energy == Energy::predictive_coding) o.free.step = o.nudged.step = 0.2;
  return o;
}

/// The same phases by the inner solver, the gradient from ∂θL_in as the estimator's formula has it.
Vec by_the_formula(NetworkProblem& network, const PropagationOptions& o) {
  const Vec& theta = network.initial_theta();
  const Stencil stencil = bilevel::stencil_of(o.nudge, o.points);
  Relaxation free(network, o.free), nudged(network, o.nudged);
  const Vec settled = free.solve(theta, 0, network.initial_phi()).phi;
  Vec gradient = Vec::Zero(theta.size()), slope(theta.size());
  for (std::size_t i = 0; i < stencil.points().size(); ++i) {
    const double beta = stencil.points()[i] * o.beta;
    network.inner(beta == 0 ? settled : nudged.solve(theta, beta, settled).phi, theta, {.theta = &slope});
    gradient += stencil.coefficient(i) / o.beta * slope;
  }
  return gradient;
}

TEST(Propagation, IsTheEstimatorsFormula) {
  for (const Architecture& a : architectures())
    for (const Kind& kind : kinds) {
      SCOPED_TRACE(
          fmt::format("{}, nudge {}, {} points", label(a), static_cast<int>(kind.nudge), kind.points));
      // More than one block, the last one not full.
      NetworkProblem network = problem(a, 70, 3);
      const PropagationOptions o = options_of(a, kind);
      const Vec truth = by_the_formula(network, o);
      Propagation<double> fast(a, o);
      Vec gradient(network.initial_theta().size());
      const auto outcome = fast.gradient(network.initial_theta().data(), network.samples().inputs.data(),
                                         network.samples().targets.data(), 70, nullptr, gradient.data());
      EXPECT_TRUE(outcome.finite);
      EXPECT_LE((gradient - truth).norm(), 1e-10 * truth.norm());

      Propagation<float> single(a, o);
      const Eigen::VectorXf theta = network.initial_theta().cast<float>();
      const Eigen::MatrixXf inputs = network.samples().inputs.cast<float>(),
                            targets = network.samples().targets.cast<float>();
      Eigen::VectorXf rounded(theta.size());
      single.gradient(theta.data(), inputs.data(), targets.data(), 70, nullptr, rounded.data());
      EXPECT_LE((rounded.cast<double>() - truth).norm(), 2e-4 * truth.norm());
    }
}

TEST(Propagation, EveryTargetOfTheKernelsComputesTheSame) {
  namespace kernels = bilevel::problems::kernels;
  const kernels::Target before = kernels::chosen();
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 9, 3);
    const PropagationOptions o = options_of(a, kinds[3]);
    const Vec truth = by_the_formula(network, o);
    for (const auto target : {kernels::Target::baseline, kernels::Target::avx2, kernels::Target::avx512}) {
      if (!kernels::available(target)) continue;
      kernels::use(target);
      Propagation<double> fast(a, o);
      Vec gradient(truth.size());
      fast.gradient(network.initial_theta().data(), network.samples().inputs.data(),
                    network.samples().targets.data(), 9, nullptr, gradient.data());
      EXPECT_LE((gradient - truth).norm(), 1e-10 * truth.norm()) << kernels::name(target);
    }
  }
  kernels::use(before);
}

TEST(Propagation, RandomSignsAreThoseOfTheSeedAndTheCount) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 7, 3}};
  NetworkProblem network = problem(a, 8, 1);
  PropagationOptions o = options_of(a, {Nudge::random_sign, 2});
  const auto gradient = [&](Propagation<double>& p) {
    Vec g(network.initial_theta().size());
    p.gradient(network.initial_theta().data(), network.samples().inputs.data(),
               network.samples().targets.data(), 8, nullptr, g.data());
    return g;
  };
  Propagation<double> first(a, o);
  std::vector<Vec> seen;
  for (int i = 0; i < 12; ++i) seen.push_back(gradient(first));
  int different = 0;
  for (const Vec& each : seen) different += (each - seen[0]).norm() > 1e-6 * seen[0].norm() ? 1 : 0;
  EXPECT_GT(different, 0);
  EXPECT_LT(different, 12);
  Propagation<double> second(a, o);
  second.seek(7);
  EXPECT_EQ(gradient(second), seen[7]);
}

TEST(Propagation, ThreadsChangeNothing) {
  const int before = bilevel::problems::kernels::threads();
  for (Architecture a : architectures()) {
    if (a.layers.size() != 4) continue;
    a.layers = {70, 150, 40, 10};  // enough for the work to be divided
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 300, 5);
    ASSERT_GT(300 * a.parameters(), Propagation<double>::least_divided);
    PropagationOptions o = options_of(a, kinds[3]);
    o.noise = 0.01;
    Vec first;
    for (const int threads : {1, 2, 3}) {
      bilevel::problems::kernels::set_threads(threads);
      Propagation<double> fast(a, o);
      Vec gradient(network.initial_theta().size());
      fast.gradient(network.initial_theta().data(), network.samples().inputs.data(),
                    network.samples().targets.data(), 300, nullptr, gradient.data());
      if (first.size() == 0) first = gradient;
      EXPECT_EQ(gradient, first) << threads << " threads";
    }
  }
  bilevel::problems::kernels::set_threads(before);
}

TEST(Propagation, PersistentStatesGoOnWhereTheyEnded) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 7, 6, 3}};
  NetworkProblem network = problem(a, 70, 8);
  PropagationOptions o = options_of(a, kinds[3]);
  o.free.max_steps = 6;
  const Vec parameters_now = network.initial_theta();
  const double* const theta = parameters_now.data();
  Propagation<double> fast(a, o);
  Mat states = Mat::Zero(a.states(), 70);
  Vec gradient(network.initial_theta().size());
  const auto first = fast.gradient(theta, network.samples().inputs.data(), network.samples().targets.data(),
                                   70, states.data(), gradient.data());
  const auto second = fast.gradient(theta, network.samples().inputs.data(), network.samples().targets.data(),
                                    70, states.data(), gradient.data());
  EXPECT_LT(second.residual, 0.1 * first.residual);
  // Six steps and six more are twelve.
  o.free.max_steps = 12;
  Relaxation twelve(network, o.free);
  const Vec phi = twelve.solve(network.initial_theta(), 0, network.initial_phi()).phi;
  for (Index n = 0; n < 70; ++n)
    for (Index k = 1, at = 0, offset = 0; k <= a.depth(); at += a.width(k), offset += 70 * a.width(k++))
      EXPECT_LE(
          (states.col(n).segment(at, a.width(k)) - phi.segment(offset + n * a.width(k), a.width(k))).norm(),
          1e-12);
}

TEST(Propagation, AllocatesNothingOnceABatchWasSeen) {
  for (Architecture a : architectures()) {
    if (a.layers.size() != 3) continue;
    a.layers = {300, 200, 10};
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 80, 5);
    for (const int circle : {0, 4}) {
      if (circle > 0 && !a.smooth()) continue;
      PropagationOptions o = options_of(a, kinds[3]);
      o.circle = circle;
      Propagation<double> fast(a, o);
      Vec gradient(network.initial_theta().size());
      const Vec theta = network.initial_theta();
      const auto once = [&] {
        fast.gradient(theta.data(), network.samples().inputs.data(), network.samples().targets.data(), 80,
                      nullptr, gradient.data());
      };
      once();
      // A thread that first gets a core now allocates what it needs to begin, once; a loop that allocates does
      // so every time.
      long fewest = std::numeric_limits<long>::max();
      for (int k = 0; k < 5; ++k) {
        const auto before = bilevel::conformance::allocations.load();
        once();
        fewest = std::min(fewest, static_cast<long>(bilevel::conformance::allocations.load() - before));
      }
      EXPECT_EQ(fewest, 0) << circle << " points on a circle";
    }
  }
}

TEST(Propagation, SaysThatAStateIsNotFinite) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 7, 3}};
  NetworkProblem network = problem(a, 4, 1);
  Vec theta = network.initial_theta();
  theta[a.layer(2).weights] = std::nan("");
  Propagation<double> fast(a, options_of(a, kinds[3]));
  Vec gradient(theta.size());
  EXPECT_FALSE(fast.gradient(theta.data(), network.samples().inputs.data(), network.samples().targets.data(),
                             4, nullptr, gradient.data())
                   .finite);
}

TEST(Propagation, SaysThatANudgeOutweighsAnOutput) {
  for (const Architecture& a : architectures()) {
    if (a.layers.size() != 3) continue;
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 4, 1);
    const Vec theta = network.initial_theta();
    Vec gradient(theta.size());
    const auto stiffness = [&](Nudge nudge, double beta) {
      PropagationOptions o = options_of(a, {nudge, 2});
      o.beta = beta;
      return Propagation<double>(a, o)
          .gradient(theta.data(), network.samples().inputs.data(), network.samples().targets.data(), 4,
                    nullptr, gradient.data())
          .stiffness;
    };
    const double own = stiffness(Nudge::forward, 5);
    EXPECT_GT(own, 0);
    EXPECT_NEAR(stiffness(Nudge::central, 0.9 * own), 0.1 * own, 1e-12);
    EXPECT_LT(stiffness(Nudge::central, 1.1 * own), 0);
  }
}

/// A hidden unit that no current reaches rests at zero, and the network goes on without it.
TEST(Propagation, AUnitWithoutConductancesRests) {
  const Architecture a{.energy = Energy::resistive, .layers = {3, 4, 2}, .activation = Activation::diode};
  NetworkProblem network = problem(a, 5, 2);
  Vec theta = network.initial_theta();
  for (Index i = a.layer(1).weights + 1; i < a.layer(1).end; i += 4) theta[i] = 0;
  theta.segment(a.layer(2).weights + 2, 2).setZero();
  Propagation<double> fast(a, options_of(a, kinds[3]));
  Vec gradient(theta.size());
  EXPECT_TRUE(fast.gradient(theta.data(), network.samples().inputs.data(), network.samples().targets.data(),
                            5, nullptr, gradient.data())
                  .finite);
  EXPECT_TRUE(gradient.allFinite());
}

TEST(Propagation, RefusesOptionsOutOfRange) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 3}};
  EXPECT_THROW(Propagation<float>(a, {.beta = 0}), InvalidInput);
  EXPECT_THROW(Propagation<float>(a, {.points = 9}), InvalidInput);
  EXPECT_THROW(Propagation<float>(a, {.noise = -1}), InvalidInput);
  EXPECT_THROW((Propagation<float>({.energy = Energy::resistive, .layers = {3, 2}}, {})), InvalidInput);
}

TEST(Backpropagation, ThreadsChangeNothing) {
  const int before = bilevel::problems::kernels::threads();
  const Architecture a{
      .energy = Energy::predictive_coding, .layers = {100, 300, 10}, .activation = Activation::tanh};
  NetworkProblem network = problem(a, 150, 5);
  const Vec theta = network.initial_theta();
  Vec first;
  for (const int threads : {1, 2, 3}) {
    bilevel::problems::kernels::set_threads(threads);
    Vec gradient(theta.size());
    Backpropagation<double>(a).gradient(theta.data(), network.samples().inputs.data(),
                                        network.samples().targets.data(), 150, gradient.data());
    if (first.size() == 0) first = gradient;
    EXPECT_EQ(gradient, first) << threads << " threads";
  }
  bilevel::problems::kernels::set_threads(before);
}

TEST(Backpropagation, IsTheLimitOfPropagation) {
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    if (a.energy != Energy::predictive_coding) {
      EXPECT_THROW(Backpropagation<double>{a}, InvalidInput);
      continue;
    }
    NetworkProblem network = problem(a, 20, 2);
    Vec exact(network.initial_theta().size()), nudged = exact;
    Backpropagation<double>(a).gradient(network.initial_theta().data(), network.samples().inputs.data(),
                                        network.samples().targets.data(), 20, exact.data());
    PropagationOptions o{.nudge = Nudge::central, .beta = 1e-4};
    o.free = {.step = 0.3, .max_steps = 1};
    o.nudged = {.step = 0.3, .max_steps = 3000, .tolerance = 1e-16};
    Propagation<double>(a, o).gradient(network.initial_theta().data(), network.samples().inputs.data(),
                                       network.samples().targets.data(), 20, nullptr, nudged.data());
    EXPECT_LE((nudged - exact).norm(), 1e-6 * exact.norm());
  }
}

/// What initial_parameters promises: couplings of ½ of a linear unit's, and units in their middle where their
/// neighbours are.
TEST(InitialParameters, CarryASignalThroughHiddenLayers) {
  for (const auto activation : {Activation::clip, Activation::sigmoid, Activation::tanh}) {
    const Architecture a{.energy = Energy::hopfield,
                         .layers = {4, 9, 9, 6, 3},
                         .activation = activation,
                         .read_out = ReadOut::cross_entropy};
    const Eigen::VectorXd theta = initial_parameters(a, 5);
    const auto w = [&](Index k) {
      const LayerParameters p = a.layer(k);
      return Eigen::Map<const Eigen::MatrixXd>(theta.data() + p.weights, p.units, p.inputs);
    };
    const double slope = activation == Activation::sigmoid ? 0.25 : 1, middle = middle_of(activation);
    for (Index k = 2; k <= 4; ++k) {
      const double length = 0.5 / (k == 4 ? std::sqrt(slope) : slope);
      EXPECT_LT(
          (w(k) * w(k).transpose() - length * length * Eigen::MatrixXd::Identity(a.width(k), a.width(k)))
              .norm(),
          1e-13)
          << name(activation) << ' ' << k;
    }
    // Without inputs all units are at rest in their middle, outputs at 0.
    for (Index k = 1; k <= 4; ++k) {
      const LayerParameters p = a.layer(k);
      Eigen::VectorXd received = theta.segment(p.bias, p.units);
      if (k > 1) received.array() += middle * w(k).rowwise().sum().array();
      if (k < 3) received.array() += middle * w(k + 1).colwise().sum().transpose().array();
      const double rest = k < 4 && activation == Activation::clip ? middle : 0;
      EXPECT_LT((received.array() - rest).matrix().norm(), 1e-13) << name(activation) << ' ' << k;
    }
  }
}

TEST(InitialParameters, CircuitsBeginWithFewNeighbours) {
  const Architecture a{.energy = Energy::resistive, .layers = {4, 9, 9, 3}, .activation = Activation::diode};
  const Eigen::VectorXd theta = initial_parameters(a, 5);
  for (Index k = 2; k <= 3; ++k) {
    const LayerParameters p = a.layer(k);
    const Eigen::Map<const Eigen::MatrixXd> g(theta.data() + p.weights, p.units, p.inputs);
    for (Index i = 0; i < p.units; ++i)
      EXPECT_EQ((g.row(i).array() > 0).count(), Architecture::few_neighbours) << k << ' ' << i;
  }
}

}  // namespace propagation_test
