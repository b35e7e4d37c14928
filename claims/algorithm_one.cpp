#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/QR>

#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/ridge.hpp>

namespace claims {
namespace {
namespace of_algorithm_one {

/// What the loop needs to know about a problem to judge itself.
struct Case {
  bilevel::problems::ReferenceProblem& problem;
  std::function<Vec(const Vec& theta, double beta)> settled;  ///< φ_β in closed form
  Vec best;
  double rate;  ///< η
  double smoothness;
  int iterations;
};

struct Record {
  double from_library = 0, from_truth = 0;  // largest of all iterations, relative to the largest gradient
  std::vector<double> distance;             // from the best θ
};

/// The two-point estimate with closed-form states.
Vec two_points(const Case& c, const Vec& theta, double beta) {
  Vec free(theta.size()), nudged(theta.size()), outer(theta.size());
  c.problem.inner(c.settled(theta, 0), theta, {.theta = &free});
  c.problem.inner(c.settled(theta, beta), theta, {.theta = &nudged});
  c.problem.outer(c.settled(theta, beta), theta, {.theta = &outer});
  return (nudged - free) / beta + outer;
}

/// Algorithm 1. `branch` is neumann, cg, or ep with a number of points.
Record algorithm(const Laboratory& lab, const Case& c, Vec theta, const std::string& branch, double beta,
                 int points) {
  bilevel::Problem<Vec>& problem = c.problem;
  const auto inner = settler("newton", problem, 1e-13);
  bilevel::NeumannOptions descent;
  descent.step = 1 / c.smoothness;
  descent.terms = 1500;
  const auto solver = [&]() -> std::unique_ptr<bilevel::AdjointSolver<Vec>> {
    if (branch == "neumann") return std::make_unique<bilevel::Neumann<Vec>>(descent);
    return bilevel::make_adjoint_solver<Vec>("cg", {.relative_tolerance = 1e-13});
  };
  const auto adjoint = lab.adjoint(solver());
  const auto library =
      branch == "ep" ? lab.estimator(fmt::format("ep-forward-{}", points), problem, *inner, {.beta = beta})
                     : lab.implicit(problem, *inner, solver());
  Record record;
  Vec phi = problem.initial_phi(), estimate(theta.size());
  double scale = 0;
  for (int i = 1; i <= c.iterations; ++i) {
    // Minimize L_in(φ, θ) with respect to φ and note φ̂ the approximate result;
    phi = inner->solve(theta, 0, phi).phi;
    if (branch != "ep") {
      // Minimize the quadratic form π ↦ ½ π ∂φ²L_in(φ̂, θ) πᵀ − π ∂φL_out(φ̂, θ)ᵀ and note π̂ the result;
      Vec g(phi.size()), outer_theta(theta.size()), product(theta.size());
      problem.outer(phi, theta, {.phi = &g, .theta = &outer_theta});
      const auto curvature = lab.curvature(problem, phi, theta);
      bilevel::CurvatureOperator<Vec> h(*curvature, true, false);
      const Vec pi = adjoint->solve(h, g, nullptr).x;
      // Estimate the outer gradient with ∇̂ := ∂θL_out(φ̂, θ) − π̂ ∂θ∂φL_in(φ̂, θ);
      curvature->cross_times(pi, product);
      estimate = outer_theta - product;
    } else {
      // Minimize L_in + βL_out for some small β, starting from φ̂, and note φ̂_β the result;
      // estimate the outer gradient with ∇̂ := (∂θL(φ̂_β, θ, β) − ∂θL(φ̂, θ, 0))/β, or with more points;
      const Weights weights = lab.forward_stencil(points);
      Vec inner_theta(theta.size()), outer_theta(theta.size());
      estimate.setZero();
      for (std::size_t k = 0; k < weights.points.size(); ++k) {
        const double t = weights.points[k] * beta;
        const Vec nudged = t == 0 ? phi : inner->solve(theta, t, phi).phi;
        problem.inner(nudged, theta, {.theta = &inner_theta});
        problem.outer(nudged, theta, {.theta = &outer_theta});
        estimate += weights.coefficients[k] / beta * (inner_theta + t * outer_theta);
      }
    }
    // The truth about this iteration.
    const Vec truth =
        branch == "ep" && points == 2 ? two_points(c, theta, beta) : *c.problem.outer_gradient(theta);
    keep_worst(scale, truth.norm());
    keep_worst(record.from_truth, (estimate - truth).norm() / scale);
    keep_worst(record.from_library,
               (library->estimate(theta, {.phi = phi, .pi = {}}).gradient - estimate).norm() / scale);
    // Update θ using ∇̂;
    theta -= c.rate * estimate;
    record.distance.push_back((theta - c.best).norm());
  }
  return record;
}

/// A quadratic whose outer problem is well conditioned, and ridge regression with one penalty.
bilevel::problems::Quadratic make_quadratic(const Laboratory& lab) {
  const auto shape =
      bilevel::problems::Quadratic::random({.phi = 8, .theta = 3, .condition = 4, .seed = lab.seed(1)});
  Mat j = Eigen::HouseholderQR<Mat>(lab.matrix(8, 3, 2)).householderQ() * Mat::Identity(8, 3);
  return {shape.hessian(), j, lab.vector(8, 3), Mat::Identity(8, 8), lab.vector(8, 4)};
}

void run(Laboratory& lab, Outcome& outcome) {
  auto quadratic = make_quadratic(lab);
  // The outer loss has the Hessian (H⁻¹J)ᵀ(H⁻¹J), with eigenvalues between 1/L² and 1/μ².
  const auto spectrum = bilevel::dense_spectrum(quadratic.hessian(), true);
  Case on_quadratic{quadratic,
                    [&](const Vec& theta, double beta) { return quadratic.settled(theta, beta); },
                    *quadratic.best_theta(),
                    2 / (std::pow(spectrum.smallest, -2) + std::pow(spectrum.largest, -2)),
                    spectrum.largest,
                    200};

  auto ridge = bilevel::problems::Ridge::random({.rows = 40,
                                                 .validation_rows = 400,
                                                 .features = 20,
                                                 .noise = 2,
                                                 .penalty = bilevel::problems::Penalty::global,
                                                 .seed = lab.seed(5)});
  double low = -10, high = 10;
  const auto slope_at = [&](double at) { return (*ridge.outer_gradient(Vec::Constant(1, at)))[0]; };
  const bool bracketed = slope_at(low) < 0 && slope_at(high) > 0;
  while (high - low > 1e-14 * (1 + std::abs(low))) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high) break;
    (slope_at(middle) < 0 ? low : high) = middle;
  }
  const Vec best = Vec::Constant(1, low);
  const double bend = (slope_at(low + 1e-4) - slope_at(low - 1e-4)) / 2e-4;
  Case on_ridge{
      ridge,
      [&](const Vec& theta, double beta) { return ridge.settled(theta, beta); },
      best,
      0.5 / bend,
      ridge.constants(best, ridge.initial_phi(), bilevel::everywhere).smoothness + std::exp(low + 0.5),
      60};
  outcome.check("ridge: best θ lies within [−10, 10]", "yes", bracketed ? "yes" : "no", bracketed);

  double worst_library = 0, worst_implicit = 0, reached = 0;
  Chart chart("Distance from the best θ over the iterations of Algorithm 1, quadratic");
  chart.x("outer iteration").y("‖θ − θ*‖", true).y_range(1e-16, 10);
  for (const Case* c : {&on_quadratic, &on_ridge}) {
    const std::string name(c->problem.name());
    const Vec start = c == &on_ridge ? Vec(best.array() + 0.5) : Vec(Vec::Zero(3));
    for (const char* branch : {"neumann", "cg", "ep"}) {
      const Record record = algorithm(lab, *c, start, branch, 1e-3, 2);
      const std::string label = branch == std::string("ep")        ? "equilibrium propagation"
                                : branch == std::string("neumann") ? "gradient descent"
                                                                   : "conjugate gradient";
      outcome.at_most(fmt::format("{}, {}: from the library's estimate", name, label), 1e-10,
                      record.from_library);
      outcome.at_most(fmt::format("{}, {}: from the truth, all iterations", name, label), 1e-8,
                      record.from_truth);
      keep_worst(worst_library, record.from_library);
      keep_worst(worst_implicit, record.from_truth);
      if (branch != std::string("ep")) {
        outcome.at_most(fmt::format("{}, {}: distance from the best θ", name, label), 1e-8,
                        record.distance.back());
        keep_worst(reached, record.distance.back());
      }
      if (c == &on_quadratic) {
        std::vector<double> x;
        for (std::size_t i = 0; i < record.distance.size(); ++i) x.push_back(double(i + 1));
        chart.line(label + (branch == std::string("ep") ? ", β = 1e-3" : ""), x, record.distance);
      }
    }
  }

  // Where the biased gradient is zero.
  const std::vector<double> betas = geometric(1e-3, 1e-1, 5);
  std::vector<double> two, three;
  for (const double beta : betas) {
    two.push_back(algorithm(lab, on_quadratic, Vec::Zero(3), "ep", beta, 2).distance.back());
    three.push_back(algorithm(lab, on_quadratic, Vec::Zero(3), "ep", beta, 3).distance.back());
  }
  const auto order = [&](const std::vector<double>& y) {
    return slope({betas.begin(), betas.begin() + 3}, {y.begin(), y.begin() + 3});
  };
  outcome.near("order in β of the final distance from the best θ, 2 points", 1, order(two), 0.1);
  outcome.near("order in β of the final distance from the best θ, 3 points", 2, order(three), 0.2);

  outcome.show(
      chart.caption("Equilibrium propagation with two points stops where its biased gradient vanishes."));
  std::vector<double> law_two, law_three;
  for (const double beta : betas) {
    law_two.push_back(two[0] * beta / betas[0]);
    law_three.push_back(three[0] * std::pow(beta / betas[0], 2));
  }
  outcome.show(Chart("Where equilibrium propagation ends, quadratic")
                   .x("β", true)
                   .y("final ‖θ − θ*‖", true)
                   .dots("2 points", betas, two)
                   .dots("3 points", betas, three)
                   .line("β", betas, law_two, true)
                   .line("β²", betas, law_three, true));
  outcome.measured =
      fmt::format("implicit {:.0e}; EP orders {:.2f}, {:.2f}", reached, order(two), order(three));
}

}  // namespace of_algorithm_one
}  // namespace

const Claim algorithm_one{
    .name = "algorithm-one",
    .title = "Algorithm 1, line by line",
    .place = "Section 3, Algorithm 1",
    .statement =
        "Both branches of Algorithm 1 approximate the outer gradient, and gradient descent on θ with "
        "either reaches an approximate solution of the bilevel problem: with implicit differentiation as "
        "accurate as its two phases, with equilibrium propagation up to a bias that falls with β.",
    .protocol =
        "The algorithm as printed, on a quadratic (|φ| = 8, |θ| = 3, condition number 4, 200 outer "
        "iterations) and on ridge regression with one penalty (20 features, 40 samples, 60 iterations). "
        "Phase 1 by Newton's method. Phase 2: 1500 steps of gradient descent on the quadratic form; "
        "conjugate gradient; or minimisation of L_in + βL_out from φ̂ with β = 1e-3 and the printed "
        "two-point estimate. θ ← θ − η∇̂. In each iteration the estimate is compared with the library's "
        "estimator of that name and with the truth. The quadratic is solved again for 5 values of β with "
        "2 and 3 points.",
    .truth =
        "∇θ and the best θ in closed form (quadratic), ∇θ in closed form and the best θ by bisection "
        "(ridge); for two points (∂θL_in(φ_β) − ∂θL_in(φ₀))/β with φ_β in closed form.",
    .slip = "",
    .expected = "best θ: implicit to 1e-8, EP order β",
    .run = of_algorithm_one::run};

}  // namespace claims
