#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "offsets.hpp"

namespace claims {
namespace {
namespace of_perturbed_systems {

bilevel::LinearSolution<Vec> solve(const Laboratory& lab, const Mat& matrix, const Vec& b) {
  DenseCurvature known;
  known.hessian = matrix;
  bilevel::CurvatureOperator<Vec> a(known, false, false);
  return lab.adjoint("direct", {.relative_tolerance = 1e-14})->solve(a, b, nullptr);
}

/// The right side of the lemma; nothing where its condition fails.
std::optional<double> lemma(double inverse_norm, double change, double shift, double solution) {
  if (!(change * inverse_norm < 1)) return {};
  return inverse_norm / (1 - change * inverse_norm) * (shift + solution * change);
}

/// A = U·diag(σ)·Vᵀ with random reflections for U and V; the smallest singular value and its vectors.
struct System {
  System(Index n, double condition, std::mt19937_64& engine) {
    Vec values(n);
    for (Index i = 0; i < n; ++i)
      values[i] = std::pow(condition, -std::uniform_real_distribution<>(0, 1)(engine));
    matrix = values.asDiagonal();
    for (int i = 0; i < 2; ++i) {
      const Vec left = direction(n, engine), right = direction(n, engine);
      matrix -= 2 * left * (left.transpose() * matrix);
      matrix -= 2 * (matrix * right) * right.transpose();
    }
    const Eigen::JacobiSVD<Mat, Eigen::NoQRPreconditioner> svd(matrix,
                                                               Eigen::ComputeFullU | Eigen::ComputeFullV);
    inverse_norm = 1 / svd.singularValues()[n - 1];
    u = svd.matrixU().col(n - 1);
    v = svd.matrixV().col(n - 1);
  }
  Mat matrix;
  double inverse_norm;
  Vec u, v;
};

void run(Laboratory& lab, Outcome& outcome) {
  constexpr int draws = 6000;
  int above = 0, refused = 0;
  double dense_largest = 0, worst_equality = 0, worst_line = 0;
  std::vector<double> errors, bounds;
  for (int draw = 0; draw < draws; ++draw) {
    std::mt19937_64 engine = lab.engine(draw);
    const auto uniform = [&](double a, double b) { return std::uniform_real_distribution<>(a, b)(engine); };
    const int kind = draw % 3;
    const Index n = 1 + static_cast<Index>(engine() % 8);
    const System system(n, std::pow(10, uniform(0, 3)), engine);
    const double share = draw % 2 == 0 ? std::pow(10, uniform(-3, 0)) * 0.999 : uniform(0.5, 0.999);
    const double change = share / system.inverse_norm, shift = std::pow(10, uniform(-4, 1));
    Mat moved = system.matrix;
    Vec b = direction(n, engine) * std::pow(10, uniform(-1, 1)), shifted = b + shift * direction(n, engine);
    if (kind == 0) {
      const Mat noise =
          Mat::NullaryExpr(n, n, [&](Index, Index) { return std::normal_distribution<>()(engine); });
      moved -= change / spectral_norm(noise) * noise;
    } else if (kind == 1) {
      moved -= change * direction(n, engine) * direction(n, engine).transpose();
    } else {
      b = system.u * std::pow(10, uniform(-1, 1));
      shifted = b + shift * system.u;
      moved -= change * system.u * system.v.transpose();
    }
    const Vec x = solve(lab, system.matrix, b).x, x_moved = solve(lab, moved, shifted).x;
    // ‖A⁻¹b‖ by a factorisation of its own: the bound must not move with what the solver does.
    const auto bound =
        lemma(system.inverse_norm, change, shift, system.matrix.partialPivLu().solve(b).norm());
    const double error = (x - x_moved).norm();
    refused += !bound;
    if (!bound) continue;
    // The worst ones reach the bound; rounding, amplified by at most κ/(1 − share), may exceed it.
    above += !(error <= *bound * (1 + 1e-9));
    if (kind < 2) keep_worst(dense_largest, error / *bound);
    if (kind == 2) keep_worst(worst_equality, std::abs(error / *bound - 1));
    if (n == 1 && kind == 2) keep_worst(worst_line, std::abs(error / *bound - 1));
    if (draw % 40 == 0) {
      errors.push_back(error);
      bounds.push_back(*bound);
    }
  }
  outcome.none_of("systems above the bound", above, draws);
  outcome.check("systems refused although ε_A‖A⁻¹‖ < 1", "0", fmt::format("{}", refused), refused == 0);
  outcome.at_most("worst perturbations: |error/bound − 1|", 1e-9, worst_equality);
  outcome.at_most("worst perturbations, one unknown: |error/bound − 1|", 1e-11, worst_line);
  outcome.at_most("other perturbations: largest error/bound", 1 + 1e-9, dense_largest);

  // Towards the condition and onto it.
  std::mt19937_64 engine = lab.engine(draws);
  const System system(5, 10, engine);
  const Vec b = system.u;
  std::vector<double> gaps = geometric(1e-8, 0.5, 25), near_errors, near_bounds;
  double worst_near = 0;
  for (const double gap : gaps) {
    const double change = (1 - gap) / system.inverse_norm;
    const Mat moved = system.matrix - change * system.u * system.v.transpose();
    near_errors.push_back((solve(lab, system.matrix, b).x - solve(lab, moved, b).x).norm());
    near_bounds.push_back(*lemma(system.inverse_norm, change, 0, system.inverse_norm));
    keep_worst(worst_near, std::abs(near_errors.back() / near_bounds.back() - 1));
  }
  outcome.at_most("towards ε_A‖A⁻¹‖ = 1: |error/bound − 1|", 1e-6, worst_near);
  int singular = 0, refusals = 0;
  double smallest = 0;
  for (int draw = 0; draw < 200; ++draw) {
    const System other(2 + draw % 7, 100, engine);
    const double change = 1 / other.inverse_norm;
    const Mat moved = other.matrix - change * other.u * other.v.transpose();
    // A′ is singular up to its rounding: either that is seen or the solution has no size to speak of.
    const auto solution = solve(lab, moved, other.u);
    keep_worst(smallest, singular_values(moved)[moved.rows() - 1]);
    singular += solution.status == bilevel::Status::singular || solution.x.norm() > 1e12;
    refusals += !lemma(other.inverse_norm, change * (1 + 1e-15), 0, 1);
  }
  outcome.at_most("at ε_A‖A⁻¹‖ = 1: smallest singular value of A′, largest", 1e-14, smallest);
  outcome.all_of("at ε_A‖A⁻¹‖ = 1: found singular, or ‖x′‖ > 10¹²", singular, 200);
  outcome.all_of("at ε_A‖A⁻¹‖ = 1: bound refused", refusals, 200);

  const double low = *std::min_element(bounds.begin(), bounds.end()),
               high = *std::max_element(bounds.begin(), bounds.end());
  outcome.show(Chart("Distance of the solutions and the lemma's bound")
                   .x("bound", true)
                   .y("‖x − x′‖", true)
                   .dots("systems", bounds, errors)
                   .line("equality", {low, high}, {low, high}, true)
                   .caption("A third of the systems are built to lie on the line."));
  outcome.show(Chart("Towards the condition: the worst perturbation of one system")
                   .x("1 − ε_A‖A⁻¹‖", true)
                   .y("‖x − x′‖", true)
                   .dots("measured", gaps, near_errors)
                   .line("bound", gaps, near_bounds, true));
  outcome.measured = fmt::format("{} of {} above; equality to {:.0e}", above, draws, worst_equality);
}

}  // namespace of_perturbed_systems
}  // namespace

const Claim perturbed_systems{
    .name = "perturbed-systems",
    .title = "How far the solution of a perturbed linear system moves",
    .place = "Appendix B, lemma on perturbed linear systems (Higham, Theorem 7.2)",
    .statement =
        "For Ax = b and A′x′ = b′ with ‖A − A′‖ ≤ ε_A, ‖b − b′‖ ≤ ε_b and ε_A‖A⁻¹‖ < 1, ‖x − x′‖ ≤ "
        "‖A⁻¹‖/(1 − ε_A‖A⁻¹‖)·(ε_b + ‖A⁻¹b‖ε_A). The bound cannot be improved, and without the condition "
        "there is none.",
    .protocol =
        "6000 random systems with 1 to 8 unknowns, κ(A) up to 1000 and ε_A‖A⁻¹‖ from 0.001 to 0.999: in "
        "turn dense perturbations, perturbations of rank one, and the worst ones, A − A′ = ε_A·uvᵀ, b′ − "
        "b = ε_b·u and b ∝ u with A⁻¹u = ‖A⁻¹‖v. All are solved by the direct solver of phase 2. The "
        "worst ones are followed to ε_A‖A⁻¹‖ = 1 − 10⁻⁸, and at 1 in 200 systems.",
    .truth =
        "The bound; singular values from a Jacobi decomposition; for the worst perturbations equality, "
        "and a singular A′ at ε_A‖A⁻¹‖ = 1.",
    .slip = "",
    .expected = "never above; reached; singular at 1",
    .run = of_perturbed_systems::run};

}  // namespace claims
