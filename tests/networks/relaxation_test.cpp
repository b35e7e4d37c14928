#include "network_cases.hpp"

#include <gtest/gtest.h>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/networks/propagation.hpp>

#include <refusal.hpp>

namespace relaxation_test {

using namespace network_cases;

TEST(Relaxation, EveryScheduleSettlesInTheSameState) {
  for (const Architecture& a : architectures()) {
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, 5, 11);
    const bool predictive = a.energy == Energy::predictive_coding;
    for (const double beta : {0.0, 0.4, -0.2}) {
      Vec first;
      for (const Schedule schedule :
           {Schedule::even_odd, Schedule::synchronous, Schedule::sweep, Schedule::gradient}) {
        SCOPED_TRACE(fmt::format("{} β {}", name(schedule), beta));
        double step = predictive ? 0.2 : 1;
        if (!predictive && schedule == Schedule::synchronous) step = 0.5;
        if (!predictive && schedule == Schedule::gradient) step = a.resistive() ? 0.02 : 0.3;
        Relaxation relaxation(network,
                              {.schedule = schedule, .step = step, .max_steps = 200000, .tolerance = 1e-14});
        const auto solution = relaxation.solve(network.initial_theta(), beta, network.initial_phi());
        EXPECT_TRUE(succeeded(solution.status)) << solution.message;
        EXPECT_LE(solution.residual_norm, 1e-11) << solution.message;
        if (first.size() == 0) first = solution.phi;
        EXPECT_LE((solution.phi - first).norm(), 1e-9);
      }
    }
  }
}

TEST(Relaxation, ASampleSettlesAsItWouldAlone) {
  for (const Architecture& a : architectures()) {
    if (a.layers.size() != 4) continue;
    SCOPED_TRACE(label(a));
    // More than one block, and samples that settle after different numbers of steps.
    const Index batch = 150;
    NetworkProblem network = problem(a, batch, 2);
    RelaxationOptions options = tight(a);
    options.tolerance = 1e-6;
    Relaxation together(network, options);
    const Vec all = together.solve(network.initial_theta(), 0.3, network.initial_phi()).phi;
    long least = 1000000, most = 0;
    for (const SampleOutcome& outcome : together.samples()) {
      least = std::min(least, outcome.steps);
      most = std::max(most, outcome.steps);
    }
    EXPECT_LT(least, most);
    for (const Index n : {Index{0}, Index{63}, Index{64}, Index{149}}) {
      NetworkProblem one(a, {network.samples().inputs.col(n), network.samples().targets.col(n)},
                         network.initial_theta());
      Relaxation alone(one, options);
      const Vec phi = alone.solve(one.initial_theta(), 0.3, one.initial_phi()).phi;
      EXPECT_EQ(alone.samples()[0].steps, together.samples()[static_cast<std::size_t>(n)].steps);
      for (Index k = 1, at = 0, offset = 0; k <= a.depth(); at += a.width(k), offset += a.width(k++) * batch)
        EXPECT_LE((phi.segment(at, a.width(k)) - all.segment(offset + n * a.width(k), a.width(k))).norm(),
                  1e-12);
    }
  }
}

TEST(Relaxation, SaysWhenItRanOutOfSteps) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 7, 3}};
  NetworkProblem network = problem(a, 3, 1);
  Relaxation relaxation(network, {.max_steps = 2, .tolerance = 1e-14});
  const auto solution = relaxation.solve(network.initial_theta(), 0, network.initial_phi());
  EXPECT_EQ(solution.status, bilevel::Status::iteration_limit);
  EXPECT_NE(solution.message.find("0 of 3 samples settled"), std::string::npos) << solution.message;
}

TEST(Relaxation, RefusesOptionsOutOfRange) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 3}};
  NetworkProblem network = problem(a, 1, 1);
  EXPECT_THROW(Relaxation(network, {.step = 0}), InvalidInput);
  EXPECT_THROW(Relaxation(network, {.max_steps = 0}), InvalidInput);
  EXPECT_THROW(Relaxation(network, {.tolerance = -1}), InvalidInput);
}

/// What has settled has little left to go, however short its steps are.
TEST(Relaxation, ShortStepsAreNotTakenForRest) {
  const Architecture a{.energy = Energy::hopfield, .layers = {5, 7, 3}, .activation = Activation::tanh};
  NetworkProblem network = problem(a, 4, 3);
  Relaxation crawling(network,
                      {.schedule = Schedule::gradient, .step = 1e-7, .max_steps = 50, .tolerance = 1e-6});
  const auto solution = crawling.solve(network.initial_theta(), 0, network.initial_phi());
  EXPECT_GT(solution.residual_norm, 0.01);
  EXPECT_FALSE(succeeded(solution.status)) << solution.message;
}

TEST(Relaxation, NegativeConductancesAreRefused) {
  const Architecture a{.energy = Energy::resistive, .layers = {3, 4, 2}, .activation = Activation::diode};
  NetworkProblem network = problem(a, 4, 3);
  Vec theta = network.initial_theta();
  theta[2] = -3;
  Relaxation relaxation(network, tight(a));
  Propagation<double> propagation(a, {});
  Vec gradient(theta.size());
  for (const std::string& said :
       {refusal([&] { relaxation.solve(theta, 0, network.initial_phi()); }), refusal([&] {
          propagation.gradient(theta.data(), network.samples().inputs.data(),
                               network.samples().targets.data(), 4, nullptr, gradient.data());
        })})
    EXPECT_NE(said.find("a conductance is -3"), std::string::npos) << said;
}

}  // namespace relaxation_test
