#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/log_cosh.hpp>

#include "saddle.hpp"

namespace claims {
namespace {
namespace of_quadratic_form {

struct Form {
  Mat h;
  Vec g;
  double operator()(const Vec& pi) const { return 0.5 * pi.dot(h * pi) - pi.dot(g); }
  /// q(π) − q(π*) without the cancellation.
  double excess(const Vec& pi, const Vec& minimiser) const {
    return 0.5 * (pi - minimiser).dot(h * (pi - minimiser));
  }
};

Vec iterate(const Laboratory& lab, bilevel::Curvature<Vec>& curvature, const Vec& g, double alpha,
            long count) {
  bilevel::CurvatureOperator<Vec> h(curvature, true, false);
  if (alpha == 0)
    return lab.adjoint("cg", {.relative_tolerance = 1e-15, .max_iterations = count})->solve(h, g, nullptr).x;
  return lab.adjoint(neumann(alpha, count))->solve(h, g, nullptr).x;
}

void run(Laboratory& lab, Outcome& outcome) {
  const int draws = 300;
  double worst_gradient = 0, worst_value = 0, worst_excess = 0, worst_rate = 0;
  double least_eigenvalue = bilevel::everywhere;
  int not_above = 0, rising_descent = 0, rising_cg = 0;
  std::vector<double> x, descent_curve, cg_curve, law;
  for (int draw = 0; draw < draws; ++draw) {
    const auto number = std::uint64_t(100 * draw);
    const double condition = 3 * std::pow(100, double(draw) / (draws - 1));
    auto problem = bilevel::problems::LogCosh::random(
        {.phi = 8, .theta = 3, .condition = condition, .seed = lab.seed(number)});
    const Vec theta = problem.initial_theta() + lab.vector(3, number + 1), phi = settled(problem, theta);
    const auto curvature = lab.curvature(problem, phi, theta);
    Form q{bilevel::dense_matrix(*curvature, phi), Vec(8)};
    problem.outer(phi, theta, {.phi = &q.g});
    const auto spectrum = bilevel::dense_spectrum(q.h, true);
    least_eigenvalue = std::min(least_eigenvalue, spectrum.smallest);
    bilevel::CurvatureOperator<Vec> h(*curvature, true, false);
    const Vec pi = lab.adjoint("direct")->solve(h, q.g, nullptr).x;
    keep_worst(worst_gradient, (q.h * pi - q.g).norm() / q.g.norm());
    const double lowest = -0.5 * q.g.dot(q.h.fullPivLu().solve(q.g));
    keep_worst(worst_value, std::abs(q(pi) / lowest - 1));
    for (std::uint64_t k = 0; k < 20; ++k) {
      const Vec other = pi + pi.norm() * lab.vector(8, number + 10 + k);
      const double excess = q(other) - q(pi);
      not_above += !(excess >= 0.5 * spectrum.smallest * (other - pi).squaredNorm() * (1 - 1e-9));
      keep_worst(worst_excess, std::abs(excess / q.excess(other, pi) - 1));
    }
    // The solvers go downhill.
    const double first = q.excess(Vec::Zero(8), pi), rate = 1 - spectrum.smallest / spectrum.largest;
    double before_descent = first, before_cg = first;
    for (long count = 1; count <= 40; ++count) {
      const double descent = q.excess(iterate(lab, *curvature, q.g, 1 / spectrum.largest, count), pi);
      const double cg = q.excess(iterate(lab, *curvature, q.g, 0, count), pi);
      const double bound = first * std::pow(rate, 2 * double(count));
      rising_descent += descent > before_descent && descent > 1e-24 * first;
      rising_cg += cg > before_cg && cg > 1e-24 * first;
      if (bound > 1e-24 * first) keep_worst(worst_rate, descent / bound);
      before_descent = descent;
      before_cg = cg;
      if (draw == draws / 2) {
        x.push_back(double(count));
        descent_curve.push_back(descent / first);
        cg_curve.push_back(cg > 1e-25 * first ? cg / first : bilevel::unknown);
        law.push_back(bound / first);
      }
    }
  }
  outcome.at_least("smallest eigenvalue of the form, all problems", 1e-3, least_eigenvalue);
  outcome.at_most("‖π*H − g‖/‖g‖", 1e-12, worst_gradient);
  outcome.at_most("q(π*) against −½gH⁻¹gᵀ, relative", 1e-11, worst_value);
  outcome.at_most("q(π) − q(π*) against ½(π − π*)H(π − π*)ᵀ, relative", 1e-8, worst_excess);
  outcome.none_of("points with q(π) < q(π*) + ½μ‖π − π*‖²", not_above, 20 * draws);
  outcome.none_of("steps of gradient descent that raise q", rising_descent, 40 * draws);
  outcome.none_of("steps of conjugate gradient that raise q", rising_cg, 40 * draws);
  outcome.at_most("gradient descent's excess over (1 − 1/κ)^{2K} of the first", 1 + 1e-6, worst_rate);

  // Where the Hessian is indefinite there is nothing to minimise.
  double worst_depth = 0;
  int unbounded = 0;
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    const std::uint64_t number = 50000 + 10 * draw;
    Saddle problem(lab, 6, 3, 1 + Index(draw % 6), number);
    const Vec theta = lab.vector(3, number + 5), phi = lab.vector(6, number + 6);
    const auto curvature = lab.curvature(problem, phi, theta);
    Form q{bilevel::dense_matrix(*curvature, phi), Vec(6)};
    problem.outer(phi, theta, {.phi = &q.g});
    // The lowest eigenvector by the power method on H − L·I.
    Vec v = lab.vector(6, number + 7);
    for (int k = 0; k < 3000; ++k) v = (q.h * v - 4 * v).normalized();
    const double lambda = v.dot(q.h * v);
    const double t = 1e8;
    keep_worst(worst_depth, std::abs(q(t * v) / (0.5 * lambda * t * t) - 1));
    const double early = q(iterate(lab, *curvature, q.g, 1 / (3 + Saddle::epsilon), 50)),
                 late = q(iterate(lab, *curvature, q.g, 1 / (3 + Saddle::epsilon), 200));
    unbounded += lambda < 0 && late < early && late < -1e6;
  }
  outcome.at_most("indefinite: q(tv) against ½λt² at t = 10⁸, relative", 1e-6, worst_depth);
  outcome.all_of("indefinite: gradient descent takes q below −10⁶", unbounded, 50);

  outcome.show(Chart("q(π_K) − q(π*), one problem with condition number about 30")
                   .x("iterations K of phase 2")
                   .y("excess, relative to π = 0", true)
                   .line("gradient descent, α = 1/L", x, descent_curve)
                   .line("conjugate gradient", x, cg_curve)
                   .line("(1 − 1/κ)^{2K}", x, law, true)
                   .y_range(1e-24, 2));
  outcome.measured = fmt::format("{:.0e}; {} of {} below; {} rises", worst_gradient, not_above, 20 * draws,
                                 rising_descent + rising_cg);
}

}  // namespace of_quadratic_form
}  // namespace

const Claim quadratic_form{
    .name = "quadratic-form",
    .title = "π* is the unique minimiser of the quadratic form",
    .place = "Section 3.1, Equation (quadratic form)",
    .statement =
        "At a non-flat minimiser φ* the quadratic form q(π) = ½π∂φ²L_in πᵀ − π∂φL_outᵀ is positive "
        "definite and π* = ∂φL_out(∂φ²L_in)⁻¹ is its unique minimiser, so phase 2 is a minimisation.",
    .protocol =
        "300 log-cosh problems (|φ| = 8, |θ| = 3, condition numbers 3 to 300) at φ*: π* by the direct "
        "solver, the gradient and the value of q there, and q at 20 random points each. Then 40 iterates "
        "of gradient descent (α = 1/L) and as many lengths of conjugate gradient. 50 problems whose "
        "Hessian has 1 to 6 negative eigenvalues: q along the lowest eigenvector, and gradient descent.",
    .truth =
        "q(π) − q(π*) = ½(π − π*)H(π − π*)ᵀ ≥ ½μ‖π − π*‖², q(π*) = −½gH⁻¹gᵀ; gradient descent's excess is "
        "at most (1 − 1/κ)^{2K} times the first; along an eigenvector of λ < 0, q(tv) = ½λt² − t·gv.",
    .slip = "",
    .expected = "gradient 0; excess ≥ ½μ‖π − π*‖²; falls",
    .run = of_quadratic_form::run};

}  // namespace claims
