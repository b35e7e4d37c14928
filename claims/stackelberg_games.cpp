#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/duopoly.hpp>

namespace claims {
namespace {
namespace of_stackelberg_games {

void run(Laboratory& lab, Outcome& outcome) {
  auto engine = lab.engine(1);
  const auto uniform = [&](double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(engine);
  };
  double gradient_error = 0, nudged_error = 0, best_error = 0, cournot_error = 0, least_gain = 10,
         most_gain = 0;
  std::vector<double> leader_x, leader_y, cournot_x, cournot_y;
  for (int market = 0; market < 200; ++market) {
    const double a = uniform(8, 12), b = uniform(0.5, 2), leader_cost = uniform(0.5, 3),
                 follower_cost = uniform(0.5, 3);
    bilevel::problems::Duopoly problem(
        {.demand = a, .slope = b, .leader_cost = leader_cost, .follower_cost = follower_cost});
    const auto inner = settler("newton", problem, 1e-12);
    const bilevel::EstimatorOptions options{.beta = 0.5};
    const auto implicit = lab.estimator("implicit-cg", problem, *inner, options),
               blind = lab.estimator("first-order", problem, *inner, options),
               nudged = lab.estimator("ep-forward-3", problem, *inner, options);
    const Vec theta = Vec::Constant(1, uniform(0, a / b));
    const double truth = b * theta[0] + leader_cost - 0.5 * (a + follower_cost);
    const double scale = a + b * theta[0];
    keep_worst(gradient_error, std::abs(implicit->estimate(theta, {}).gradient[0] - truth) / scale);
    // ∂θ of the nudged loss is quadratic in β here: three points are exact.
    keep_worst(nudged_error, std::abs(nudged->estimate(theta, {}).gradient[0] - truth) / scale);

    Vec leader = theta, simultaneous = theta;
    for (int step = 0; step < 60; ++step) {
      if (market == 0) {
        leader_x.push_back(step), leader_y.push_back(leader[0]);
        cournot_x.push_back(step), cournot_y.push_back(simultaneous[0]);
      }
      leader -= 0.5 / b * implicit->estimate(leader, {}).gradient;
      simultaneous -= 0.5 / b * blind->estimate(simultaneous, {}).gradient;
    }
    const double best = (a - 2 * leader_cost + follower_cost) / (2 * b),
                 cournot = (a - 2 * leader_cost + follower_cost) / (3 * b);
    keep_worst(best_error, std::abs(leader[0] - best) * b / a);
    keep_worst(cournot_error, std::abs(simultaneous[0] - cournot) * b / a);
    const auto profit = [&](const Vec& quantity) {
      const Vec answer = inner->solve(quantity, 0, problem.initial_phi()).phi;
      return -problem.outer(answer, quantity, {});
    };
    const double gain = profit(leader) / (b * cournot * cournot);
    least_gain = std::min(least_gain, gain);
    keep_worst(most_gain, gain);
    if (market == 0)
      outcome.show(
          Chart("The leader's quantity in one market")
              .x("step of gradient descent")
              .y("θ")
              .dots("implicit differentiation", {leader_x.begin(), leader_x.begin() + 20}, leader_y)
              .line("best for a leader", {0, 19}, {best, best}, true)
              .dots("first-order approximation", {cournot_x.begin(), cournot_x.begin() + 20}, cournot_y)
              .line("both at the same time", {0, 19}, {cournot, cournot}, true)
              .caption("Without π the leader plays as if it did not know the follower's answer."));
  }
  outcome.at_most("leader's gradient by implicit differentiation, relative", 1e-12, gradient_error);
  outcome.at_most("leader's gradient by equilibrium propagation, 3 points, relative", 1e-12, nudged_error);
  outcome.at_most("quantity found with implicit differentiation against the best", 1e-12, best_error);
  outcome.at_most("quantity found with the first-order approximation against Cournot's", 1e-12,
                  cournot_error);
  outcome.check("the leader's profit over Cournot's", "1.125 ± 1e-10",
                fmt::format("{:.12f} … {:.12f}", least_gain, most_gain),
                std::abs(least_gain - 1.125) <= 1e-10 && std::abs(most_gain - 1.125) <= 1e-10);
  outcome.note(
      "The first-order approximation does not fail here: it solves another game, the one in which both "
      "choose "
      "at the same time.");
  outcome.measured =
      fmt::format("to {:.0e}; profit {:.6f} of Cournot's", std::max(gradient_error, best_error), least_gain);
}

}  // namespace of_stackelberg_games
}  // namespace

const Claim stackelberg_games{
    .name = "stackelberg-games",
    .title = "A leader who knows the follower's best answer",
    .place = "Appendix A.5",
    .statement =
        "In a Stackelberg game the follower's best response minimises the inner loss, and the leader, who "
        "plays first, minimises the outer loss knowing that response. That is a strategic advantage: the "
        "leader earns more than where both choose at the same time.",
    .protocol =
        "200 random markets with linear demand a − b(θ + φ) and costs c_l, c_f: the leader's gradient at "
        "a random quantity, then 60 steps of gradient descent on the quantity, with the gradient of "
        "implicit differentiation and with the first-order approximation, which ignores the follower's "
        "answer.",
    .truth =
        "Closed forms: ∇θ = bθ + c_l − (a + c_f)/2, best θ = (a − 2c_l + c_f)/(2b) with profit (a − 2c_l "
        "+ c_f)²/(8b); both at the same time (Cournot): θ = (a − 2c_l + c_f)/(3b) with profit bθ², which "
        "is 8/9 of the leader's.",
    .slip = "",
    .expected = "closed forms; profit 9/8 of Cournot's",
    .run = of_stackelberg_games::run};

}  // namespace claims
