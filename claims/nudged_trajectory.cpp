#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/adjoint/neumann.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "log_cosh_truth.hpp"

namespace claims {
namespace {
namespace of_nudged_trajectory {

constexpr int draws = 20, steps = 40;
constexpr Index n = 6;

/// π_0 … π_K of recurrent backpropagation with step α.
std::vector<Vec> adjoints(Laboratory& lab, bilevel::Problem<Vec>& problem, const Vec& phi, const Vec& theta,
                          double alpha) {
  Vec force(n);
  problem.outer(phi, theta, {.phi = &force});
  const auto curvature = lab.curvature(problem, phi, theta);
  bilevel::CurvatureOperator<Vec> hessian(*curvature, true, false);
  std::vector<Vec> list{Vec::Zero(n)};
  for (int k = 1; k <= steps; ++k) {
    bilevel::NeumannOptions options;
    options.step = alpha;
    options.terms = k;
    options.relative_tolerance = 1e-300;  // exactly k terms, wherever the residual is
    list.push_back(
        lab.adjoint(std::make_unique<bilevel::Neumann<Vec>>(options))->solve(hessian, force, nullptr).x);
  }
  return list;
}

/// −(φ_k − φ₀)/β for k = 0 … K, φ_k by gradient descent on L_in + β·L_out.
std::vector<Vec> secants(bilevel::Problem<Vec>& problem, const Vec& start, const Vec& theta, double alpha,
                         double beta) {
  Vec phi = start, inner(n), outer(n);
  std::vector<Vec> list{Vec::Zero(n)};
  for (int k = 1; k <= steps; ++k) {
    problem.inner(phi, theta, {.phi = &inner});
    problem.outer(phi, theta, {.phi = &outer});
    phi -= alpha * (inner + beta * outer);
    list.push_back(-(phi - start) / beta);
  }
  return list;
}

double largest_gap(const std::vector<Vec>& a, const std::vector<Vec>& b) {
  double gap = 0;
  for (std::size_t k = 0; k < a.size(); ++k) keep_worst(gap, (a[k] - b[k]).norm());
  return gap / b.back().norm();
}

/// Q with L_out = cᵀφ instead.
bilevel::Functions<Vec> with_linear_outer(bilevel::problems::Quadratic& q, const Vec& c) {
  return {.initial_phi = [&q] { return q.initial_phi(); },
          .initial_theta = [&q] { return q.initial_theta(); },
          .inner = [&q](const Vec& p, const Vec& t, bilevel::Wanted<Vec> w) { return q.inner(p, t, w); },
          .outer =
              [c](const Vec& p, const Vec&, bilevel::Wanted<Vec> w) {
                if (w.phi) *w.phi = c;
                if (w.theta) w.theta->setZero();
                return c.dot(p);
              },
          .hessian_times = [&q](const Vec&, const Vec&, double, const Vec& v,
                                Vec& out) { out = q.hessian() * v; },
          .cross_times = [&q](const Vec&, const Vec&, double, const Vec& v,
                              Vec& out) { out = -q.coupling().transpose() * v; },
          .cross_apply = [&q](const Vec&, const Vec&, double, const Vec& u,
                              Vec& out) { out = -q.coupling() * u; }};
}

void run(Laboratory& lab, Outcome& outcome) {
  const std::vector<double> betas = geometric(1e-5, 1e-2, 7);
  double worst_slope[2] = {}, worst_linear = 0, worst_limit = 0, least_gap = 1, first_gap = 0;
  std::vector<double> gaps[2], k_axis, pi_sizes;
  for (int k = 0; k <= steps; ++k) k_axis.push_back(k);
  Chart chart("The two second phases, step by step");
  chart.x("step k").y("distance from 0, ‖·‖");
  for (int draw = 0; draw < draws; ++draw) {
    auto q =
        bilevel::problems::Quadratic::random({.phi = n, .theta = 3, .condition = 10, .seed = lab.seed(draw)});
    auto bent = bilevel::problems::LogCosh::random(
        {.phi = n, .theta = 3, .condition = 10, .epsilon = 0.8, .seed = lab.seed(100 + draw)});
    const Vec theta = lab.vector(3, 200 + draw);
    bilevel::Problem<Vec>* const problems[] = {&q, &bent};
    for (int family = 0; family < 2; ++family) {
      auto& problem = *problems[family];
      const Vec start = settled(problem, theta);
      const double alpha = 0.8 / problem.constants(theta, start, bilevel::everywhere).smoothness;
      const std::vector<Vec> pi = adjoints(lab, problem, start, theta, alpha);
      std::vector<double> deviations;
      for (const double beta : betas)
        deviations.push_back(largest_gap(secants(problem, start, theta, alpha, beta), pi));
      keep_worst(worst_slope[family], std::abs(slope(betas, deviations) - 1));
      least_gap = std::min(least_gap, deviations.back());
      if (draw == 0) gaps[family] = deviations;
      // One step apart from rounding: φ_1 = φ₀ − αβg, so −(φ_1 − φ₀)/β = αg = π_1 at any β.
      keep_worst(first_gap, (secants(problem, start, theta, alpha, 0.5)[1] - pi[1]).norm() / pi[1].norm());
      if (draw > 0 || family == 0) continue;
      for (const Vec& x : pi) pi_sizes.push_back(x.norm());
      for (const double beta : {1.0, 0.1}) {
        std::vector<double> sizes;
        for (const Vec& x : secants(problem, start, theta, alpha, beta)) sizes.push_back(x.norm());
        chart.line(fmt::format("(φ_k − φ₀)/β, β = {:g}", beta), k_axis, sizes);
      }
    }
    // L_out = cᵀφ.
    const Vec c = lab.vector(n, 300 + draw), start = q.settled(theta, 0);
    auto linear = bilevel::make_problem<Vec>(with_linear_outer(q, c));
    const double alpha = 0.8 / q.constants(theta, start, bilevel::everywhere).smoothness;
    const std::vector<Vec> pi = adjoints(lab, linear, start, theta, alpha);
    for (const double beta : {0.01, 1.0, 30.0})
      keep_worst(worst_linear,
                 std::min(beta, 1.0) * largest_gap(secants(linear, start, theta, alpha, beta), pi));
    // (I − αH)^K is what is left of the error after K steps.
    Vec left = q.hessian().llt().solve(c);
    const Vec end = left;
    for (int k = 0; k < steps; ++k) left -= alpha * (q.hessian() * left);
    keep_worst(worst_limit, (end - pi.back() - left).norm() / end.norm());
  }
  outcome.at_most("slope of the largest deviation against 1, Q, worst of 20", 0.02, worst_slope[0]);
  outcome.at_most("slope of the largest deviation against 1, log-cosh, worst of 20", 0.02, worst_slope[1]);
  outcome.at_least("deviation at β = 0.01, smallest of all", 1e-5, least_gap);
  outcome.at_most("−(φ_1 − φ₀)/β against π_1 at β = 0.5", 1e-12, first_gap);
  outcome.at_most("deviation times min(β, 1) where L_out is linear", 1e-13, worst_linear);
  outcome.at_most("gH⁻¹ − π_K against (I − αH)^K gH⁻¹, relative", 1e-12, worst_limit);
  chart.dots("π_k", k_axis, pi_sizes);
  outcome.show(chart.caption("log-cosh. The smaller β, the closer the nudged trajectory to the adjoint's."));
  std::vector<double> line;
  for (const double beta : betas) line.push_back(gaps[1].back() * beta / betas.back());
  outcome.show(Chart("Largest deviation of −(φ_k − φ₀)/β from π_k over 40 steps")
                   .x("β", true)
                   .y("max_k ‖·‖/‖π_K‖", true)
                   .dots("quadratic", betas, gaps[0])
                   .dots("log-cosh", betas, gaps[1])
                   .line("slope 1", betas, line, true));
  outcome.measured =
      fmt::format("slope 1 ± {:.3f}; linear {:.0e}", std::max(worst_slope[0], worst_slope[1]), worst_linear);
}

}  // namespace of_nudged_trajectory
}  // namespace

const Claim nudged_trajectory{
    .name = "nudged-trajectory",
    .title = "The nudged second phase follows the adjoint's",
    .place = "Section 3.2",
    .statement =
        "Let both second phases be gradient descent with the same step: on L_in + β·L_out from φ₀, and on "
        "the quadratic form from π₀ = 0, which is recurrent backpropagation. Then −(φ_k − φ₀)/β = π_k + "
        "O(β) for every k. Where L_in is quadratic and L_out linear they are equal for every k and every "
        "β.",
    .protocol =
        "20 random log-cosh problems, 20 quadratic ones (φ of 6, θ of 3, κ = 10) and 20 quadratic ones "
        "with a linear outer loss; φ₀ the minimiser, 40 steps of α = 0.8/L each. π_k comes from the "
        "Neumann series cut after k terms. The largest deviation over k, for 7 values of β.",
    .truth =
        "The two trajectories against each other: slope 1 in β; for the linear outer loss equal to "
        "rounding at β = 0.01, 1 and 30. π_k also tends to π* = gH⁻¹ by LU.",
    .slip = "The text has π* = dφ_β/dβ: with its sign the two trajectories run in opposite directions.",
    .expected = "slope 1 in β; equal where L_out is linear",
    .run = of_nudged_trajectory::run};

}  // namespace claims
