#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/Cholesky>

#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/registry.hpp>
#include <bilevel/problems/ridge.hpp>

#include "root.hpp"

namespace claims {
namespace {
namespace of_implicit_function_derivative {

struct Worst {
  double closed_jacobian = -1, closed_gradient = -1;  // relative; −1 where there is no closed form
  double jacobian = 0, gradient = 0;                  // against differences
};

/// dφ*/dθ as differentiation of the closed form of φ* gives it; empty where there is none.
Mat closed_jacobian(bilevel::problems::ReferenceProblem& problem, const Vec& theta) {
  using namespace bilevel::problems;
  if (const auto* q = dynamic_cast<Quadratic*>(&problem)) return q->hessian().llt().solve(q->coupling());
  if (problem.name() == "pitchfork") return Mat::Constant(1, 1, 1 / (4 * std::sqrt(theta[0] / 2)));
  if (problem.name() == "duopoly") return Mat::Constant(1, 1, -0.5);
  if (const auto* ridge = dynamic_cast<Ridge*>(&problem)) {
    const Mat x = ridge->x();
    Mat h = x.transpose() * x / double(x.rows());
    const Vec penalties = theta.array().exp();
    h.diagonal() += penalties;
    return -h.llt().solve(Mat(penalties.cwiseProduct(*ridge->settled(theta)).asDiagonal()));
  }
  return {};
}

Worst measure(const Laboratory& lab, std::string_view family, std::uint64_t number) {
  bilevel::problems::Settings settings{.seed = lab.seed(number)};
  if (family == "quadratic" || family == "log-cosh")
    settings.phi = 8, settings.theta = 4, settings.condition = 50;
  if (family == "ridge" || family == "logistic")
    settings.phi = 20, settings.samples = 60, settings.penalty = "per-feature";
  Worst worst;
  for (std::uint64_t draw = 0; draw < 4; ++draw) {
    settings.seed = lab.seed(number + 2 * draw);
    const auto problem = bilevel::problems::make(family, settings);
    const Vec noise = lab.vector(problem->initial_theta().size(), number + 2 * draw + 1);
    const Vec theta = family == "pitchfork" ? Vec(Vec::Constant(1, std::exp(0.3 * noise[0])))
                                            : Vec(problem->initial_theta() + 0.3 * noise);
    const Vec phi = settled(*problem, theta);

    // The formulas, spelled out.
    const auto curvature = lab.curvature(*problem, phi, theta);
    const Mat jacobian = -bilevel::dense_matrix(*curvature, phi)
                              .fullPivLu()
                              .solve(bilevel::dense_cross(*curvature, phi, theta));
    Vec g(phi.size()), outer_theta(theta.size());
    problem->outer(phi, theta, {.phi = &g, .theta = &outer_theta});
    std::vector<Vec> gradients{outer_theta + jacobian.transpose() * g};
    const auto inner = settler("newton", *problem, 1e-13);
    for (const char* name : {"exact", "implicit-direct", "implicit-cg"})
      gradients.push_back(lab.estimator(name, *problem, *inner, {.adjoint = {.relative_tolerance = 1e-13}})
                              ->estimate(theta, {.phi = phi, .pi = {}})
                              .gradient);

    // The truths.
    const double h = 5e-3;
    const Mat moved = differences([&](const Vec& at) { return settled(*problem, at); }, theta, h);
    const Mat slope_of_loss = differences(
        [&](const Vec& at) { return Vec(Vec::Constant(1, problem->outer(settled(*problem, at), at, {}))); },
        theta, h);
    keep_worst(worst.jacobian, relative(jacobian, moved));
    for (const Vec& gradient : gradients)
      keep_worst(worst.gradient, relative(gradient, slope_of_loss.transpose()));
    if (const Mat closed = closed_jacobian(*problem, theta); closed.size() > 0) {
      keep_worst(worst.closed_jacobian, relative(jacobian, closed));
      for (const Vec& gradient : gradients)
        keep_worst(worst.closed_gradient, relative(gradient, *problem->outer_gradient(theta)));
    }
  }
  return worst;
}

void run(Laboratory& lab, Outcome& outcome) {
  Table table("Largest relative errors of 4 draws",
              {"family", "dφ*/dθ, closed form", "∇θ, closed form", "dφ*/dθ, differences", "∇θ, differences"});
  double worst_closed = 0, worst_differences = 0;
  std::uint64_t number = 0;
  for (const auto& family : bilevel::problems::families()) {
    const Worst worst = measure(lab, family.name, number += 100);
    const auto cell = [](double x) { return x < 0 ? std::string("none") : fmt::format("{:.1e}", x); };
    table.row({std::string(family.name), cell(worst.closed_jacobian), cell(worst.closed_gradient),
               cell(worst.jacobian), cell(worst.gradient)});
    if (worst.closed_gradient >= 0) {
      outcome.at_most(fmt::format("{}: dφ*/dθ against the closed form", family.name), 1e-8,
                      worst.closed_jacobian);
      outcome.at_most(fmt::format("{}: ∇θ against the closed form", family.name), 1e-8,
                      worst.closed_gradient);
      keep_worst(worst_closed, worst.closed_jacobian);
      keep_worst(worst_closed, worst.closed_gradient);
    }
    outcome.at_most(fmt::format("{}: dφ*/dθ against differences", family.name), 1e-7, worst.jacobian);
    outcome.at_most(fmt::format("{}: ∇θ against differences", family.name), 1e-7, worst.gradient);
    keep_worst(worst_differences, worst.jacobian);
    keep_worst(worst_differences, worst.gradient);
  }

  // The formula is the limit of difference quotients: their distance from it falls like h².
  const auto problem =
      bilevel::problems::make("log-cosh", {.phi = 8, .theta = 4, .condition = 50, .seed = lab.seed(1)});
  const Vec theta = problem->initial_theta(), u = lab.vector(4, 2).normalized();
  const auto inner = settler("newton", *problem, 1e-14);
  const double slope_along =
      lab.estimator("implicit-direct", *problem, *inner)->estimate(theta, {}).gradient.dot(u);
  const auto loss = [&](double distance) {
    const Vec at = theta + distance * u;
    return problem->outer(settled(*problem, at), at, {});
  };
  std::vector<double> distances = geometric(1e-6, 1, 25), errors, law, straight_x, straight_y;
  for (const double h : distances) {
    errors.push_back(std::abs((loss(h) - loss(-h)) / (2 * h) - slope_along));
    if (h > 3e-3 && h < 0.11) straight_x.push_back(h), straight_y.push_back(errors.back());
  }
  const double order = slope(straight_x, straight_y);
  for (const double h : distances) law.push_back(straight_y.front() * std::pow(h / straight_x.front(), 2));
  outcome.near("order in h of the distance of difference quotients", 2, order, 0.1);

  outcome.show(table);
  outcome.show(Chart("Difference quotients of θ ↦ L_out(φ*(θ), θ) and the formula, log-cosh")
                   .x("distance h", true)
                   .y("|quotient − ∇θ·u|", true)
                   .dots("central difference quotients", distances, errors)
                   .line("h²", distances, law, true)
                   .y_range(1e-13, 1)
                   .caption("Every quotient takes two whole solves; at the left rounding takes over."));
  outcome.measured = fmt::format("{:.0e} closed form, {:.0e} differences", worst_closed, worst_differences);
}

}  // namespace of_implicit_function_derivative
}  // namespace

const Claim implicit_function_derivative{
    .name = "implicit-function-derivative",
    .title = "The derivative of the implicit function and the outer gradient",
    .place = "Section 2.2, Theorem (differentiating implicit functions)",
    .statement =
        "Where ∂φ f is invertible the implicit function is differentiable with dφ*/dθ = −(∂φ f)⁻¹ ∂θ f. "
        "With f = ∂φ L_in this gives the outer gradient ∇θ = ∂θL_out − ∂φL_out (∂φ²L_in)⁻¹ ∂θ∂φL_in.",
    .protocol =
        "All six ready-made families (|φ| = 8, |θ| = 4 for quadratic and log-cosh, 20 penalties and 60 "
        "samples for ridge and logistic), 4 random θ each. The whole matrix −(∂φ f)⁻¹ ∂θ f, the gradient "
        "spelled out from it, and the estimators exact, implicit-direct and implicit-cg are compared with "
        "closed forms and with central differences of eighth order of the whole solve, each solve to the "
        "last digits. On log-cosh, differences of second order are taken at 25 distances.",
    .truth =
        "Closed forms of dφ*/dθ and ∇θ for quadratic, pitchfork, ridge and duopoly; differences of the "
        "whole solve for all six.",
    .slip = "",
    .expected = "closed form to 1e-8, differences to 1e-7",
    .run = of_implicit_function_derivative::run};

}  // namespace claims
