#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

#include "layered_network.hpp"

namespace claims {
namespace {
namespace of_energy_networks {

void run(Laboratory& lab, Outcome& outcome) {
  using layered::layers, layered::Network, layered::parameters, layered::widths;
  double forward_energy = 0, forward_slope = 0, elsewhere = 0, implicit_error = 0, free_gradient = 0;
  int starts = 0, unsettled = 0, reached = 0;
  std::vector<double> strengths = geometric(3e-4, 3e-5, 8);
  std::vector<double> two(strengths.size(), 0), three(strengths.size(), 0);
  double worst_two = 0;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    const std::uint64_t number = 100 * draw;
    Network net{lab.vector(3, number), lab.vector(2, number + 1)};
    Vec theta = lab.vector(parameters(), number + 2);
    for (std::size_t l = 0, at = 0; l < layers; ++l) {
      const Index count = widths[l + 1] * widths[l];
      theta.segment(static_cast<Index>(at), count) /= std::sqrt(static_cast<double>(widths[l]));
      theta.segment(static_cast<Index>(at) + count, widths[l + 1]) *= 0.3;
      at += static_cast<std::size_t>(count + widths[l + 1]);
    }
    for (const bool free_input : {true, false}) {
      net.free_input = free_input;
      auto problem = net.problem(theta);
      const Vec forward = net.forward(theta);
      Vec slope_there(net.size());
      keep_worst(forward_energy, problem.inner(forward, theta, {.phi = &slope_there}));
      keep_worst(forward_slope, slope_there.norm());
      const auto minimiser = settler("lbfgs", problem, 1e-11);
      for (std::uint64_t start = 0; start < 10; ++start) {
        const auto end = minimiser->solve(theta, 0, 2 * lab.vector(net.size(), number + 10 + start));
        ++starts;
        unsettled += !(end.residual_norm < 1e-9);
        // Not so if the energy is not a number.
        reached += end.value <= 1e-12;
        keep_worst(elsewhere, (end.phi - forward).norm());
      }
    }
    // φ⁰ is clamped from here on.
    auto problem = net.problem(theta);
    const Vec forward = net.forward(theta), truth = net.backpropagation(theta);
    const auto inner = settler("newton", problem, 1e-14);
    const auto e = lab.estimator("implicit-cg", problem, *inner)->estimate(theta, {});
    keep_worst(implicit_error, (e.gradient - truth).norm() / truth.norm());
    Vec of_energy(theta.size());
    problem.inner(forward, theta, {.theta = &of_energy});
    keep_worst(free_gradient, of_energy.norm());
    std::vector<double> errors_two, errors_three;
    for (std::size_t i = 0; i < strengths.size(); ++i) {
      const bilevel::EstimatorOptions options{.certificate = {.enabled = false}, .beta = strengths[i]};
      const auto error = [&](const char* name) {
        const auto estimate =
            lab.estimator(name, problem, *inner, options)->estimate(theta, {.phi = forward});
        return (estimate.gradient - truth).norm() / truth.norm();
      };
      errors_two.push_back(error("ep-forward-2"));
      errors_three.push_back(error("ep-forward-3"));
      keep_worst(two[i], errors_two.back());
      keep_worst(three[i], errors_three.back());
    }
    keep_worst(worst_two, std::abs(slope(strengths, errors_two) - 1));
  }
  // Of the largest error over the networks, since the term in β² can be small by chance.
  const double worst_three = std::abs(slope(strengths, three) - 2);
  outcome.at_most("energy of the forward pass", 1e-28, forward_energy);
  outcome.at_most("‖∂φ E‖ at the forward pass", 1e-14, forward_slope);
  outcome.at_most("where the starts end: distance from the forward pass", 1e-7, elsewhere);
  outcome.check("starts that did not settle", "0 of 400", fmt::format("{} of {}", unsettled, starts),
                unsettled == 0);
  // ∂E/∂φ^L = 0 leaves no error in the last layer, ∂E/∂φ^(L−1) = 0 then none in the one before, and so on:
  // there is no other stationary point, and every start must get here.
  outcome.check("starts that reach energy 0", "400 of 400", fmt::format("{} of {}", reached, starts),
                reached == starts && starts == 400);
  outcome.at_most("‖∂θ E‖ at the forward pass", 1e-14, free_gradient);
  outcome.at_most("implicit differentiation against backpropagation, relative", 1e-8, implicit_error);
  outcome.at_most("|slope − 1| of the error of 2 points over β", 0.05, worst_two);
  outcome.at_most("|slope − 2| of the largest error of 3 points over β", 0.1, worst_three);
  std::vector<double> first, second;
  for (const double beta : strengths) {
    first.push_back(two[0] * beta / strengths[0]);
    second.push_back(three[0] * std::pow(beta / strengths[0], 2));
  }
  outcome.show(Chart("Equilibrium propagation against backpropagation")
                   .x("β", true)
                   .y("relative error, worst of 20 networks", true)
                   .dots("2 points", strengths, two)
                   .line("∝ β", strengths, first, true)
                   .dots("3 points", strengths, three)
                   .line("∝ β²", strengths, second, true));
  outcome.measured = fmt::format("within {:.0e}; backprop {:.0e}; ± {:.2f}, {:.2f}", elsewhere,
                                 implicit_error, worst_two, worst_three);
}

}  // namespace of_energy_networks
}  // namespace

const Claim energy_networks{
    .name = "energy-networks",
    .title = "A feed-forward network as the minimum of an energy",
    .place = "Appendix A.1",
    .statement =
        "E = ½‖φ⁰ − x‖² + ½Σ‖φ^(l+1) − ρ(W^l φ^l + b^l)‖² has one global minimiser, the activity of the "
        "feed-forward pass, with energy 0, whether φ⁰ is free or clamped to x. The outer gradient of a "
        "cost C(φ^L, y) with this inner loss is backpropagation's: implicit differentiation gives it "
        "exactly, equilibrium propagation in the limit β → 0.",
    .protocol =
        "20 random networks 3-5-4-2 of tanh units with random weights, biases, inputs and targets, θ all "
        "59 weights and biases, C = ½‖φ^L − y‖². E is minimised by L-BFGS from 10 random starts each, "
        "with φ⁰ free and with φ⁰ clamped; all must end there, as no other point is stationary. Gradients "
        "at the settled state by implicit differentiation, and by equilibrium propagation with 2 and 3 "
        "points for 8 values of β from 3·10⁻⁴ to 3·10⁻⁵.",
    .truth = "The forward pass, and backpropagation written out by hand.",
    .slip = "",
    .expected = "forward pass, E = 0; backprop; slopes 1, 2",
    .run = of_energy_networks::run};

}  // namespace claims
