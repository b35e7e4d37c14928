#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/pitchfork.hpp>

namespace claims {
namespace {
namespace of_branching {

using bilevel::problems::Pitchfork;

/// The distinct limits of Newton's method on ∂φ L_in, to 1e-6, from starts across [−2, 2].
std::vector<double> stationary_points(Pitchfork& problem, double theta_value) {
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
    if (std::none_of(found.begin(), found.end(),
                     [&](double other) { return std::abs(other - phi[0]) < 1e-4; }))
      found.push_back(phi[0]);
  }
  return found;
}

/// Whether L_in is larger on both sides of φ.
bool lowest(Pitchfork& problem, double phi, double theta_value) {
  const Vec theta = Vec::Constant(1, theta_value);
  const auto value = [&](double at) { return problem.inner(Vec::Constant(1, at), theta, {}); };
  return value(phi - 0.01) > value(phi) && value(phi + 0.01) > value(phi);
}

double hessian_at(const Laboratory& lab, Pitchfork& problem, double phi, double theta) {
  Vec product(1);
  lab.curvature(problem, Vec::Constant(1, phi), Vec::Constant(1, theta))->times(Vec::Ones(1), product);
  return product[0];
}

/// The points found at 13 values of θ, told apart.
struct StationarySet {
  StationarySet(const Laboratory& lab, Pitchfork& problem) {
    for (int i = 0; i < 13; ++i) collect(lab, problem, -1 + 0.25 * i);
  }

  std::vector<double> minimum_x, minimum_y, maximum_x, maximum_y;
  int wrong_sets = 0, wrong_kinds = 0;  ///< values of θ
  double worst_root = 0;

 private:
  void collect(const Laboratory& lab, Pitchfork& problem, double theta) {
    const std::vector<double> points = stationary_points(problem, theta);
    wrong_sets += points.size() != (theta > 0 ? 3u : 1u);
    int minima = 0, maxima = 0;
    for (const double phi : points) {
      const double root = std::sqrt(std::max(theta, 0.0) / 2);
      keep_worst(worst_root, std::min({std::abs(phi), std::abs(phi - root), std::abs(phi + root)}));
      const double hessian = hessian_at(lab, problem, phi, theta);
      // At θ = 0 the Hessian vanishes and the values beside the point decide.
      const bool minimum = theta == 0 ? lowest(problem, phi, theta) : hessian > 0;
      minima += minimum;
      maxima += theta != 0 && hessian < 0 && std::abs(phi) < 1e-4;
      (minimum ? minimum_x : maximum_x).push_back(theta);
      (minimum ? minimum_y : maximum_y).push_back(phi);
    }
    wrong_kinds += minima != (theta > 0 ? 2 : 1) || maxima != (theta > 0 ? 1 : 0);
  }
};

/// Checks the Hessian and the sensitivity along the upper branch; the largest error of the latter.
double check_upper_branch(const Laboratory& lab, Pitchfork& problem, Outcome& outcome) {
  double worst_hessian = 0, worst_sensitivity = 0;
  for (const double theta : geometric(0.01, 4, 25)) {
    const double phi = std::sqrt(theta / 2);
    keep_worst(worst_hessian, std::abs(hessian_at(lab, problem, phi, theta) - 4 * theta) / (4 * theta));
    if (std::abs(phi - 1) < 1e-3) continue;
    const auto inner = settler("newton", problem, 1e-14);
    const auto e = lab.estimator("implicit-cg", problem, *inner)
                       ->estimate(Vec::Constant(1, theta), {.phi = Vec::Constant(1, phi)});
    const double sensitivity = e.gradient[0] / (phi - 1);
    keep_worst(worst_sensitivity, std::abs(sensitivity * 4 * phi - 1));
  }
  outcome.at_most("Hessian at φ* against 12φ*² − 2θ = 4θ, relative", 1e-12, worst_hessian);
  outcome.at_most("dφ*/dθ against 1/(4φ*), relative", 1e-8, worst_sensitivity);
  return worst_sensitivity;
}

void check_branching_point(const Laboratory& lab, Pitchfork& problem, Outcome& outcome) {
  outcome.at_most("Hessian at φ = 0, θ = 0", 0, std::abs(hessian_at(lab, problem, 0, 0)));
  const Vec zero = Vec::Zero(1);
  const auto inner = settler("newton", problem, 1e-12);
  for (const char* name : {"exact", "implicit-cg", "implicit-direct"}) {
    const auto e = lab.estimator(name, problem, *inner)->estimate(zero, {.phi = zero});
    outcome.check(fmt::format("{} at the branching point", name), "untrusted",
                  std::string(bilevel::name(e.certificate.verdict)),
                  e.certificate.verdict == bilevel::Verdict::untrusted);
  }
}

/// Gradient descent on φ⁴ is sublinear: checked, and drawn.
Chart check_descent(Pitchfork& problem, Outcome& outcome) {
  const double alpha = 0.05;
  std::vector<double> steps, states, law;
  double next = 1;
  const Vec zero = Vec::Zero(1);
  Vec phi = Vec::Ones(1), residual(1);
  for (long k = 1; k <= 1000000; ++k) {
    problem.residual(phi, zero, residual);
    phi[0] -= alpha * residual[0];
    if (k < next) continue;
    next *= 1.6;
    steps.push_back(static_cast<double>(k));
    states.push_back(phi[0]);
    law.push_back(1 / std::sqrt(8 * alpha * static_cast<double>(k)));
  }
  outcome.near("φ_k·√(8αk) after 10⁶ steps of gradient descent", 1, phi[0] * std::sqrt(8 * alpha * 1e6),
               0.01);
  return Chart("Gradient descent at the branching point")
      .x("step k", true)
      .y("φ_k", true)
      .dots("gradient descent", steps, states)
      .line("1/√(8αk)", steps, law, true)
      .caption("A singular Hessian costs linear convergence too.");
}

Chart losses(Pitchfork& problem) {
  Chart chart("L_in = φ⁴ − θφ² for several θ", "Figure 1A");
  chart.x("φ").y("L_in");
  for (const double theta : {-1.0, 0.0, 1.0, 2.0}) {
    std::vector<double> x, y;
    for (int i = -60; i <= 60; ++i) {
      Vec at = Vec::Constant(1, i / 40.0);
      x.push_back(at[0]);
      y.push_back(problem.inner(at, Vec::Constant(1, theta), {}));
    }
    chart.line(fmt::format("θ = {:g}", theta), x, y);
  }
  return chart.y_range(-1.2, 2).caption(
      "The curves are computed; marks only tell them apart. For θ > 0 two minima leave φ = 0.");
}

Chart solution_map(const StationarySet& found) {
  std::vector<double> grid, upper, lower;
  for (int i = 0; i <= 60; ++i) grid.push_back(2.0 * i / 60);
  for (const double theta : grid) {
    upper.push_back(std::sqrt(theta / 2));
    lower.push_back(-std::sqrt(theta / 2));
  }
  return Chart("Solution map S(θ) = {φ | ∂φ L_in = 0}", "Figure 1B")
      .x("θ")
      .y("φ")
      .line("+√(θ/2)", grid, upper)
      .line("−√(θ/2)", grid, lower)
      .line("0", {-1, 2}, {0, 0}, true)
      .dots("found, minimum", found.minimum_x, found.minimum_y)
      .dots("found, maximum", found.maximum_x, found.maximum_y)
      .caption("Three branches meet at (0, 0), where the Hessian is singular.");
}

void run(Laboratory& lab, Outcome& outcome) {
  Pitchfork problem;
  const StationarySet found(lab, problem);
  outcome.none_of("values of θ with a wrong number of stationary points", found.wrong_sets, 13);
  outcome.none_of("values of θ without 1 minimum (θ ≤ 0) or 2 and a maximum at 0 (θ > 0)", found.wrong_kinds,
                  13);
  outcome.at_most("distance of the points from {0, ±√(θ/2)}", 1e-4, found.worst_root);
  const double worst_sensitivity = check_upper_branch(lab, problem, outcome);
  check_branching_point(lab, problem, outcome);
  const Chart descent = check_descent(problem, outcome);

  outcome.show(losses(problem));
  outcome.show(solution_map(found));
  outcome.show(descent);
  outcome.measured = fmt::format("{} of 13 sets wrong; {:.0e}; refused", found.wrong_sets, worst_sensitivity);
}

}  // namespace of_branching
}  // namespace

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
    .run = of_branching::run};

}  // namespace claims
