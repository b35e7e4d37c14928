#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bilevel/problems/quadratic.hpp>

#include "log_cosh_truth.hpp"

namespace claims {
namespace {
namespace of_forward_differences {

constexpr int draws = 60;
const char* const names[] = {"ep-forward-2", "ep-forward-3", "ep-forward-4", "ep-forward-5", "ep-central"};
constexpr double orders[] = {1, 2, 3, 4, 2};

Vec estimated(Laboratory& lab, const char* name, bilevel::Problem<Vec>& problem,
              bilevel::InnerSolver<Vec>& inner, const Vec& theta, double beta) {
  return lab.estimator(name, problem, inner, {.certificate = {.enabled = false}, .beta = beta})
      ->estimate(theta, {})
      .gradient;
}

/// ∇̂ − ∇ on Q, for the estimator of that index in `names`.
Vec closed_form_error(const bilevel::problems::Quadratic& q, const Vec& pi, int which, double beta) {
  const Mat &h = q.hessian(), &g = q.outer_hessian();
  Vec v = pi;
  if (which == 4) {
    const Mat ratio = beta * h.llt().solve(g), square = ratio * ratio;
    v = (Mat::Identity(h.rows(), h.rows()) - square).partialPivLu().solve(square * pi);
    return q.coupling().transpose() * v;
  }
  for (int i = 1; i <= which + 1; ++i) v = (h + i * beta * g).llt().solve(i * beta * (g * v)).eval();
  return -q.coupling().transpose() * v;
}

/// The table, the moments in twelfths, the gains; returns the number of coefficients that differ.
int check_coefficients(Laboratory& lab, Outcome& outcome, Table& table) {
  using Fractions = std::vector<bilevel::Fraction>;
  const Fractions expected[] = {{{-1, 1}, {1, 1}},
                                {{-3, 2}, {2, 1}, {-1, 2}},
                                {{-11, 6}, {3, 1}, {-3, 2}, {1, 3}},
                                {{-25, 12}, {4, 1}, {-3, 1}, {4, 3}, {-1, 4}}};
  const double gains[] = {2, 4, 20.0 / 3, 32.0 / 3};
  int differing = 0, wrong_moments = 0, literal = 0;
  double worst_gain = 0;
  for (int p = 2; p <= 5; ++p) {
    const Fractions fractions = bilevel::Stencil::forward(p).fractions();
    const Weights used = lab.forward_stencil(p);
    std::vector<std::string> texts;
    double gain = 0;
    for (int i = 0; i < p; ++i) {
      const bilevel::Fraction want = expected[p - 2][i];
      differing += fractions[i] != want || used.coefficients[i] != want.value();
      gain += std::abs(used.coefficients[i]);
      texts.push_back(want.denominator == 1 ? fmt::format("{}", want.numerator)
                                            : fmt::format("{}/{}", want.numerator, want.denominator));
    }
    keep_worst(worst_gain, std::abs(gain - gains[p - 2]));
    for (int k = 0; k <= p; ++k) {
      long moment = 0;  // in twelfths
      for (int i = 0; i < p; ++i) {
        long power = 1;
        for (int j = 0; j < k; ++j) power *= used.points[i];
        moment += std::lround(12 * used.coefficients[i]) * power;
      }
      // The next moment does not vanish, or the order would be higher: (−1)^p (p−1)!.
      wrong_moments += moment != (k == 1  ? 12
                                  : k < p ? 0
                                          : (p % 2 ? -1 : 1) * 12 * std::lround(std::tgamma(p)));
    }
    // The system as printed, row i and column k.
    Mat printed(p, p);
    for (int i = 0; i < p; ++i)
      for (int k = 0; k < p; ++k) printed(i, k) = std::pow(i, k);
    const Vec solved = printed.fullPivLu().solve(Vec::Unit(p, 1));
    literal += std::abs(solved[0] - used.coefficients[0]) < 0.5;
    table.row({fmt::format("{}", p), fmt::format("{}", fmt::join(texts, ", ")), fmt::format("{:.4g}", gain)});
  }
  outcome.check("coefficients that differ from the paper's table", "0 of 14", fmt::format("{}", differing),
                differing == 0);
  outcome.check("moments Σ α_i i^k, k = 0 … p, that are wrong", "0 of 18", fmt::format("{}", wrong_moments),
                wrong_moments == 0);
  outcome.check("p for which the system with row i, column k gives the table", "0 of 4",
                fmt::format("{}", literal), literal == 0);
  outcome.at_most("Σ|α_i| against 2, 4, 20/3, 32/3", 1e-14, worst_gain);
  return differing;
}

void run(Laboratory& lab, Outcome& outcome) {
  Table table("Forward stencils", {"p", "α_0 … α_{p−1}", "noise gain Σ|α_i|"});
  const int differing = check_coefficients(lab, outcome, table);
  outcome.show(table);

  std::vector<double> slopes[2][5];
  double worst_form = 0;
  Chart on_q("Error on a quadratic problem over β"), on_log_cosh("Error on a log-cosh problem over β");
  on_q.x("β", true)
      .y("‖∇̂ − ∇‖/‖∇‖", true)
      .caption("Dashed: the closed form. Left of each minimum rounding, divided by β, takes over.");
  on_log_cosh.x("β", true)
      .y("‖∇̂ − ∇‖/‖∇‖", true)
      .caption(
          "The same orders where nothing has a closed form; the central estimator has the order of p = 3.");
  for (int draw = 0; draw < draws; ++draw) {
    auto q = bilevel::problems::Quadratic::random(
        {.phi = 6, .theta = 3, .condition = 4, .seed = lab.seed(10 + draw)});
    auto bent = bilevel::problems::LogCosh::random(
        {.phi = 6, .theta = 3, .condition = 4, .epsilon = 0.7, .seed = lab.seed(100 + draw)});
    const Vec theta = lab.vector(3, 200 + draw), truth = *q.outer_gradient(theta);
    const Vec zero = q.initial_phi();
    Vec force(6);
    q.outer(q.settled(theta, 0), theta, {.phi = &force});
    const Vec pi = q.hessian().llt().solve(force);
    Settling q_phases(q, [&](const Vec& t, double beta, const Vec&) { return q.settled(t, beta); });
    const LogCoshTruth bent_truth(bent, theta);
    Settling bent_phases(bent, [&](const Vec& t, double beta, const Vec&) { return settled(bent, t, beta); });
    // β in units of μ/L_out, where the curvature of L_out becomes as large as that of L_in.
    const auto scale = [&](bilevel::Problem<Vec>& problem) {
      const auto c = problem.constants(theta, zero, bilevel::everywhere);
      return c.mu / c.outer_smoothness;
    };
    const double q_scale = scale(q), bent_scale = scale(bent);
    for (int which = 0; which < 5; ++which) {
      // Small enough for the first term of the bias, large enough for rounding.
      const double from = orders[which] == 1 ? 1e-5 : orders[which] == 2 ? 3e-4 : 2e-3;
      std::vector<double> x[2], y[2];
      // The fifth derivative of log-cosh's f is small: rounding hides it a little longer.
      const double more = orders[which] == 4 ? 3 : 1;
      for (const double share : geometric(from, 4 * from, 6)) {
        x[0].push_back(share * q_scale);
        y[0].push_back((estimated(lab, names[which], q, q_phases, theta, x[0].back()) - truth).norm());
        x[1].push_back(more * share * bent_scale);
        y[1].push_back(
            (estimated(lab, names[which], bent, bent_phases, theta, x[1].back()) - bent_truth.gradient)
                .norm());
      }
      for (int family = 0; family < 2; ++family) slopes[family][which].push_back(slope(x[family], y[family]));
      for (const double share : geometric(1e-5, which == 4 ? 0.5 : 10, 13)) {
        const double beta = share * q_scale;
        const Vec error = estimated(lab, names[which], q, q_phases, theta, beta) - truth;
        // In units of what rounding can do: Σ|α_i|·|f|·u/β.
        const double rounding =
            1e-15 * (q.coupling().norm() * q.settled(theta, 0).norm() / beta + truth.norm());
        keep_worst(worst_form, (error - closed_form_error(q, pi, which, beta)).norm() / rounding);
      }
    }
    if (draw > 0) continue;
    for (int which = 0; which < 5; ++which) {
      std::vector<double> x, measured, form, bent_x, bent_measured;
      for (const double share : geometric(1e-6, 30, 60)) {
        x.push_back(share * q_scale);
        measured.push_back((estimated(lab, names[which], q, q_phases, theta, x.back()) - truth).norm() /
                           truth.norm());
        form.push_back(closed_form_error(q, pi, which, x.back()).norm() / truth.norm());
        if (which == 4 && share > 0.9) continue;
        bent_x.push_back(share * bent_scale);
        bent_measured.push_back(
            (estimated(lab, names[which], bent, bent_phases, theta, bent_x.back()) - bent_truth.gradient)
                .norm() /
            bent_truth.gradient.norm());
      }
      on_log_cosh.dots(which == 4 ? "central" : fmt::format("p = {}", which + 2), bent_x, bent_measured);
      if (which == 4) continue;
      on_q.dots(fmt::format("p = {}", which + 2), x, measured);
      on_q.line(fmt::format("p = {}, closed form", which + 2), x, form, true);
    }
  }
  on_q.y_range(1e-14, 10);
  on_log_cosh.y_range(1e-14, 10);
  double middle[5] = {};
  for (int which = 0; which < 5; ++which)
    for (int family = 1; family >= 0; --family) {
      middle[which] = median(slopes[family][which]);
      outcome.near(fmt::format("slope of {} on {}, median", names[which], family ? "log-cosh" : "Q"),
                   orders[which], middle[which], 0.02 * orders[which]);
    }
  outcome.at_most("error on Q against the closed form, in units of rounding", 10, worst_form);
  outcome.show(on_q);
  outcome.show(on_log_cosh);
  outcome.measured = fmt::format("{} differ; slopes {:.2f}, {:.2f}, {:.2f}, {:.2f}; {:.2f}", differing,
                                 middle[0], middle[1], middle[2], middle[3], middle[4]);
}

}  // namespace of_forward_differences
}  // namespace

const Claim forward_differences{
    .name = "forward-differences",
    .title = "The p-point forward estimators, their coefficients and their order",
    .place = "Appendix C, \"Forward finite differences\"",
    .statement =
        "With Σ_i α_i i^k = [k = 1] for k = 0 … p−1, the sum (1/β) Σ_i α_i ∂θL(φ_{iβ}, θ, iβ) over i = 0 "
        "… p−1 is the outer gradient up to a bias of O(β^(p−1)); the coefficients for p = 2 … 5 are those "
        "of the table. The central estimator has O(β²).",
    .protocol =
        "Coefficients are compared as fractions and the moments Σ α_i i^k in integers. 60 random "
        "quadratic problems with closed-form phases and 60 log-cosh problems settled to the last digits "
        "(φ of 6, θ of 3, κ = 4): the median slope of log error over log β from 6 values of β, for p = 2 "
        "… 5 and central. On the quadratics the error itself, for 13 values of β over six decades.",
    .truth =
        "The paper's table. On Q the error is exactly −Jᵀ Π_{i=1}^{p−1} [iβ(H + iβG)⁻¹G] π*, by the error "
        "of polynomial interpolation of (1 + λt)⁻¹; the central one's is Jᵀ [1 − (βH⁻¹G)²]⁻¹(βH⁻¹G)² π*. "
        "On log-cosh ∇θ by dense LU at φ*.",
    .slip =
        "The text gives the bias as O(β^p): that is the error of β·f′(0), and the estimator divides by β. "
        "The Vandermonde matrix must have row k and column i, not (i^k) with row i, and 0⁰ = 1.",
    .expected = "table exact; slopes 1, 2, 3, 4; central 2",
    .run = of_forward_differences::run};

}  // namespace claims
