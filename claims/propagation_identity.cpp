#include "catalogue.hpp"
#include "claim.hpp"

#include <array>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <Eigen/Cholesky>
#include <Eigen/LU>

#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "ripples.hpp"

namespace claims {
namespace {
namespace of_propagation_identity {

/// f′(0) to order 8 in the step.
Vec central(const std::function<Vec(double)>& f, double step) {
  const std::array weights{4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
  Vec sum = weights[0] * (f(step) - f(-step));
  for (int i = 2; i <= 4; ++i) sum += weights[i - 1] * (f(i * step) - f(-i * step));
  return sum / step;
}

/// Newton's method from near the solution, which it follows from problem to problem.
Vec follow(bilevel::Problem<Vec>& problem, const Vec& theta, double beta, Vec phi) {
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  Vec residual(phi.size()), outer(phi.size());
  Mat hessian;
  for (int step = 0; step < 12; ++step) {
    problem.inner(phi, theta, {.phi = &residual});
    problem.outer(phi, theta, {.phi = &outer});
    problem.linearise(phi, theta, beta, curvature);
    curvature->dense(hessian);
    const Vec move = hessian.partialPivLu().solve(residual + beta * outer);
    phi -= move;
    if (move.norm() < 1e-15 * phi.norm()) break;
  }
  return phi;
}

struct Sides {
  Vec left, right, formula;
};

Sides sides(const Laboratory& lab, bilevel::Problem<Vec>& problem, const Vec& theta, double beta,
            const Vec& phi) {
  Sides s{Vec(theta.size()), {}, Vec(theta.size())};
  const double step = 0.003;
  for (Index j = 0; j < theta.size(); ++j)
    s.left[j] = central(
        [&](double t) {
          const Vec moved = theta + t * Vec::Unit(theta.size(), j);
          return Vec::Constant(1, problem.outer(follow(problem, moved, beta, phi), moved, {}));
        },
        step)[0];
  s.right = central(
      [&](double t) {
        Vec in(theta.size()), out(theta.size());
        const Vec moved = follow(problem, theta, beta + t, phi);
        problem.inner(moved, theta, {.theta = &in});
        problem.outer(moved, theta, {.theta = &out});
        return Vec(in + (beta + t) * out);
      },
      step);
  // The implicit function theorem at β: dφ_β/dθ = −(∂φ²L)⁻¹ ∂θ∂φL.
  const auto curvature = lab.curvature(problem, phi, theta, beta);
  Mat hessian;
  curvature->dense(hessian);
  Vec direct(theta.size()), pull(phi.size()), through(theta.size());
  problem.outer(phi, theta, {.phi = &pull, .theta = &direct});
  curvature->cross_times(hessian.partialPivLu().solve(pull), through);
  s.formula = direct - through;
  return s;
}

std::unique_ptr<bilevel::Problem<Vec>> waves(const Laboratory& lab, std::uint64_t number) {
  // Long waves high enough to turn the curvature negative: c‖w‖² exceeds that of the rest.
  const Mat root = lab.matrix(5, 5, number);
  const Mat t = Mat::Identity(5, 5) + 0.05 * root * root.transpose();
  const Mat waves = 0.7 * lab.matrix(5, 2, number + 2).colwise().normalized();
  const Vec heights = lab.vector(2, number + 3).cwiseAbs().array() + 8;
  const Vec phases = 0.2 * lab.vector(2, number + 4).array() + std::acos(0.0);
  return std::make_unique<Ripples>(t, lab.vector(5, number + 1), waves, heights, phases,
                                   lab.matrix(5, 3, number + 5) / 4, lab.matrix(5, 3, number + 6) / 2,
                                   lab.vector(5, number + 1) + 0.1 * lab.vector(5, number + 7));
}

void run(Laboratory& lab, Outcome& outcome) {
  using bilevel::problems::LogCosh;
  using bilevel::problems::Quadratic;
  Table table("Largest relative disagreement of the two sides", {"β", "quadratic", "log-cosh", "non-convex"});
  double worst = 0, worst_formula = 0, worst_closed = 0;
  const std::vector<double> betas{-0.05, 0, 0.1, 0.5, 2};
  std::vector<std::array<double, 3>> found(betas.size(), {0, 0, 0});
  int indefinite = 0;
  for (int kind = 0; kind < 3; ++kind)
    for (int draw = 0; draw < 8; ++draw) {
      const std::uint64_t number = 1000 * (kind + 1) + 20 * draw;
      std::unique_ptr<bilevel::Problem<Vec>> problem;
      if (kind == 0)
        problem = std::make_unique<Quadratic>(
            Quadratic::random({.phi = 5, .theta = 3, .condition = 10, .seed = lab.seed(number)}));
      else if (kind == 1)
        problem = std::make_unique<LogCosh>(
            LogCosh::random({.phi = 5, .theta = 3, .condition = 10, .epsilon = 1, .seed = lab.seed(number)}));
      else
        problem = waves(lab, number);
      const Vec theta = (kind == 2 ? 0.1 : 1) * lab.vector(3, number + 10).normalized();
      Vec phi = follow(*problem, theta, 0, problem->initial_phi());
      if (kind == 2) {
        // Somewhere around the minimum the Hessian is indefinite: this is no convex problem.
        bool seen = false;
        for (int look = 0; look < 200; ++look) {
          Mat hessian;
          lab.curvature(*problem, phi + 4 * lab.vector(5, 100000 + 200 * draw + look), theta)->dense(hessian);
          seen = seen || hessian.llt().info() != Eigen::Success;
        }
        indefinite += seen;
      }
      for (std::size_t i = 0; i < betas.size(); ++i) {
        const Vec here = follow(*problem, theta, betas[i], phi);
        if (betas[i] >= 0) phi = here;
        const Sides s = sides(lab, *problem, theta, betas[i], here);
        const double size = s.left.norm();
        keep_worst(found[i][kind], (s.left - s.right).norm() / size);
        keep_worst(worst, (s.left - s.right).norm() / size);
        keep_worst(worst_formula, (s.left - s.formula).norm() / size);
        if (kind > 0) continue;
        const auto& q = static_cast<Quadratic&>(*problem);
        Vec pull(5);
        problem->outer(here, theta, {.phi = &pull});
        const Vec closed = q.coupling().transpose() *
                           (q.hessian() + betas[i] * q.outer_hessian()).partialPivLu().solve(pull);
        keep_worst(worst_closed, (s.left - closed).norm() / size);
        keep_worst(worst_closed, (s.right - closed).norm() / size);
      }
    }
  outcome.at_most("d/dθ ∂βL against d/dβ ∂θL, relative, all β", 1e-8, worst);
  outcome.at_most("d/dθ ∂βL against the implicit formula at β, relative", 1e-8, worst_formula);
  outcome.at_most("quadratic: both sides against the closed form, relative", 1e-9, worst_closed);
  outcome.all_of("non-convex problems with an indefinite Hessian nearby", indefinite, 8);
  for (std::size_t i = 0; i < betas.size(); ++i)
    table.row({fmt::format("{:g}", betas[i]), fmt::format("{:.1e}", found[i][0]),
               fmt::format("{:.1e}", found[i][1]), fmt::format("{:.1e}", found[i][2])});

  // No gradient field, no identity.
  const Mat root = lab.matrix(4, 4, 1), other = lab.matrix(4, 4, 2), j = lab.matrix(4, 3, 3);
  const Mat symmetric = Mat::Identity(4, 4) + root * root.transpose() / 4,
            skew = (other - other.transpose()) / 2;
  const Vec theta = lab.vector(3, 4), b = lab.vector(4, 5), y = lab.vector(4, 6);
  std::vector<double> strengths = geometric(1e-3, 1, 13), gaps, laws;
  double worst_gap = 0;
  const double beta = 0.3;
  for (const double t : strengths) {
    const auto rest = [&](const Vec& at, double nudge) {
      const Mat a = symmetric + t * skew + nudge * Mat::Identity(4, 4);
      return Vec(a.partialPivLu().solve(j * at + b + nudge * y));
    };
    Vec left(3);
    for (Index i = 0; i < 3; ++i)
      left[i] = central(
          [&](double s) {
            return Vec::Constant(1, 0.5 * (rest(theta + s * Vec::Unit(3, i), beta) - y).squaredNorm());
          },
          0.01)[0];
    // −Jᵀφ is what stands for ∂θL: its derivative by φ is the field's by θ.
    const Vec right = central([&](double s) { return Vec(-j.transpose() * rest(theta, beta + s)); }, 0.01);
    const Mat inverse = (symmetric + t * skew + beta * Mat::Identity(4, 4)).inverse();
    const Vec law = j.transpose() * (inverse.transpose() - inverse) * (rest(theta, beta) - y);
    gaps.push_back((left - right).norm() / left.norm());
    laws.push_back(law.norm() / left.norm());
    keep_worst(worst_gap, (left - right - law).norm() / left.norm());
  }
  outcome.at_most("control: difference of the sides against Jᵀ(A⁻ᵀ − A⁻¹)g, relative", 1e-9, worst_gap);
  outcome.at_least("control: relative difference of the sides at t = 1", 0.01, gaps.back());
  outcome.near("control: slope of the difference in t, t ≤ 0.03", 1,
               slope({strengths.begin(), strengths.begin() + 6}, {gaps.begin(), gaps.begin() + 6}), 0.02);

  outcome.show(table.caption("Both sides by central differences of order 8 of the whole solve."));
  outcome.show(Chart("A field that is not a gradient: how far the two sides are apart")
                   .x("size t of the skew part", true)
                   .y("relative difference", true)
                   .dots("measured", strengths, gaps)
                   .line("‖Jᵀ(A⁻ᵀ − A⁻¹)g‖", strengths, laws, true));
  outcome.measured = fmt::format("{:.0e} at every β; field: {:.2f} apart", worst, gaps.back());
}

}  // namespace of_propagation_identity
}  // namespace

const Claim propagation_identity{
    .name = "propagation-identity",
    .title = "The equilibrium propagation theorem holds at every β",
    .place = "Section 3.2, equilibrium propagation theorem",
    .statement =
        "For L = L_in + βL_out and a stationary point φ_β(θ) with an invertible Hessian, d/dθ ∂βL(φ_β, θ, "
        "β) = d/dβ ∂θL(φ_β, θ, β), at β = 0 and anywhere else. It rests on L being one function: for a "
        "field that is not a gradient the two sides differ.",
    .protocol =
        "8 quadratic, 8 log-cosh and 8 non-convex problems (waves on a quadratic) with 5 variables and 3 "
        "parameters, at β = −0.05, 0, 0.1, 0.5 and 2. Both sides are central differences of order 8 of "
        "the whole solve, by Newton's method to the last digits: on the left of L_out(φ_β(θ), θ) over "
        "each θ_j, on the right of ∂θL(φ_β, θ, β) over β. The control is the field (S + tK)φ − Jθ − b "
        "with symmetric S and skew K, t from 10⁻³ to 1.",
    .truth =
        "Each other; the closed form Jᵀ(H + βG)⁻¹G(φ_β − y) for the quadratic; and ∂θL_out − ∂φL_out "
        "(∂φ²L)⁻¹ ∂θ∂φL from the curvature at β. For the control Jᵀ(A⁻ᵀ − A⁻¹)(φ_β − y) with A = S + tK + "
        "β.",
    .slip = "",
    .expected = "both sides equal to 1e-8 at every β",
    .run = of_propagation_identity::run};

}  // namespace claims
