#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <bilevel/problems/pitchfork.hpp>

#include "dense_curvature.hpp"
#include "wells.hpp"

namespace claims {
namespace {
namespace of_indefinite_hessian {

using bilevel::Status;
using bilevel::Verdict;

/// Conjugate gradients as in the textbooks, without any safeguard; the distance from `limit` after each step.
template <class Scalar>
std::vector<double> textbook_distances(const Mat& matrix, const Vec& right, const Vec& limit, int steps) {
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;
  const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic> h = matrix.cast<Scalar>();
  Vector x = Vector::Zero(right.size()), r = right.cast<Scalar>(), p = r, end = limit.cast<Scalar>();
  std::vector<double> distances;
  for (int k = 0; k < steps; ++k) {
    const Vector q = h * p;
    const Scalar old = r.squaredNorm(), alpha = old / p.dot(q);
    x += alpha * p;
    r -= alpha * q;
    p = r + r.squaredNorm() / old * p;
    distances.push_back(static_cast<double>((x - end).norm() / end.norm()));
  }
  return distances;
}

/// Whether all eigenvalues lie above `bound`.
bool above(const Mat& h, double bound) {
  return Mat(h - bound * Mat::Identity(h.rows(), h.rows())).llt().info() == Eigen::Success;
}

/// The three second phases at φ̂ = 0.2 of the pitchfork.
double on_the_pitchfork(Laboratory& lab, Outcome& outcome) {
  bilevel::problems::Pitchfork problem;
  const Vec theta = Vec::Ones(1), stop = Vec::Constant(1, 0.2);
  const auto descent = settler("gradient-descent-backtracking", problem, 1e-11);
  Settling stopped(problem, [&](const Vec& t, double beta, const Vec& start) {
    return beta == 0 ? stop : descent->solve(t, beta, start).phi;
  });
  Vec product(1);
  const auto curvature = lab.curvature(problem, stop, theta);
  curvature->times(Vec::Ones(1), product);
  outcome.near("Hessian at φ̂ = 0.2", -1.52, product[0], 1e-14);
  // π ← π − α(πH − g) from π = 0 grows by 1 + 1.52α a step.
  double pi = 0, last = 0, growth = 0;
  for (int k = 0; k < 100; ++k) {
    curvature->times(Vec::Constant(1, pi), product);
    const double next = pi - 0.1 * (product[0] - (0.2 - 1));
    growth = (next - pi) / (pi - last);
    last = pi;
    pi = next;
  }
  outcome.near("growth of recurrent backpropagation, α = 0.1", 1.152, growth, 1e-12);
  const std::pair<const char*, Status> expected[] = {{"implicit-neumann", Status::diverged},
                                                     {"implicit-cg", Status::negative_curvature}};
  for (const auto& [name, status] : expected) {
    const auto e = lab.estimator(name, problem, stopped)->estimate(theta, {});
    outcome.check(
        fmt::format("{}: status and verdict", name), fmt::format("{}, untrusted", bilevel::name(status)),
        fmt::format("{}, {}", bilevel::name(e.adjoint_status), bilevel::name(e.certificate.verdict)),
        e.adjoint_status == status && e.certificate.verdict == Verdict::untrusted);
  }
  std::vector<double> betas = geometric(1e-6, 1, 25), sizes, law, small, small_sizes;
  double worst_form = 0;
  int finite = 0, trusted = 0;
  for (const double beta : betas) {
    const auto e = lab.estimator("ep-forward-2", problem, stopped, {.beta = beta})->estimate(theta, {});
    double root = 1;
    for (int k = 0; k < 60; ++k)
      root -= (4 * root * root * root - 2 * root + beta * (root - 1)) / (12 * root * root - 2 + beta);
    const double form = -(root * root - 0.04) / beta;
    keep_worst(worst_form, std::abs(e.gradient[0] / form - 1));
    finite += std::isfinite(e.gradient[0]);
    trusted += e.certificate.verdict == Verdict::trusted;
    sizes.push_back(std::abs(e.gradient[0] - (*problem.outer_gradient(theta))[0]));
    law.push_back(0.46 / beta);
    if (beta > 1e-2) continue;
    small.push_back(beta);
    small_sizes.push_back(sizes.back());
  }
  const double found = slope(small, small_sizes);
  outcome.check("equilibrium propagation, 25 values of β", "25 finite, 0 trusted",
                fmt::format("{} finite, {} trusted", finite, trusted), finite == 25 && trusted == 0);
  outcome.at_most("its estimate against −(φ_β² − φ̂²)/β, relative", 1e-8, worst_form);
  outcome.near("slope of its error over β ≤ 0.01", -1, found, 0.01);
  outcome.show(Chart("Equilibrium propagation at φ̂ = 0.2, away from a minimum")
                   .x("β", true)
                   .y("|∇̂ − ∇|", true)
                   .dots("measured", betas, sizes)
                   .line("(φ*² − φ̂²)/β", betas, law, true)
                   .caption("Finite at each β, and the worse the smaller β is."));
  return found;
}

/// Linear systems: textbook conjugate gradients, and what the library's solvers say.
double on_linear_systems(Laboratory& lab, Outcome& outcome) {
  DenseCurvature known;
  bilevel::CurvatureOperator<Vec> system(known, true, false);
  known.hessian = Eigen::Vector2d(1, -1).asDiagonal();
  const auto broken = lab.adjoint("cg")->solve(system, Vec::Ones(2), nullptr);
  outcome.check("cg on H = diag(1, −1), g = (1, 1)", "breakdown", std::string(bilevel::name(broken.status)),
                broken.status == Status::breakdown);
  const int draws = 300, n = 6;
  double worst = 0, stationary = 0, number = 1000;
  int cg_said = 0, neumann_said = 0;
  Chart chart("Distance from gH⁻¹ on an indefinite system");
  chart.x("step").y("‖π_k − gH⁻¹‖/‖gH⁻¹‖", true);
  for (int draw = 0; draw < draws;) {
    const auto at = static_cast<std::uint64_t>(number++);
    Mat h = lab.matrix(n, n, at);
    h = Mat(h + h.transpose());
    if (above(h, -0.1) || above(-h, -0.1) || h.inverse().norm() > 20) continue;
    ++draw;
    const Vec g = lab.vector(n, 5000 + at), limit = h.fullPivLu().solve(g);
    const auto distances = textbook_distances<long double>(h, g, limit, n);
    keep_worst(worst, distances.back());
    known.hessian = h;
    const auto cg = lab.adjoint("cg")->solve(system, g, nullptr);
    cg_said += cg.status == Status::negative_curvature || cg.status == Status::breakdown;
    neumann_said += lab.adjoint("neumann")->solve(system, g, nullptr).status == Status::diverged;
    const auto direct = lab.adjoint("direct")->solve(system, g, nullptr);
    keep_worst(stationary, (direct.x - limit).norm() / limit.norm());
    if (draw > 3) continue;
    std::vector<double> x{0}, y{1}, descent_x, descent_y;
    for (int k = 0; k < n; ++k) x.push_back(k + 1), y.push_back(distances[k]);
    Vec pi = Vec::Zero(n);
    for (int k = 0; k <= 12; ++k) {
      descent_x.push_back(k), descent_y.push_back((pi - limit).norm() / limit.norm());
      pi += (g - h * pi) / h.norm();
    }
    chart.line(fmt::format("conjugate gradients, system {}", draw), x, y);
    chart.line(fmt::format("recurrent backpropagation, system {}", draw), descent_x, descent_y, true);
  }
  outcome.at_most("textbook CG after 6 steps against gH⁻¹, worst of 300", 1e-8, worst);
  outcome.all_of("the library's cg names the curvature", cg_said, draws);
  outcome.all_of("recurrent backpropagation says diverged", neumann_said, draws);
  outcome.at_most("the library's direct solver against gH⁻¹, relative", 1e-9, stationary);
  outcome.show(chart.caption("Conjugate gradients wander, and end at the stationary point after 6 steps."));
  return worst;
}

/// Random problems; returns how many results were trusted.
int on_wells(Laboratory& lab, Outcome& outcome) {
  const char* const names[] = {
      "implicit-neumann", "implicit-cg", "implicit-bicgstab", "implicit-minres", "implicit-gmres",
      "implicit-direct",  "exact",       "ep-forward-2",      "ep-forward-3",    "ep-forward-5",
      "ep-central"};
  std::map<std::string, std::map<std::string, int>> seen;
  int trusted = 0, not_finite = 0, quiet = 0;
  std::uint64_t number = 20000;
  for (int draw = 0; draw < 200;) {
    number += 10;
    Mat a = lab.matrix(4, 4, number);
    a = Mat(a + a.transpose());
    const Wells wells{a, lab.matrix(4, 2, number + 1), lab.vector(4, number + 2), lab.vector(4, number + 3)};
    const Vec theta = lab.vector(2, number + 4);
    const bool saddle = draw % 2 == 1;
    const auto stop = wells.stopped(0.4 * lab.vector(4, number + 5), theta, saddle);
    if (!stop) continue;
    ++draw;
    auto problem = bilevel::make_problem<Vec>(wells.functions());
    for (const char* method : {"gradient-descent-backtracking", "newton"}) {
      const auto nudged = settler(method, problem, 1e-9);
      Settling stopped(problem, [&](const Vec& t, double beta, const Vec& start) {
        return beta == 0 ? *stop : nudged->solve(t, beta, start).phi;
      });
      for (const char* name : names) {
        const bool propagation = bilevel::nudges(bilevel::estimator_named(name));
        if (!propagation && method[0] == 'n') continue;  // the same again: there are no nudged phases
        const auto e = lab.estimator(name, problem, stopped, {.beta = 1e-3})->estimate(theta, {});
        trusted += e.certificate.verdict == Verdict::trusted;
        quiet += e.certificate.reason.empty();
        if (propagation) not_finite += !e.gradient.allFinite();
        const Status status = propagation ? e.status : e.adjoint_status;
        ++seen[name][std::string(bilevel::name(status))];
      }
    }
  }
  outcome.none_of("trusted results", trusted, 3000);
  outcome.check("results without a reason", "0 of 3000", fmt::format("{}", quiet), quiet == 0);
  outcome.none_of("estimates of equilibrium propagation that are not finite", not_finite, 1600);
  Table table("What the methods report at 200 indefinite Hessians, 100 of them saddles",
              {"method", "status"});
  for (const char* name : names) {
    std::string cell;
    for (const auto& [status, count] : seen[name])
      cell += fmt::format("{}{} {}", cell.empty() ? "" : ", ", count, status);
    table.row({name, cell});
  }
  outcome.show(
      table.caption("Second phase of implicit differentiation; all phases of equilibrium propagation, "
                    "which has two solvers of the nudged phases."));
  return trusted;
}

void run(Laboratory& lab, Outcome& outcome) {
  const double found = on_the_pitchfork(lab, outcome);
  const double distance = on_linear_systems(lab, outcome);
  const int trusted = on_wells(lab, outcome);
  outcome.measured = fmt::format("{:.0e}; slope {:.3f}; {} trusted of 3000", distance, found, trusted);
}

}  // namespace of_indefinite_hessian
}  // namespace

const Claim indefinite_hessian{
    .name = "indefinite-hessian",
    .title = "What the second phases do where the Hessian is not positive definite",
    .place = "Sections 3.2 and 4.2",
    .statement =
        "At a φ̂ whose Hessian is indefinite recurrent backpropagation diverges. Conjugate gradients "
        "either break down (pᵀHp = 0) or end, after |φ| steps in exact arithmetic, at the stationary "
        "point gH⁻¹, which minimises nothing. Equilibrium propagation stays finite, but is wrong and "
        "grows like 1/β. No method may pass such a result off as a gradient.",
    .protocol =
        "L_in = φ⁴ − θφ² with θ = 1 at φ̂ = 0.2, where H = −1.52. The system H = diag(1, −1), g = (1, 1). "
        "300 random indefinite 6×6 systems for conjugate gradients as in the textbooks, in extended "
        "precision, and for the library's solvers. 200 random double-well problems (φ of 4) stopped at a "
        "φ̂ with an indefinite Hessian, half of them at saddle points: 11 estimators each, nudged phases "
        "by gradient descent and by Newton's method. Phase 1 claims to have converged.",
    .truth =
        "Closed forms: growth by 1 + 1.52α a step; gH⁻¹ by LU; ∇̂ = −(φ_β² − φ̂²)/β with φ_β the root of "
        "4φ³ − 2φ + β(φ − y), so that β·∇̂ tends to −0.46. Cholesky factors say which Hessians are "
        "indefinite.",
    .slip =
        "The text lets conjugate gradients diverge, which is not how they typically fail. That the "
        "estimate of equilibrium propagation converges to some finite value is true at a fixed β only: it "
        "grows like 1/β.",
    .expected = "gH⁻¹; slope −1; nothing trusted",
    .run = of_indefinite_hessian::run};

}  // namespace claims
