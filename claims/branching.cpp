#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/pitchfork.hpp>

namespace claims {

static void run(Laboratory& lab, Outcome& outcome);

const Claim branching{
    .name = "branching",
    .title = "Where the Hessian is singular, the solution map branches",
    .place = "Section 2.1, Figure 1",
    .statement =
        "For L_in = φ⁴ − θφ² the stationary points are {0} for θ ≤ 0, a minimum, and {0, ±√(θ/2)} for θ > "
        "0, a maximum at 0 between two minima. At θ = 0 the Hessian 12φ² − 2θ vanishes at φ = 0, no "
        "implicit function exists there, and no outer gradient.",
    .protocol =
        "Newton's method from 200 starts for each of 13 values of θ collects the stationary set; the sign "
        "of the Hessian tells minima from maxima, at θ = 0 the values beside φ = 0 do. The sensitivity "
        "dφ*/dθ of the upper branch is the outer gradient of L_out = ½(φ − y)² divided by φ* − y. At θ = "
        "0 gradient descent with step α runs 10⁶ steps from φ = 1, and an estimator is asked for a "
        "gradient.",
    .truth =
        "Closed forms: the roots of 4φ³ − 2θφ, the Hessian 12φ² − 2θ, dφ*/dθ = 1/(4φ*), and the decay φ_k "
        "≈ 1/√(8αk) of gradient descent on φ⁴.",
    .slip =
        "The text has a unique minimiser, the only stationary point, where θ is negative, \"and three "
        "otherwise\". For θ > 0 the three are stationary points, of which two are minimisers and φ = 0 is "
        "a maximum; at θ = 0 there is one.",
    .expected = "1 or 3 roots; 1/(4φ*); refusal at θ = 0",
    .run = run};

namespace {

/// The distinct limits of Newton's method on ∂φ L_in, to 1e-6, from starts across [−2, 2].
std::vector<double> stationary_points(bilevel::problems::Pitchfork& problem, double theta_value) {
  const Vec theta = Vec::Constant(1, theta_value);
  std::vector<double> found;
  Vec phi(1), residual(1);
  Vec slope_here(1), one = Vec::Ones(1);
  for (int start = 0; start < 200; ++start) {
    phi[0] = -2 + 4 * (start + 0.5) / 200;
    std::unique_ptr<bilevel::Curvature<Vec>> curvature;
    for (int step = 0; step < 200; ++step) {
      problem.residual(phi, theta, residual);
      if (std::abs(residual[0]) < 1e-14) break;
      problem.linearise(phi, theta, 0, curvature);
      curvature->times(one, slope_here);
      if (slope_here[0] == 0) break;
      phi[0] -= residual[0] / slope_here[0];
    }
    problem.residual(phi, theta, residual);
    // Near a double root the residual is cubic: |φ| ≈ |r/4|^(1/3).
    if (!(std::abs(residual[0]) < 1e-13)) continue;
    bool known = false;
    for (const double other : found) known = known || std::abs(other - phi[0]) < 1e-4;
    if (!known) found.push_back(phi[0]);
  }
  return found;
}

/// Whether L_in is larger on both sides of φ.
bool lowest(bilevel::problems::Pitchfork& problem, double phi, double theta_value) {
  const Vec theta = Vec::Constant(1, theta_value);
  const auto value = [&](double at) { return problem.inner(Vec::Constant(1, at), theta, {}); };
  return value(phi - 0.01) > value(phi) && value(phi + 0.01) > value(phi);
}

}  // namespace

static void run(Laboratory& lab, Outcome& outcome) {
  bilevel::problems::Pitchfork problem;

  // The stationary set.
  std::vector<double> thetas, minimum_x, minimum_y, maximum_x, maximum_y;
  int wrong_sets = 0, wrong_kinds = 0;
  double worst_root = 0;
  for (int i = 0; i < 13; ++i) {
    const double theta = -1 + 0.25 * i;
    const std::vector<double> points = stationary_points(problem, theta);
    wrong_sets += points.size() != (theta > 0 ? 3u : 1u);
    int minima = 0, maxima = 0;
    for (const double phi : points) {
      const double root = std::sqrt(std::max(theta, 0.0) / 2);
      keep_worst(worst_root, std::min({std::abs(phi), std::abs(phi - root), std::abs(phi + root)}));
      Vec bend(1);
      lab.curvature(problem, Vec::Constant(1, phi), Vec::Constant(1, theta))->times(Vec::Ones(1), bend);
      // At θ = 0 the Hessian vanishes and the values beside the point decide.
      const bool minimum = theta == 0 ? lowest(problem, phi, theta) : bend[0] > 0;
      minima += minimum;
      maxima += theta != 0 && bend[0] < 0 && std::abs(phi) < 1e-4;
      (minimum ? minimum_x : maximum_x).push_back(theta);
      (minimum ? minimum_y : maximum_y).push_back(phi);
    }
    wrong_kinds += minima != (theta > 0 ? 2 : 1) || maxima != (theta > 0 ? 1 : 0);
  }
  outcome.check("values of θ with a wrong number of stationary points", "0 of 13",
                fmt::format("{} of 13", wrong_sets), wrong_sets == 0);
  outcome.check("values of θ without 1 minimum (θ ≤ 0) or 2 and a maximum at 0 (θ > 0)", "0 of 13",
                fmt::format("{} of 13", wrong_kinds), wrong_kinds == 0);
  outcome.at_most("distance of the points from {0, ±√(θ/2)}", 1e-4, worst_root);

  // The Hessian and the sensitivity along the upper branch.
  double worst_hessian = 0, worst_sensitivity = 0;
  for (const double theta : geometric(0.01, 4, 25)) {
    const Vec at = Vec::Constant(1, theta);
    const Vec phi = Vec::Constant(1, std::sqrt(theta / 2));
    Vec product(1);
    lab.curvature(problem, phi, at)->times(Vec::Ones(1), product);
    keep_worst(worst_hessian, std::abs(product[0] - 4 * theta) / (4 * theta));
    if (std::abs(phi[0] - 1) < 1e-3) continue;
    const auto inner = settler("newton", problem, 1e-14);
    const auto e = lab.estimator("implicit-cg", problem, *inner)->estimate(at, {.phi = phi});
    const double sensitivity = e.gradient[0] / (phi[0] - 1);
    keep_worst(worst_sensitivity, std::abs(sensitivity * 4 * phi[0] - 1));
  }
  outcome.at_most("Hessian at φ* against 12φ*² − 2θ = 4θ, relative", 1e-12, worst_hessian);
  outcome.at_most("dφ*/dθ against 1/(4φ*), relative", 1e-8, worst_sensitivity);

  // At the branching point.
  const Vec zero = Vec::Zero(1);
  Vec product(1);
  lab.curvature(problem, zero, zero)->times(Vec::Ones(1), product);
  outcome.at_most("Hessian at φ = 0, θ = 0", 0, std::abs(product[0]));
  const auto inner = settler("newton", problem, 1e-12);
  for (const char* name : {"exact", "implicit-cg", "implicit-direct"}) {
    const auto e = lab.estimator(name, problem, *inner)->estimate(zero, {.phi = zero});
    outcome.check(fmt::format("{} at the branching point", name), "untrusted",
                  std::string(bilevel::name(e.certificate.verdict)),
                  e.certificate.verdict == bilevel::Verdict::untrusted);
  }

  // Gradient descent on φ⁴ is sublinear.
  const double alpha = 0.05;
  std::vector<double> steps, states, law;
  double phi = 1, next = 1;
  Vec state(1), residual(1);
  for (long k = 1; k <= 1000000; ++k) {
    state[0] = phi;
    problem.residual(state, zero, residual);
    phi -= alpha * residual[0];
    if (k < next) continue;
    next *= 1.6;
    steps.push_back(static_cast<double>(k));
    states.push_back(phi);
    law.push_back(1 / std::sqrt(8 * alpha * static_cast<double>(k)));
  }
  outcome.near("φ_k·√(8αk) after 10⁶ steps of gradient descent", 1, phi * std::sqrt(8 * alpha * 1e6), 0.01);

  std::vector<double> grid, upper, lower, straight;
  for (int i = 0; i <= 60; ++i) grid.push_back(2.0 * i / 60);
  for (const double theta : grid) {
    upper.push_back(std::sqrt(theta / 2));
    lower.push_back(-std::sqrt(theta / 2));
    straight.push_back(0);
  }
  Chart losses("L_in = φ⁴ − θφ² for several θ", "Figure 1A");
  losses.x("φ").y("L_in");
  for (const double theta : {-1.0, 0.0, 1.0, 2.0}) {
    std::vector<double> x, y;
    for (int i = -60; i <= 60; ++i) {
      Vec at = Vec::Constant(1, i / 40.0);
      x.push_back(at[0]);
      y.push_back(problem.inner(at, Vec::Constant(1, theta), {}));
    }
    losses.line(fmt::format("θ = {:g}", theta), x, y);
  }
  losses.y_range(-1.2, 2).caption(
      "The curves are computed; marks only tell them apart. For θ > 0 two minima leave φ = 0.");
  outcome.show(losses);
  outcome.show(Chart("Solution map S(θ) = {φ | ∂φ L_in = 0}", "Figure 1B")
                   .x("θ")
                   .y("φ")
                   .line("+√(θ/2)", grid, upper)
                   .line("−√(θ/2)", grid, lower)
                   .line("0", {-1, 2}, {0, 0}, true)
                   .dots("found, minimum", minimum_x, minimum_y)
                   .dots("found, maximum", maximum_x, maximum_y)
                   .caption("Three branches meet at (0, 0), where the Hessian is singular."));
  outcome.show(Chart("Gradient descent at the branching point")
                   .x("step k", true)
                   .y("φ_k", true)
                   .dots("gradient descent", steps, states)
                   .line("1/√(8αk)", steps, law, true)
                   .caption("A singular Hessian costs linear convergence too."));
  outcome.measured = fmt::format("{} of 13 sets wrong; {:.0e}; refused", wrong_sets, worst_sensitivity);
}

}  // namespace claims
