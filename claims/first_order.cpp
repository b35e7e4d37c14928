#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/Cholesky>

#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace claims {

static void run(Laboratory& lab, Outcome& outcome);

const Claim first_order{
    .name = "first-order",
    .title = "Few steps in phase 2 give first-order approximations",
    .place = "Section 3.1, end of “Choice of the optimizer”",
    .statement =
        "π̂ = 0 gives the direct derivative ∂θL_out. One step with α = 1 replaces the Hessian by the "
        "identity. More steps turn these first-order approximations progressively into the true gradient.",
    .protocol =
        "200 log-cosh problems (|φ| = 8, |θ| = 3, condition number 20; ∂θL_out is not zero). The "
        "estimators first-order and one-step against ∂θL_out and ∂θL_out − ∂φL_out·∂θ∂φL_in; one step of "
        "recurrent backpropagation with α = 1 against the latter. 50 quadratics with H = I. Then K = 0, "
        "1, 2, 4, …, 1024 steps with α = 1/L: distance of π_K from π*, and error and cosine of the "
        "gradient.",
    .truth =
        "The formulas spelled out from first derivatives and cross products; π* and ∇θ by dense "
        "factorisation at φ* settled to the last digits; the closed form for H = I.",
    .slip = "",
    .expected = "equal to rounding; error falls to 0 with K",
    .run = run};

static void run(Laboratory& lab, Outcome& outcome) {
  double worst_direct = 0, worst_step = 0, worst_neumann = 0, worst_identity = 0, last = 0;
  int monotone = 0, monotone_gradient = 0, worse_than_nothing = 0;
  const int draws = 200;
  std::vector<long> counts{0};
  for (long k = 1; k <= 1024; k *= 2) counts.push_back(k);
  std::vector<std::vector<double>> errors(counts.size()), cosines(counts.size());
  for (int draw = 0; draw < draws; ++draw) {
    const auto number = std::uint64_t(10 * draw);
    auto problem =
        bilevel::problems::LogCosh::random({.phi = 8, .theta = 3, .condition = 20, .seed = lab.seed(number)});
    const Vec theta = problem.initial_theta() + 0.5 * lab.vector(3, number + 1),
              phi = settled(problem, theta);
    Settling there(problem, [&](const Vec&, double, const Vec&) { return phi; });
    Vec g(8), outer_theta(3);
    problem.outer(phi, theta, {.phi = &g, .theta = &outer_theta});
    const Vec a = phi - problem.coupling() * theta;
    const Vec s = problem.epsilon() * a.unaryExpr(&bilevel::problems::sech_squared);
    // H and χ in closed form (log_cosh.hpp).
    Mat h = problem.hessian();
    h.diagonal() += s;
    const Mat chi = -(s.asDiagonal() * problem.coupling());
    const Vec pi = h.llt().solve(g), truth = outer_theta - chi.transpose() * pi;
    const Vec identity = outer_theta - chi.transpose() * g;

    const auto recurrent = [&](double alpha, long terms) {
      bilevel::NeumannOptions options;
      options.step = alpha;
      options.terms = terms;
      return lab
          .implicit(problem, there, std::make_unique<bilevel::Neumann<Vec>>(options),
                    {.certificate = {.enabled = false}})
          ->estimate(theta, {});
    };
    const Vec direct = lab.estimator("first-order", problem, there)->estimate(theta, {}).gradient;
    const Vec step = lab.estimator("one-step", problem, there)->estimate(theta, {}).gradient;
    keep_worst(worst_direct, (direct - outer_theta).norm());
    keep_worst(worst_step, (step - identity).norm() / identity.norm());
    keep_worst(worst_neumann, (recurrent(1, 1).gradient - identity).norm() / identity.norm());
    worse_than_nothing += (step - truth).norm() > (direct - truth).norm();

    const double alpha = 1 / problem.constants(theta, phi, bilevel::everywhere).smoothness;
    double previous = std::numeric_limits<double>::infinity(), previous_gradient = previous;
    bool falls = true, gradient_falls = true;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto e = counts[i] == 0 ? lab.estimator("first-order", problem, there)->estimate(theta, {})
                                    : recurrent(alpha, counts[i]);
      const double distance = (e.pi - pi).norm(), error = (e.gradient - truth).norm() / truth.norm();
      falls = falls && (distance < previous || distance <= 1e-13 * pi.norm());
      gradient_falls = gradient_falls && (error < previous_gradient || error <= 1e-12);
      previous = distance;
      previous_gradient = error;
      errors[i].push_back(error);
      cosines[i].push_back(e.gradient.dot(truth) / (e.gradient.norm() * truth.norm()));
      if (i + 1 == counts.size()) keep_worst(last, error);
    }
    monotone += falls;
    monotone_gradient += gradient_falls;
  }

  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    const std::uint64_t number = 5000 + 10 * draw;
    const Mat root = lab.matrix(6, 6, number);
    Mat outer = root * root.transpose();
    outer = (outer + outer.transpose()).eval() / 2;
    bilevel::problems::Quadratic problem(Mat::Identity(6, 6), lab.matrix(6, 3, number + 1),
                                         lab.vector(6, number + 2), outer, lab.vector(6, number + 3));
    const Vec theta = lab.vector(3, number + 4), truth = *problem.outer_gradient(theta);
    Settling there(problem,
                   [&](const Vec& at, double beta, const Vec&) { return problem.settled(at, beta); });
    keep_worst(worst_identity,
               (lab.estimator("one-step", problem, there)->estimate(theta, {}).gradient - truth).norm() /
                   truth.norm());
  }

  outcome.at_most("π̂ = 0 against ∂θL_out", 0, worst_direct);
  outcome.at_most("one-step against ∂θL_out − g·∂θ∂φL_in, relative", 1e-13, worst_step);
  outcome.at_most("one step with α = 1 against the same, relative", 1e-13, worst_neumann);
  outcome.at_most("one-step against the true gradient where H = I", 1e-12, worst_identity);
  outcome.check("problems whose ‖π_K − π*‖ falls at every doubling of K", fmt::format("{0} of {0}", draws),
                fmt::format("{} of {}", monotone, draws), monotone == draws);
  outcome.at_most("largest relative error of the gradient after 1024 steps", 1e-8, last);

  std::vector<double> x, median_error, worst_error, lowest_cosine, median_cosine;
  bool medians_fall = true;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::sort(errors[i].begin(), errors[i].end());
    std::sort(cosines[i].begin(), cosines[i].end());
    if (i > 0 && median_error.back() > 1e-12)
      medians_fall = medians_fall && errors[i][100] < median_error.back();
    x.push_back(double(counts[i]));
    median_error.push_back(errors[i][100]);
    worst_error.push_back(errors[i].back());
    median_cosine.push_back(cosines[i][100]);
    lowest_cosine.push_back(cosines[i].front());
  }
  outcome.check("median error of the gradient falls at every doubling of K", "yes",
                medians_fall ? "yes" : "no", medians_fall);
  outcome.near("lowest cosine with the true gradient after 1024 steps", 1, lowest_cosine.back(), 1e-12);

  Table table("200 log-cosh problems, α = 1/L",
              {"steps K", "median error", "largest error", "median cosine", "lowest cosine"});
  for (std::size_t i = 0; i < counts.size(); ++i)
    table.row({fmt::format("{}", counts[i]), fmt::format("{:.2e}", median_error[i]),
               fmt::format("{:.2e}", worst_error[i]), fmt::format("{:.6f}", median_cosine[i]),
               fmt::format("{:.6f}", lowest_cosine[i])});
  outcome.show(table);
  x[0] = 0.5;
  outcome.show(Chart("From the first-order approximation to the gradient")
                   .x("steps K of phase 2 (0 drawn at ½)", true)
                   .y("relative error of the gradient", true)
                   .line("median of 200 problems", x, median_error)
                   .line("largest", x, worst_error));
  outcome.note(fmt::format(
      "“Progressively” holds for π, always. The gradient's own error fell at every doubling of K in {} of "
      "{} problems; and one step with α = 1 was further from the truth than no step in {} of {}.",
      monotone_gradient, draws, worse_than_nothing, draws));
  outcome.measured = fmt::format("0, {:.0e}; after 1024 steps {:.0e}", worst_neumann, last);
}

}  // namespace claims
