#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>
#include <Eigen/Cholesky>

#include <bilevel/gradient/implicit.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace claims {
namespace {
namespace of_trajectories {

constexpr double strength = 0.5;

struct Case {
  Mat h, j, g;
  Vec b, y, theta, start;
};

Case drawn() {
  Case c;
  c.h = (Mat(2, 2) << 1.4, 0.5, 0.5, 0.6).finished();
  c.g = (Mat(2, 2) << 1.0, 0.2, 0.2, 0.7).finished();
  c.j = (Mat(2, 1) << 1.0, 0.5).finished();
  c.b = (Vec(2) << -0.6, 0.1).finished();
  c.y = (Vec(2) << 1.2, 0.4).finished();
  c.theta = Vec::Constant(1, 0.2);
  c.start = (Vec(2) << -0.5, -1.6).finished();
  return c;
}

Case random(const Laboratory& lab, std::uint64_t number) {
  const auto positive = [&](std::uint64_t n) {
    const Mat m = lab.matrix(2, 2, n);
    return Mat(0.5 * Mat::Identity(2, 2) + m * m.transpose());
  };
  return {positive(number),          lab.matrix(2, 3, number + 1), positive(number + 2),
          lab.vector(2, number + 3), lab.vector(2, number + 4),    lab.vector(3, number + 5),
          lab.vector(2, number + 6)};
}

/// Passes everything on and remembers where the inner gradient was asked for.
class Recorder final : public bilevel::Problem<Vec> {
 public:
  Recorder(bilevel::Problem<Vec>& problem, Vec start) : problem_(problem), start_(std::move(start)) {}
  Vec initial_phi() const override { return start_; }
  Vec initial_theta() const override { return problem_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    if (wanted.phi && (path.empty() || path.back() != phi)) path.push_back(phi);
    return problem_.inner(phi, theta, wanted);
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    return problem_.outer(phi, theta, wanted);
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<bilevel::Curvature<Vec>>& reuse) override {
    problem_.linearise(phi, theta, beta, reuse);
  }

  std::vector<Vec> path;

 private:
  bilevel::Problem<Vec>& problem_;
  Vec start_;
};

/// Both approaches on one problem, and how far they are from the closed forms.
struct Comparison {
  std::vector<Vec> inner_a, inner_b, nudged, adjoint;
  double inner_difference = 0, settled = 0, nudged_end = 0, adjoint_end = 0, implicit_gradient = 0,
         nudged_gradient = 0, order = 0, outer_change = 0;
};

Comparison compare(const Laboratory& lab, const Case& c) {
  Comparison result;
  bilevel::problems::Quadratic problem(c.h, c.j, c.b, c.g, c.y);
  const double step = 1 / (c.h.norm() + strength * c.g.norm());
  const auto minimiser = [&](bilevel::Problem<Vec>& p) {
    return bilevel::Minimiser<Vec>(
        p, std::make_unique<bilevel::GradientDescent<Vec>>(bilevel::GradientDescentOptions{step}),
        {.gradient_tolerance = 1e-13, .max_iterations = 20000});
  };
  const Vec settled = problem.settled(c.theta, 0), nudged = problem.settled(c.theta, strength);
  const Vec slope_there = c.g * (settled - c.y), pi = c.h.llt().solve(slope_there);
  const Vec truth = c.j.transpose() * pi;

  bilevel::NeumannOptions neumann;
  neumann.step = step;
  neumann.relative_tolerance = 1e-12;
  neumann.max_iterations = 20000;
  Recorder a(problem, c.start);
  auto inner_a = minimiser(a);
  const auto first = lab.implicit(a, inner_a, std::make_unique<bilevel::Neumann<Vec>>(neumann),
                                  {.certificate = {.enabled = false}})
                         ->estimate(c.theta, {});
  result.inner_a = a.path;
  result.adjoint_end = (first.pi - pi).norm() / pi.norm();
  result.implicit_gradient = (first.gradient - truth).norm() / truth.norm();

  bilevel::EstimatorOptions options;
  options.beta = strength;
  options.certificate.enabled = false;
  Recorder b(problem, c.start);
  auto inner_b = minimiser(b);
  const auto second = lab.estimator("ep-forward-2", b, inner_b, options)->estimate(c.theta, {});
  const std::size_t shared = std::min(result.inner_a.size(), b.path.size());
  result.inner_b.assign(b.path.begin(), b.path.begin() + static_cast<std::ptrdiff_t>(shared));
  result.nudged.assign(b.path.begin() + static_cast<std::ptrdiff_t>(shared) - 1, b.path.end());
  for (std::size_t k = 0; k < shared; ++k)
    keep_worst(result.inner_difference, (result.inner_a[k] - result.inner_b[k]).norm());
  result.settled = (result.inner_b.back() - settled).norm();
  result.nudged_end = (result.nudged.back() - nudged).norm();
  const Vec exact = c.j.transpose() * Mat(c.h + strength * c.g).llt().solve(slope_there);
  result.nudged_gradient = (second.gradient - exact).norm() / truth.norm();
  result.outer_change = problem.outer(nudged, c.theta, {}) - problem.outer(settled, c.theta, {});

  std::vector<double> strengths, errors;
  for (int k = 8; k <= 16; ++k) {
    options.beta = strength * std::pow(0.5, k);
    const auto e = lab.estimator("ep-forward-2", b, inner_b, options)->estimate(c.theta, {.phi = settled});
    strengths.push_back(options.beta);
    errors.push_back((e.gradient - truth).norm());
  }
  result.order = slope(strengths, errors);

  // The iterates π_k, one partial sum of the series each.
  result.adjoint.push_back(Vec::Zero(2));
  const auto curvature = lab.curvature(problem, settled, c.theta);
  bilevel::CurvatureOperator<Vec> hessian(*curvature, true, true);
  for (long terms = 1; terms <= 30; ++terms) {
    neumann.terms = terms;
    result.adjoint.push_back(lab.adjoint(std::make_unique<bilevel::Neumann<Vec>>(neumann))
                                 ->solve(hessian, slope_there, nullptr)
                                 .x);
  }
  return result;
}

/// x and y of every point, at most 60.
std::pair<std::vector<double>, std::vector<double>> coordinates(const std::vector<Vec>& path) {
  std::vector<double> x, y;
  for (std::size_t k = 0; k < path.size() && k < 60; ++k) x.push_back(path[k][0]), y.push_back(path[k][1]);
  return {x, y};
}

Chart over_outer_loss(const char* title, const char* label, const Case& c) {
  std::vector<double> x, y;
  for (int i = 0; i <= 40; ++i) x.push_back(-1.6 + 3.2 * i / 40), y.push_back(-1.8 + 3.2 * i / 40);
  std::vector<std::vector<double>> values;
  for (const double v : y) {
    values.emplace_back();
    for (const double u : x) {
      const Vec d = (Vec(2) << u, v).finished() - c.y;
      values.back().push_back(0.5 * d.dot(c.g * d));
    }
  }
  Chart chart(title, label);
  chart.x("φ₁").y("φ₂").field("L_out", x, y, values).dots("minimum of L_out", {c.y[0]}, {c.y[1]});
  return chart;
}

void run(Laboratory& lab, Outcome& outcome) {
  const Case figure = drawn();
  const Comparison shown = compare(lab, figure);
  Comparison worst = shown;
  double worst_order = std::abs(shown.order - 1);
  for (std::uint64_t number = 0; number < 50; ++number) {
    const Comparison one = compare(lab, random(lab, 10 * number));
    for (double Comparison::*what :
         {&Comparison::inner_difference, &Comparison::settled, &Comparison::nudged_end,
          &Comparison::adjoint_end, &Comparison::implicit_gradient, &Comparison::nudged_gradient,
          &Comparison::outer_change})
      keep_worst(worst.*what, one.*what);
    keep_worst(worst_order, std::abs(one.order - 1));
  }
  outcome.at_most("difference of the two inner trajectories, any step", 0, worst.inner_difference);
  outcome.at_most("distance of their end from φ*", 1e-11, worst.settled);
  outcome.at_most("distance of the nudged trajectory's end from φ_β", 1e-11, worst.nudged_end);
  outcome.check("L_out(φ_β) − L_out(φ*), the largest", "< 0", fmt::format("{:.3g}", worst.outer_change),
                worst.outer_change < 0);
  outcome.at_most("end of the descent on the quadratic form against gH⁻¹, relative", 1e-10,
                  worst.adjoint_end);
  outcome.at_most("implicit gradient against the closed form, relative", 1e-9, worst.implicit_gradient);
  outcome.at_most("nudged estimate against Jᵀ(H + βG)⁻¹G(φ* − y), relative", 1e-9, worst.nudged_gradient);
  outcome.at_most("|slope − 1| of the nudged estimate's error over β", 0.05, worst_order);

  const auto [inner_x, inner_y] = coordinates(shown.inner_a);
  const Vec end = shown.inner_a.back();
  std::vector<Vec> along;
  for (const Vec& pi : shown.adjoint) along.push_back(end - strength * pi);
  const auto [adjoint_x, adjoint_y] = coordinates(along);
  const auto [nudged_x, nudged_y] = coordinates(shown.nudged);
  outcome.show(
      over_outer_loss("Implicit differentiation", "Figure 3A", figure)
          .dots("φ*", {end[0]}, {end[1]})  // first, so that it lies above the paths
          .path("inner gradient descent", inner_x, inner_y)
          .path("φ* − ½π_k", adjoint_x, adjoint_y)
          .caption(
              "Grey: L_out, the darker the smaller. From φ* on, the iterates π_k of descent on the quadratic "
              "form ½πHπᵀ − gπᵀ, drawn to the scale of β = ½: they end at φ* − ½π*."));
  outcome.show(
      over_outer_loss("Equilibrium propagation", "Figure 3B", figure)
          .dots("φ*", {end[0]}, {end[1]})
          .path("inner gradient descent", inner_x, inner_y)
          .path("nudged gradient descent, β = ½", nudged_x, nudged_y)
          .caption("From φ* on, gradient descent on L_in + ½L_out, to φ_β. That it does not end where 3A "
                   "does is the bias of a nudge this strong; it vanishes with β."));
  outcome.measured = fmt::format("apart by {:.0g}; ends to {:.0e}; slope 1 ± {:.2f}", worst.inner_difference,
                                 std::max(worst.settled, worst.nudged_end), worst_order);
}

}  // namespace of_trajectories
}  // namespace

const Claim trajectories{
    .name = "trajectories",
    .title = "Two ways on from the same inner dynamics",
    .place = "Section 4.2, Figure 3",
    .statement =
        "The inner optimisation is the same for both approaches. Implicit differentiation then minimises "
        "a quadratic form, whose minimiser is π* = gH⁻¹; equilibrium propagation nudges the inner loss "
        "towards the outer one and settles again, at φ_β. From both the same outer gradient follows, up "
        "to O(β).",
    .protocol =
        "Quadratic problems with |φ| = 2: the one that is drawn, and 50 random ones. Gradient descent "
        "with a fixed step settles, every point at which the inner gradient is asked for is recorded, and "
        "the second phases run with the same step: recurrent backpropagation, and the nudged phase at β = "
        "0.5. For the order in β the nudged phase is repeated with β = 2⁻⁹ … 2⁻¹⁷.",
    .truth =
        "Closed forms: φ_β = (H + βG)⁻¹(Jθ + b + βGy), π* = H⁻¹G(φ* − y), ∇θ = Jᵀπ*, and the two-point "
        "estimate Jᵀ(H + βG)⁻¹G(φ* − y).",
    .slip = "",
    .expected = "same way to φ*; φ_β and π* reached; slope 1",
    .run = of_trajectories::run};

}  // namespace claims
