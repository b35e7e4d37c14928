#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include <fmt/format.h>
#include <Eigen/LU>

#include <bilevel/problems/quadratic.hpp>

namespace claims {
namespace {
namespace of_negative_nudging {

using bilevel::Status;
using bilevel::Verdict;
using bilevel::problems::Quadratic;
constexpr double big = 2, small = 0.5, pole = big / small;

Quadratic isotropic(Laboratory& lab) {
  const Mat eye = Mat::Identity(3, 3), j = lab.matrix(3, 2, 1);
  return Quadratic(big * eye, big * j, Vec::Zero(3), small * eye, lab.vector(3, 2));
}

bilevel::Estimate<Vec> estimated(Laboratory& lab, std::string_view name, bilevel::Problem<Vec>& problem,
                                 const char* solver, const Vec& theta, double beta) {
  const auto inner = settler(solver, problem, 1e-12);
  return lab.estimator(name, problem, *inner, {.beta = beta})->estimate(theta, {});
}

bool refused(const bilevel::Estimate<Vec>& e) {
  return e.status == Status::negative_curvature && !e.gradient.allFinite() &&
         e.certificate.verdict == Verdict::untrusted && !e.certificate.reason.empty();
}

/// Cauchy's sum over 8 points of the circle, each settled by complex Newton steps and never questioned;
/// `residual` is the largest that was left.
Vec unchecked_circle(Quadratic& problem, const Vec& theta, double beta, double& residual) {
  const Index n = problem.hessian().rows();
  Vec sum = Vec::Zero(theta.size());
  for (int k = 0; k < 8; ++k) {
    const std::complex<double> b = std::polar(beta, 2 * std::numbers::pi * (k + 0.5) / 8);
    Eigen::VectorXcd phi = Eigen::VectorXcd::Zero(n), force(n), by_theta(theta.size());
    Eigen::MatrixXcd hessian;
    for (int step = 0; step < 3; ++step) {
      problem.complex_derivatives(phi, theta, b, {.phi = &force});
      problem.complex_hessian(phi, theta, b, hessian);
      phi -= hessian.partialPivLu().solve(force);
    }
    problem.complex_derivatives(phi, theta, b, {.phi = &force, .theta = &by_theta});
    keep_worst(residual, force.norm());
    sum += (by_theta / b).real() / 8;
  }
  return sum;
}

/// The same problem with its constants and curvature kept to itself.
bilevel::Functions<Vec> hidden(Quadratic& q) {
  return {.initial_phi = [&q] { return q.initial_phi(); },
          .initial_theta = [&q] { return q.initial_theta(); },
          .inner = [&q](const Vec& p, const Vec& t, bilevel::Wanted<Vec> w) { return q.inner(p, t, w); },
          .outer = [&q](const Vec& p, const Vec& t, bilevel::Wanted<Vec> w) { return q.outer(p, t, w); }};
}

/// The example of the text; returns the number of wrong refusals.
int on_the_example(Laboratory& lab, Outcome& outcome) {
  Quadratic problem = isotropic(lab);
  const Vec theta = lab.vector(2, 3), truth = *problem.outer_gradient(theta);
  const std::vector<double> betas = geometric(1e-3 * pole, 100 * pole, 40);
  std::vector<double> forward, central_x, central, circle, circle_form;
  double worst_forward = 0, worst_central = 0, worst_holomorphic = 0, worst_circle = 0, left = 0;
  int wrong = 0, near_pole = 0;
  const auto distance = [&](const Vec& gradient, double factor) {
    return (gradient - factor * truth).norm() / truth.norm();
  };
  for (const double beta : betas) {
    const double x = beta / pole;
    const auto f = estimated(lab, "ep-forward-3", problem, "newton", theta, beta);
    // Rounding is divided by β.
    const double rounding = 1 + 1 / beta;
    keep_worst(worst_forward, distance(f.gradient, 1 - 2 * x * x / ((1 + x) * (1 + 2 * x))) / rounding);
    forward.push_back(distance(f.gradient, 1));
    const auto c = estimated(lab, "ep-central", problem, "newton", theta, beta);
    const auto h = estimated(lab, "ep-holomorphic", problem, "newton", theta, beta);
    wrong += refused(c) != (x >= 1);
    wrong += refused(h) != (x >= 1);
    circle.push_back(distance(unchecked_circle(problem, theta, beta, left), 1));
    circle_form.push_back(std::pow(x, 8) / (1 + std::pow(x, 8)));
    keep_worst(worst_circle, std::abs(circle.back() - circle_form.back()) / rounding);
    if (x >= 1) continue;
    keep_worst(worst_central, distance(c.gradient, 1 / (1 - x * x)) * (1 - x * x) / rounding);
    keep_worst(worst_holomorphic, distance(h.gradient, 1 / (1 + std::pow(x, 8))) / rounding);
    central_x.push_back(beta);
    central.push_back(distance(c.gradient, 1));
    // Where the error is above 10 % nothing may be trusted.
    near_pole += central.back() > 0.1 && c.certificate.verdict == Verdict::trusted;
  }
  outcome.none_of("refusals of central and holomorphic that are wrong or missing", wrong, 80);
  outcome.at_most("forward-3 against its closed form, × β/(1 + β)", 1e-10, worst_forward);
  outcome.at_most("central before the pole against x²/(1 − x²)", 1e-10, worst_central);
  outcome.at_most("holomorphic before the pole against −x⁸/(1 + x⁸)", 1e-10, worst_holomorphic);
  outcome.check("central trusted with more than 10 % error", "0", fmt::format("{}", near_pole),
                near_pole == 0);
  outcome.at_most("residual that complex Newton leaves, on both sides of the pole", 1e-9, left);
  outcome.at_most("the unchecked circle against x⁸/(1 + x⁸)", 1e-10, worst_circle);
  outcome.near("error of the unchecked circle at 100 times the pole", 1, circle.back(), 1e-6);
  outcome.show(Chart("Error over β where L_in + β·L_out loses its minimum at β = −L/μ")
                   .x("β", true)
                   .y("relative error", true)
                   .dots("forward-3", betas, forward)
                   .dots("central", central_x, central)
                   .dots("circle of 8, complex Newton, no check", betas, circle)
                   .line("x⁸/(1 + x⁸)", betas, circle_form, true)
                   .line("L/μ", {pole, pole}, {1e-12, 10}, true)
                   .y_range(1e-12, 10)
                   .caption("Beyond L/μ central and holomorphic are refused: no points. Complex Newton's "
                            "method still converges there, to a gradient that is wrong by 50 % and more."));
  return wrong;
}

/// Random problems beyond their poles; returns how many answers were trusted.
int on_random_problems(Laboratory& lab, Outcome& outcome) {
  int trusted = 0, hidden_trusted = 0, missing = 0, not_finite = 0;
  double residual = 0;
  std::vector<double> errors;
  for (int draw = 0; draw < 200; ++draw) {
    auto q = Quadratic::random({.phi = 5, .theta = 3, .condition = 10, .seed = lab.seed(100 + draw)});
    const Vec theta = lab.vector(3, 400 + draw), truth = *q.outer_gradient(theta);
    // The pole: H − tG stops being positive definite.
    double below = 0, above = 1e3;
    for (int k = 0; k < 60; ++k) {
      const double t = (below + above) / 2;
      (Mat(q.hessian() - t * q.outer_hessian()).llt().info() == Eigen::Success ? below : above) = t;
    }
    const double beta = above * std::pow(30, (draw % 20 + 0.5) / 20);
    for (const char* name : {"ep-central", "ep-holomorphic"}) {
      const auto e = estimated(lab, name, q, "newton", theta, beta);
      missing += !refused(e);
      trusted += e.certificate.verdict == Verdict::trusted;
    }
    not_finite += !estimated(lab, "ep-forward-3", q, "newton", theta, beta).gradient.allFinite();
    auto problem = bilevel::make_problem<Vec>(hidden(q));
    for (const char* solver : {"lbfgs", "gradient-descent-backtracking"})
      hidden_trusted +=
          estimated(lab, "ep-central", problem, solver, theta, beta).certificate.verdict == Verdict::trusted;
    errors.push_back((unchecked_circle(q, theta, beta, residual) - truth).norm() / truth.norm());
  }
  std::ranges::sort(errors);
  outcome.none_of("central and holomorphic beyond the pole, not refused", missing, 400);
  outcome.none_of("trusted there, constants known", trusted, 400);
  outcome.none_of("trusted there, constants hidden", hidden_trusted, 400);
  outcome.none_of("forward-3 not finite there", not_finite, 200);
  outcome.at_least("median error of the unchecked circle there", 0.25, errors[100]);
  outcome.note(fmt::format(
      "Beyond the pole of 200 random problems complex Newton's method converges on the whole circle "
      "(residual ≤ {:.0e}), to gradients with errors from {:.0f} % to {:.0f} %, the median {:.0f} %.",
      residual, 100 * errors.front(), 100 * errors.back(), 100 * errors[100]));
  return trusted + hidden_trusted;
}

void run(Laboratory& lab, Outcome& outcome) {
  const int wrong = on_the_example(lab, outcome);
  const int trusted = on_random_problems(lab, outcome);
  outcome.measured = fmt::format("{} wrong refusals; {} trusted beyond", wrong, trusted);
}

}  // namespace of_negative_nudging
}  // namespace

const Claim negative_nudging{
    .name = "negative-nudging",
    .title = "Negative nudging has nothing to settle in beyond a pole",
    .place = "Appendix C, \"Why forward finite differences?\"",
    .statement =
        "With L_in = L‖φ − Jθ‖²/2 and L_out = μ‖φ − y‖²/2, L_in + β·L_out has no minimiser for β < −L/μ. "
        "Estimators that use negative β (central, and the holomorphic one, whose circle passes −β) have "
        "no answer there and must say so; forward ones stay finite at any β > 0.",
    .protocol =
        "L = 2, μ = ½ in 3 dimensions, the pole at β = −4: forward-3, central and holomorphic (8 points) "
        "at 40 values of β from 0.004 to 400. Then 200 random quadratic problems (φ of 5) at up to 30 "
        "times the strength of their pole, with constants known and hidden, then with two solvers of the "
        "phases. Complex Newton's method without any check on the circle, for comparison.",
    .truth =
        "Closed forms with x = βμ/L: relative error −2x²/((1 + x)(1 + 2x)) of forward-3, x²/(1 − x²) of "
        "central, −x⁸/(1 + x⁸) of the unchecked circle of 8 points, which is 50 % at the pole. Elsewhere "
        "the pole by Cholesky factors.",
    .slip = "",
    .expected = "refused from β = L/μ on; forward finite",
    .run = of_negative_nudging::run};

}  // namespace claims
