// Layers wide enough for the vectors of every target, with remainders; narrow and wide outputs; more samples
// than are taken together, with a remainder.

#include "network_cases.hpp"

#include <gtest/gtest.h>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/networks/propagation.hpp>

namespace wide_layers_test {

using namespace network_cases;
using bilevel::Nudge;

std::vector<Architecture> wide_architectures() {
  std::vector<Architecture> all;
  for (const std::vector<Index>& layers : {std::vector<Index>{20, 70, 10}, {20, 41, 37, 5}, {20, 70, 19}}) {
    for (const Activation activation : {Activation::clip, Activation::sigmoid, Activation::tanh})
      all.push_back({.energy = Energy::hopfield, .layers = layers, .activation = activation});
    for (const Activation activation : {Activation::sigmoid, Activation::tanh})
      all.push_back({.energy = Energy::predictive_coding, .layers = layers, .activation = activation});
    all.push_back({.energy = Energy::resistive,
                   .layers = layers,
                   .activation = Activation::diode,
                   .input_gain = 3,
                   .gain = 1.5});
  }
  return all;
}

constexpr Index batch = 7;

TEST(WideLayers, EveryScheduleSettlesInTheSameState) {
  for (const Architecture& a : wide_architectures()) {
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, batch, 11);
    const bool predictive = a.energy == Energy::predictive_coding;
    for (const double beta : {0.0, 0.4}) {
      Vec first;
      for (const Schedule schedule :
           {Schedule::even_odd, Schedule::synchronous, Schedule::sweep, Schedule::gradient}) {
        SCOPED_TRACE(fmt::format("{} β {}", name(schedule), beta));
        double step = predictive ? 0.1 : 1;
        if (!predictive && schedule == Schedule::synchronous) step = 0.5;
        if (!predictive && schedule == Schedule::gradient) step = a.resistive() ? 0.005 : 0.3;
        Relaxation relaxation(network,
                              {.schedule = schedule, .step = step, .max_steps = 200000, .tolerance = 1e-14});
        const auto solution = relaxation.solve(network.initial_theta(), beta, network.initial_phi());
        EXPECT_LE(solution.residual_norm, 1e-10) << solution.message;
        if (first.size() == 0) first = solution.phi;
        EXPECT_LE((solution.phi - first).norm(), 1e-9);
      }
    }
  }
}

PropagationOptions settled(const Architecture& a, double tolerance) {
  RelaxationOptions each = tight(a);
  each.tolerance = tolerance;
  if (a.energy == Energy::predictive_coding) each.step = 0.1;
  return {.nudge = Nudge::central, .beta = 0.3, .free = each, .nudged = each};
}

TEST(WideLayers, PropagationIsTheEstimatorOfTheLibrary) {
  for (const Architecture& a : wide_architectures()) {
    SCOPED_TRACE(label(a));
    NetworkProblem network = problem(a, batch, 3);
    const Vec& theta = network.initial_theta();
    const PropagationOptions options = settled(a, 1e-14);
    Relaxation relaxation(network, options.free);
    bilevel::EquilibriumPropagation<Vec> library(
        network, relaxation, {.nudge = Nudge::central, .beta = options.beta, .certificate = false});
    const Vec truth = library.estimate(theta, {}).gradient;
    const auto& [inputs, targets] = network.samples();

    Propagation<double> fine(a, options);
    Vec gradient(theta.size());
    fine.gradient(theta.data(), inputs.data(), targets.data(), batch, nullptr, gradient.data());
    EXPECT_LE((gradient - truth).norm(), 1e-9 * truth.norm());

    Propagation<float> coarse(a, settled(a, 1e-6));
    const Eigen::VectorXf rounded = theta.cast<float>();
    const Eigen::MatrixXf x = inputs.cast<float>(), y = targets.cast<float>();
    Eigen::VectorXf slope(theta.size());
    coarse.gradient(rounded.data(), x.data(), y.data(), batch, nullptr, slope.data());
    EXPECT_LE((slope.cast<double>() - truth).norm(), 1e-3 * truth.norm());
  }
}

}  // namespace wide_layers_test
