#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/registry.hpp>

namespace claims {
namespace {
namespace of_truncated_backpropagation {

/// The settled problem of both methods: each estimate and the series spelled out.
struct Pair {
  Vec truncated, recurrent, series;
  double bytes_truncated = 0, bytes_recurrent = 0;
};

Pair measure(const Laboratory& lab, bilevel::problems::ReferenceProblem& problem, const Vec& theta,
             long steps, long terms) {
  const double alpha = 1 / problem.constants(theta, problem.initial_phi(), bilevel::everywhere).smoothness;
  const auto unused = settler("gradient-descent", problem, 1e-10);
  const auto truncated = lab.estimator(
      "unrolled-truncated", problem, *unused,
      {.certificate = {.enabled = false}, .step = "gradient-descent", .max_steps = steps, .truncate = terms});
  truncated->set_tolerances(0, 0);  // all the steps, whatever the gradient
  const auto e = truncated->estimate(theta, {});

  Settling there(problem, [&](const Vec&, double, const Vec&) { return e.phi; });
  const auto r = lab.implicit(problem, there, neumann(alpha, terms), {.certificate = {.enabled = false}})
                     ->estimate(theta, {});

  Vec g(e.phi.size()), outer_theta(theta.size());
  problem.outer(e.phi, theta, {.phi = &g, .theta = &outer_theta});
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  problem.linearise(e.phi, theta, 0, curvature);
  const Mat h = bilevel::dense_matrix(*curvature, e.phi),
            chi = bilevel::dense_cross(*curvature, e.phi, theta);
  Vec term = alpha * g, pi = Vec::Zero(g.size());
  for (long i = 0; i < terms; ++i) {
    pi += term;
    term -= alpha * (h * term);
  }
  return {e.gradient, r.gradient, outer_theta - chi.transpose() * pi, double(e.cost.bytes),
          double(r.cost.bytes)};
}

void run(Laboratory& lab, Outcome& outcome) {
  const std::vector<long> lengths{1, 2, 5, 20, 100, 500};
  std::vector<double> x(lengths.begin(), lengths.end()), stored(6), held(6), closed;
  double worst_methods[2] = {0, 0}, worst_series[2] = {0, 0};
  for (std::uint64_t draw = 0; draw < 40; ++draw) {
    const bool quadratic = draw % 2 == 0;
    const auto problem =
        bilevel::problems::make(quadratic ? "quadratic" : "log-cosh",
                                {.phi = 10, .theta = 3, .condition = 20, .seed = lab.seed(10 * draw)});
    const Vec theta = problem->initial_theta() + 0.5 * lab.vector(3, 10 * draw + 1);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const Pair pair = measure(lab, *problem, theta, 3000, lengths[i]);
      const double size = pair.series.norm();
      double& methods = worst_methods[quadratic ? 0 : 1];
      double& series = worst_series[quadratic ? 0 : 1];
      keep_worst(methods, (pair.truncated - pair.recurrent).norm() / size);
      keep_worst(series, (pair.truncated - pair.series).norm() / size);
      stored[i] = pair.bytes_truncated;
      held[i] = pair.bytes_recurrent;
    }
  }
  outcome.at_most("quadratic: truncated against recurrent backpropagation", 1e-12, worst_methods[0]);
  outcome.at_most("quadratic: truncated backpropagation against the series", 1e-12, worst_series[0]);
  outcome.at_most("log-cosh: truncated against recurrent backpropagation", 1e-11, worst_methods[1]);
  outcome.at_most("log-cosh: truncated backpropagation against the series", 1e-11, worst_series[1]);
  outcome.near("bytes that one more step costs truncated backpropagation", 80,
               (stored[5] - stored[4]) / double(lengths[5] - lengths[4]), 1e-9);
  outcome.at_most("bytes that 499 more steps cost recurrent backpropagation", 0, std::abs(held[5] - held[0]));

  // “When gradient descent has reached a minimum for several steps”: before that, the Hessians along the way
  // differ.
  std::vector<double> lengths_of_run, apart;
  const auto problem =
      bilevel::problems::make("log-cosh", {.phi = 10, .theta = 3, .condition = 20, .seed = lab.seed(9000)});
  const Vec theta = problem->initial_theta() + 0.5 * lab.vector(3, 9001);
  for (const double steps : geometric(20, 800, 17)) {
    const Pair pair = measure(lab, *problem, theta, long(steps), 20);
    lengths_of_run.push_back(double(long(steps)));
    apart.push_back((pair.truncated - pair.recurrent).norm() / pair.recurrent.norm());
  }
  outcome.at_least("log-cosh, stopped after 20 steps: relative difference", 1e-6, apart.front());
  outcome.at_most("log-cosh, stopped after 800 steps: relative difference", 1e-11, apart.back());

  for (const double k : x) closed.push_back(stored[0] + 80 * (k - 1));
  outcome.show(Chart("Bytes held by the two methods")
                   .x("steps K followed back", true)
                   .y("bytes", true)
                   .dots("truncated backpropagation", x, stored)
                   .dots("recurrent backpropagation", x, held)
                   .line("constant + 8|φ|K", x, closed, true));
  outcome.show(Chart("Before gradient descent has settled the two differ, log-cosh, K = 20")
                   .x("steps T of gradient descent", true)
                   .y("relative difference of the gradients", true)
                   .dots("truncated against recurrent", lengths_of_run, apart)
                   .caption("The Hessians along the last K steps become those at the minimum."));
  outcome.measured = fmt::format("{:.0e}, {:.0e}; {:g} bytes against {:g}", worst_methods[0],
                                 worst_methods[1], (stored[5] - stored[4]) / 400, (held[5] - held[4]) / 400);
}

}  // namespace of_truncated_backpropagation
}  // namespace

const Claim truncated_backpropagation{
    .name = "truncated-backpropagation",
    .title = "Truncated backpropagation at a minimum is recurrent backpropagation",
    .place = "Section 3.1, after the Neumann series",
    .statement =
        "Once gradient descent on L_in has been at the minimum for K steps, backpropagating through the "
        "last K steps gives K steps of recurrent backpropagation with the same step size; but it must "
        "store K states, which recurrent backpropagation need not.",
    .protocol =
        "20 quadratic and 20 log-cosh problems (|φ| = 10, |θ| = 3, condition number 20). Gradient descent "
        "with α = 1/L runs 3000 steps, far beyond convergence; the estimator unrolled-truncated follows "
        "the last K = 1, 2, 5, 20, 100, 500 back and is compared with implicit differentiation with K "
        "steps of recurrent backpropagation at φ_T. On log-cosh the run is also stopped early, after T = "
        "20 … 400 steps, with K = 20. Bytes are those of the methods' cost ledgers.",
    .truth = "K terms of the Neumann series at φ_T, from the Hessian as a matrix; (K + constant)·8|φ| bytes.",
    .slip = "",
    .expected = "equal to 1e-12; 8|φ| bytes a step against 0",
    .run = of_truncated_backpropagation::run};

}  // namespace claims
