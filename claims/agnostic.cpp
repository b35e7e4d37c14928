#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/LU>

#include <bilevel/gradient/agnostic.hpp>
#include <bilevel/inner/spring_controlled.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "log_cosh_truth.hpp"

namespace claims {
namespace {
namespace of_agnostic {

constexpr Index n = 6, m = 3;

/// Passes values on and nothing else; counts what is asked.
class ValuesOnly final : public bilevel::Problem<Vec> {
 public:
  explicit ValuesOnly(bilevel::Problem<Vec>& problem) : problem_(problem) {}
  Vec initial_phi() const override { return problem_.initial_phi(); }
  Vec initial_theta() const override { return problem_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    return problem_.inner(phi, theta, permitted(wanted));
  }
  double outer(const Vec& phi, const Vec& theta, bilevel::Wanted<Vec> wanted) override {
    return problem_.outer(phi, theta, permitted(wanted));
  }
  bilevel::Capabilities capabilities() const override { return {.curvature = false}; }

  long values = 0, derivatives = 0;

 private:
  bilevel::Wanted<Vec> permitted(bilevel::Wanted<Vec> wanted) {
    ++values;
    if (!wanted.phi && !wanted.theta) return wanted;
    ++derivatives;
    throw bilevel::InvalidInput("a derivative was asked for");
  }
  bilevel::Problem<Vec>& problem_;
};

/// Comes to rest by moving φ and the springs' extensions one at a time to where the energy is least, as three
/// values of it tell.
class Box final : public bilevel::ControlledSystem<Vec> {
 public:
  Box(bilevel::Problem<Vec>& problem, double compliance) : problem_(problem), compliance_(compliance) {}
  Vec initial_phi() const override { return problem_.initial_phi(); }
  Vec initial_control() const override { return problem_.initial_theta(); }
  double compliance() const override { return compliance_; }
  double outer(const Vec& phi, const Vec& theta) override { return problem_.outer(phi, theta, {}); }

  bilevel::Rest<Vec> settle(const Vec& control, double beta, const Vec& start) override {
    Vec x = Vec::Zero(n + m);
    x.head(n) = start;
    const auto energy = [&](Index i, double step) {
      Vec at = x;
      at[i] += step;
      const Vec phi = at.head(n), theta = control + at.tail(m);
      return problem_.inner(phi, theta, {}) + at.tail(m).squaredNorm() / (2 * compliance_) +
             beta * problem_.outer(phi, theta, {});
    };
    double moved = 1;
    int sweeps = 0;
    for (; moved > 1e-15 * (1 + x.norm()) && sweeps < 500; ++sweeps) {
      moved = 0;
      for (Index i = 0; i < n + m; ++i) {
        const double here = energy(i, 0), right = energy(i, 1), left = energy(i, -1);
        const double step = -0.5 * (right - left) / (right - 2 * here + left);
        x[i] += step;
        keep_worst(moved, std::abs(step));
      }
    }
    return {.phi = x.head(n),
            .extension = x.tail(m),
            .status = moved < 1e-12 * (1 + x.norm()) ? bilevel::Status::converged
                                                     : bilevel::Status::iteration_limit,
            .message = fmt::format("{} sweeps", sweeps),
            .cost = {}};
  }

 private:
  bilevel::Problem<Vec>& problem_;
  double compliance_;
};

/// Q, and its springs in closed form.
struct System {
  System(const Laboratory& lab, std::uint64_t number)
      : h(definite(lab.matrix(n, n, number), 1)),
        g(definite(lab.matrix(n, n, number + 1), 0.1)),
        j(lab.matrix(n, m, number + 2) / 2),
        b(lab.vector(n, number + 3)),
        y(lab.vector(n, number + 4)),
        u(lab.vector(m, number + 5)),
        problem(h, j, b, g, y) {}
  static Mat definite(const Mat& a, double least) {
    const Mat square = a * a.transpose() / double(n);
    return 0.5 * (square + square.transpose()) + least * Mat::Identity(n, n);
  }
  Mat joint(double beta, double compliance) const {
    Mat a(n + m, n + m);
    a << h + beta * g, -j, -j.transpose(), Mat::Identity(m, m) / compliance;
    return a;
  }
  Vec rest(double beta, double compliance) const {
    Vec right(n + m);
    right << b + beta * g * y, u / compliance;
    return joint(beta, compliance).partialPivLu().solve(right);
  }
  Vec estimate(double beta, double compliance) const {
    return -(rest(beta, compliance) - rest(-beta, compliance)).tail(m) / (2 * beta * compliance);
  }
  Vec gradient(double compliance) const {
    Vec pull = Vec::Zero(n + m);
    pull.head(n) = g * (rest(0, compliance).head(n) - y);
    return joint(0, compliance).partialPivLu().solve(pull).tail(m) / compliance;
  }

  Mat h, g, j;
  Vec b, y, u;
  bilevel::problems::Quadratic problem;
};

void run(Laboratory& lab, Outcome& outcome) {
  const double compliance = 0.1, stiff = bilevel::SpringOptions{}.compliance / 2;
  const std::vector<double> betas = geometric(3e-3, 3e-2, 6), compliances = geometric(1e-4, 1e-3, 4);
  double worst[2] = {}, form[2] = {}, worst_spring = 0;
  long derivatives = 0, values = 0;
  std::vector<double> shown[2], spring_shown;
  for (int draw = 0; draw < 10; ++draw) {
    System s(lab, 100 + 10 * draw);
    ValuesOnly silent(s.problem);
    std::vector<double> error[2], spring_error;
    const Vec truths[] = {s.gradient(compliance), s.gradient(stiff)};
    const auto inner = settler("newton", s.problem, 1e-12);
    for (const double beta : betas) {
      Box box(silent, compliance);
      const bilevel::AgnosticOptions options{.beta = beta, .certificate = {.enabled = false}};
      const Vec found[] = {
          bilevel::Agnostic<Vec>(box, options).estimate(s.u, {}).gradient,
          lab.estimator("ep-agnostic", s.problem, *inner, {.beta = beta})->estimate(s.u, {}).gradient};
      for (int k = 0; k < 2; ++k) {
        error[k].push_back((found[k] - truths[k]).norm() / truths[k].norm());
        keep_worst(form[k], (found[k] - s.estimate(beta, k ? stiff : compliance)).norm() / truths[k].norm());
      }
    }
    const Vec without = *s.problem.outer_gradient(s.u);
    for (const double softness : compliances) {
      Box box(silent, softness);
      const bilevel::AgnosticOptions options{.beta = 2e-4, .certificate = {.enabled = false}};
      const Vec found = bilevel::Agnostic<Vec>(box, options).estimate(s.u, {}).gradient;
      spring_error.push_back((found - without).norm() / without.norm());
    }
    for (int k = 0; k < 2; ++k) keep_worst(worst[k], std::abs(slope(betas, error[k]) - 2));
    keep_worst(worst_spring, std::abs(slope(compliances, spring_error) - 1));
    derivatives += silent.derivatives;
    values += silent.values;
    if (draw == 0) shown[0] = error[0], shown[1] = error[1], spring_shown = spring_error;
  }
  outcome.check("derivatives asked of the boxes", "0", fmt::format("{} ({} energies)", derivatives, values),
                derivatives == 0 && values > 0);
  outcome.at_most("box: estimate against its closed form, relative", 1e-9, form[0]);
  outcome.at_most("box: slope of the error in β against 2, worst of 10", 0.05, worst[0]);
  outcome.at_most("box: slope of the springs' share in ε against 1, worst of 10", 0.05, worst_spring);
  outcome.at_most("ep-agnostic: estimate against its closed form, relative", 1e-6, form[1]);
  outcome.at_most("ep-agnostic: slope of the error in β against 2, worst of 10", 0.05, worst[1]);

  int beyond = 0, trusted = 0;
  double worst_error = 0;
  for (int draw = 0; draw < 20; ++draw) {
    auto bent = bilevel::problems::LogCosh::random(
        {.phi = n, .theta = m, .condition = 10, .epsilon = 0.8, .seed = lab.seed(500 + draw)});
    const Vec theta = lab.vector(m, 600 + draw), truth = LogCoshTruth(bent, theta).gradient;
    const auto inner = settler("newton", bent, 1e-12);
    const auto e = lab.estimator("ep-agnostic", bent, *inner)->estimate(theta, {});
    const double error = (e.gradient - truth).norm();
    keep_worst(worst_error, error / truth.norm());
    trusted += e.certificate.verdict == bilevel::Verdict::trusted;
    beyond += !(error <= e.certificate.bound);
  }
  outcome.at_most("ep-agnostic on log-cosh against ∇θ, relative, worst of 20", 0.02, worst_error);
  outcome.none_of("ep-agnostic on log-cosh, errors beyond its bound", beyond, 20);
  outcome.all_of("ep-agnostic on log-cosh, trusted", trusted, 20);

  std::vector<double> law;
  for (const double beta : betas) law.push_back(shown[0].back() * std::pow(beta / betas.back(), 2));
  outcome.show(Chart("Error of the agnostic estimate over β")
                   .x("β", true)
                   .y("relative error", true)
                   .dots("box that knows energies only, ε = 0.1", betas, shown[0])
                   .dots("ep-agnostic, ε = 0.0005", betas, shown[1])
                   .line("slope 2", betas, law, true)
                   .caption("Against the gradient with respect to the knobs, springs and all."));
  outcome.show(
      Chart("What the springs do to the gradient")
          .x("ε", true)
          .y("‖∇̂ − ∇θ‖/‖∇θ‖", true)
          .dots("box, β = 0.0002", compliances, spring_shown)
          .line("slope 1", {compliances.front(), compliances.back()},
                {spring_shown.back() * compliances.front() / compliances.back(), spring_shown.back()}, true)
          .caption("Against the problem without springs."));
  outcome.measured = fmt::format("slope 2 ± {:.3f}, 1 ± {:.2f}; {} asked", std::max(worst[0], worst[1]),
                                 worst_spring, derivatives);
}

}  // namespace of_agnostic
}  // namespace

const Claim agnostic{
    .name = "agnostic",
    .title = "Equilibrium propagation without knowing the inner loss",
    .place = "Section 4.2, \"Simplicity of the computational elements\"",
    .statement =
        "The outer gradient can be estimated when the inner loss and its partial derivatives are unknown, "
        "as long as θ can be controlled. With θ held at knobs u by springs of compliance ε and settling "
        "along with φ, ∇u L_out = −(1/ε)·dθ_β/dβ at β = 0, exactly for any ε; from ±β the bias is O(β²).",
    .protocol =
        "10 random quadratic systems (φ of 6, θ of 3) that come to rest by moving one coordinate at a "
        "time by energies alone, behind a wrapper that throws when a derivative is asked for: 6 values of "
        "β at ε = 0.1, 4 values of ε from 10⁻⁴ to 10⁻³ with β = 2·10⁻⁴. The library's ep-agnostic on the "
        "same problems at 6 values of β, and on 20 log-cosh problems.",
    .truth =
        "Closed forms: rest of the springs' joint quadratic form in (φ, θ) by LU, the estimate at any β "
        "and its limit; without springs ∇θ = JᵀH⁻¹G(φ₀ − y), from which the springs differ by O(ε). On "
        "log-cosh ∇θ by dense LU at φ*.",
    .slip = "",
    .expected = "slope 2 in β, 1 in ε; no derivative asked",
    .run = of_agnostic::run};

}  // namespace claims
