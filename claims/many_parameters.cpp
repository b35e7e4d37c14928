#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/quadratic.hpp>

namespace claims {
namespace {
namespace of_many_parameters {

struct Method {
  std::string title, name;
  double exponent, accuracy;
  std::vector<double> cost = {}, bytes = {}, error = {};
};

/// Over the last three points, where what does not depend on |θ| matters least.
double last_slope(const std::vector<double>& x, const std::vector<double>& y) {
  return slope({x.end() - 3, x.end()}, {y.end() - 3, y.end()});
}

/// What random search leaves of L_out − min L_out, as a share of the start's.
double share_left(const Laboratory& lab, Index size, std::uint64_t number) {
  // Away from the middle of the box, where the search starts.
  const Vec y =
      0.75 * lab.vector(size, number).array().sign() + 0.1 * lab.vector(size, number + 50).array().tanh();
  bilevel::problems::Quadratic problem(Mat::Identity(size, size), Mat::Identity(size, size), Vec::Zero(size),
                                       Mat::Identity(size, size), y);
  Settling settling(problem, [](const Vec& theta, double, const Vec&) -> Vec { return theta; });
  bilevel::SettledValue<Vec> value(problem, settling);
  bilevel::SearchOptions options;
  options.max_evaluations = 300;
  options.seed = lab.seed(number + 1);
  options.box.lower = Vec::Constant(size, -1);
  options.box.upper = Vec::Constant(size, 1);
  const auto found = bilevel::search<Vec>("random-search", value, Vec::Zero(size), options);
  return (found.theta - y).squaredNorm() / y.squaredNorm();
}

void run(Laboratory& lab, Outcome& outcome) {
  std::vector<Method> methods{{"implicit, conjugate gradients", "implicit-cg", 0, 1e-8},
                              {"equilibrium propagation", "ep-central", 0, 1e-4},
                              {"finite differences", "finite-difference", 1, 1e-4},
                              {"evolution strategies", "evolution-strategies", 1, 2},
                              {"forward differentiation", "forward-mode", 1, 1e-8}};
  const std::vector<double> counts{4, 8, 16, 32, 64, 128, 256};
  const auto largest =
      bilevel::problems::Quadratic::random({.phi = 8, .theta = 256, .condition = 10, .seed = lab.seed(1)});
  // H, G, y and the force Jθ + b are the same for all |θ|, and φ* with them: draws that differ would differ
  // in the length of phase 1, by which the cost of carrying dφ/dθ along is multiplied.
  const Vec force = lab.vector(8, 2) / std::sqrt(8.0), target = lab.vector(8, 3);
  for (const double count : counts) {
    const Index m = static_cast<Index>(count);
    const Mat coupling = largest.coupling().leftCols(m);
    const Vec theta = lab.vector(m, 1000 + static_cast<std::uint64_t>(m)) / std::sqrt(count);
    bilevel::problems::Quadratic problem(largest.hessian(), coupling, force - coupling * theta,
                                         largest.outer_hessian(), target);
    const Vec truth = *problem.outer_gradient(theta);
    for (Method& method : methods) {
      const auto inner = settler("lbfgs", problem, 1e-9);
      const bilevel::EstimatorOptions options{
          .certificate = {.enabled = false}, .beta = 1e-3, .step = "gradient-descent", .seed = lab.seed(7)};
      const auto estimator = lab.estimator(method.name, problem, *inner, options);
      estimator->set_tolerances(1e-11, 1e-11);
      const auto e = estimator->estimate(theta, {});
      method.cost.push_back(e.cost.gradient_equivalents());
      method.bytes.push_back(static_cast<double>(e.cost.bytes));
      method.error.push_back((e.gradient - truth).norm() / truth.norm());
    }
  }
  for (const Method& method : methods) {
    // What does not grow is seen over the whole range, what does where the rest matters least.
    if (method.exponent == 0)
      outcome.near(fmt::format("{}: exponent of the cost over |θ|", method.title), 0,
                   slope(counts, method.cost), 0.03);
    else
      outcome.near(fmt::format("{}: exponent of the cost over |θ| ≥ 64", method.title), 1,
                   last_slope(counts, method.cost), 0.1);
    double worst = 0;
    for (const double error : method.error) keep_worst(worst, error);
    outcome.at_most(fmt::format("{}: relative error, the largest", method.title), method.accuracy, worst);
  }
  const double growth = (methods[4].bytes.back() - methods[4].bytes[0]) / (256 - 4);
  outcome.check("forward differentiation: bytes for one more parameter", "≥ 8|φ| = 64",
                fmt::format("{:.1f}", growth), growth >= 64 && growth < 128);

  const std::vector<double> sizes{1, 2, 4, 8, 16, 32, 64};
  std::vector<double> left;
  for (const double size : sizes) {
    double sum = 0;
    for (std::uint64_t draw = 0; draw < 10; ++draw)
      sum +=
          share_left(lab, static_cast<Index>(size), 5000 + 100 * static_cast<std::uint64_t>(size) + 2 * draw);
    left.push_back(sum / 10);
  }
  outcome.at_most("random search, |θ| = 1: share of the excess loss left", 0.01, left[0]);
  outcome.at_least("random search, |θ| = 64: share of the excess loss left", 0.5, left.back());
  bool grows = true;
  for (std::size_t i = 1; i < left.size(); ++i) grows = grows && left[i] > left[i - 1];
  outcome.check("random search: the share grows with |θ|", "at every doubling",
                grows ? "at every doubling" : "no", grows);

  Chart chart("Cost of one outer gradient");
  chart.x("number of parameters |θ|", true).y("gradient equivalents", true);
  for (const Method& method : methods) chart.path(method.title, counts, method.cost);
  chart.line("∝ |θ|", {4, 256}, {methods[2].cost[0], 64 * methods[2].cost[0]}, true);
  outcome.show(chart);
  outcome.show(Chart("What 300 evaluations of random search leave")
                   .x("number of parameters |θ|", true)
                   .y("share of L_out − min L_out left", true)
                   .dots("random search, mean of 10", sizes, left)
                   .caption("The start is the middle of the box and counts as the first evaluation."));
  outcome.measured = fmt::format("{:.2f}, {:.2f}; {:.2f}, {:.2f}", std::abs(slope(counts, methods[0].cost)),
                                 std::abs(slope(counts, methods[1].cost)),
                                 last_slope(counts, methods[2].cost), last_slope(counts, methods[4].cost));
}

}  // namespace of_many_parameters
}  // namespace

const Claim many_parameters{
    .name = "many-parameters",
    .title = "Cost over the number of outer parameters",
    .place = "Section 1.3 and Section 4.1",
    .statement =
        "Searching for θ by values alone becomes intractable where θ has many elements. An outer gradient "
        "by implicit differentiation or equilibrium propagation costs the same whatever |θ|; by "
        "differences of whole solves, or by carrying dφ/dθ along, it costs in proportion to |θ|.",
    .protocol =
        "Quadratic problems with |φ| = 8, κ = 10 and |θ| = 4 … 256: one H, one φ* and the first |θ| "
        "columns of one J, so that phase 1 takes the same steps whatever |θ|. One outer gradient from a "
        "cold start, phase 1 by L-BFGS, all costs in gradient equivalents (evaluations for what uses "
        "values alone are weighted as the ledger does). Random search with 300 evaluations in [−1, 1]^|θ| "
        "on L_out(φ*) = ½‖θ − y‖² for |θ| = 1 … 64, mean over 10 draws.",
    .truth = "Exponents 0 and 1 of the cost over |θ|; the closed form of the gradient; the optimum θ = y.",
    .slip = "",
    .expected = "implicit, EP 0; differences, forward mode 1",
    .run = of_many_parameters::run};

}  // namespace claims
