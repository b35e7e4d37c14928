#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/quadratic.hpp>

#include "offsets.hpp"

namespace claims {
namespace {
namespace of_propagation_bound {

/// Q in one variable with H = G = 1, and offsets that push the estimate the way the bias does.
struct Line {
  explicit Line(const Laboratory& lab)
      : theta(0.3 * lab.vector(1, 300001)),
        y(Vec::Constant(1, coupling * theta[0] - 1.5)),
        problem(Mat::Ones(1, 1), Mat::Constant(1, 1, coupling), Vec::Zero(1), Mat::Ones(1, 1), y) {}

  double error(const Laboratory& lab, double beta, double delta, double delta_prime) {
    // φ₀ > y: the nudge moves φ down, too little of it is what the bias is.
    const Vec free = problem.settled(theta, 0).array() - delta,
              nudged = problem.settled(theta, beta).array() + delta_prime;
    return std::abs(propagated(lab, problem, theta, beta, free, nudged)[0] - coupling * 1.5);
  }
  double bound(double beta, double delta, double delta_prime) const {
    return coupling * (delta + delta_prime) / beta + constant * beta / (1 + beta);
  }

  static constexpr double coupling = 2, constant = 3;  // J = B_in, and C = B_in·|φ₀ − y|
  Vec theta, y;
  bilevel::problems::Quadratic problem;
};

struct Draws {
  int count = 4000, violations = 0, sharper_violations = 0;
  double largest = 0, largest_unbiased = 0;  ///< error/ℬ with the sharper constant
  std::vector<double> errors, bounds;
};

Draws nonlinear(const Laboratory& lab) {
  Draws result;
  for (int draw = 0; draw < result.count; ++draw) {
    Vec theta;
    ConvexPair problem = ConvexPair::random(lab, 400000 + draw, theta);
    std::mt19937_64 engine = lab.engine(500000 + draw);
    const auto decades = [&](double a, double b) {
      return std::pow(10, std::uniform_real_distribution<>(a, b)(engine));
    };
    const Vec free = problem.settled(theta, 0);
    const double far = draw % 4 == 3 ? 0 : decades(-2, 0);
    problem.shift_target((1 - far) * (free - problem.minimiser(theta, 0, 1)));
    const double beta = decades(-3, 3), delta = decades(-6, 0), delta_prime = decades(-6, 0);
    const Vec nudged = problem.settled(theta, beta), truth = problem.gradient_at(free, theta);
    Adversary offsets(problem, theta, beta, free, nudged);
    if (draw % 2 == 0) {
      offsets.free = direction(free.size(), engine);
      offsets.nudged = direction(free.size(), engine);
    }
    const Vec estimate = propagated(lab, problem, theta, beta, free + delta * offsets.free,
                                    nudged + delta_prime * offsets.nudged);
    const PropagationConstants& about = problem.about();
    const double reach = about.condition() * (free - problem.minimiser(theta, 0, 1)).norm();
    const double phases = about.inner_cross * (delta + delta_prime) / beta + about.outer_cross * delta_prime;
    const double error = (estimate - truth).norm(), share = beta / (1 + beta),
                 bound = phases + about.constant(reach) * share,
                 sharper = phases + about.sharper_constant(reach) * share;
    result.violations += !(error <= bound);
    result.sharper_violations += !(error <= sharper);
    double& largest = far == 0 ? result.largest_unbiased : result.largest;
    keep_worst(largest, error / sharper);
    if (draw % 20 == 1) {
      result.errors.push_back(error);
      result.bounds.push_back(bound);
    }
  }
  return result;
}

void run(Laboratory& lab, Outcome& outcome) {
  Line line(lab);
  const double c = Line::constant;

  // The U in β.
  const std::vector<double> betas = geometric(1e-4, 1e2, 41);
  double worst = 0;
  Chart over_beta("Error and bound over the nudging strength, Q with H = G = 1", "Figure 2A");
  over_beta.x("β", true).y("‖∇̂ − ∇‖", true);
  for (const double delta : {1e-7, 1e-5, 1e-3, 1e-1}) {
    std::vector<double> errors, bounds;
    for (const double beta : betas) {
      errors.push_back(line.error(lab, beta, delta, delta));
      bounds.push_back(line.bound(beta, delta, delta));
      keep_worst(worst, std::abs(errors.back() / bounds.back() - 1));
    }
    over_beta.line(fmt::format("ℬ, δ = δ′ = {:g}", delta), betas, bounds, true)
        .dots(fmt::format("measured, {:g}", delta), betas, errors);
  }
  outcome.at_most("Q: measured error against ℬ, relative", 1e-8, worst);

  // Its lowest point.
  double worst_place = 0, worst_value = 0;
  const std::vector<double> deltas = geometric(1e-8, 1e-2, 13);
  std::vector<double> lowest, law;
  for (const double ratio : {1.0, 3.0})
    for (const double delta : deltas) {
      const double a = Line::coupling * (1 + ratio) * delta;
      const auto error = [&](double beta) { return line.error(lab, beta, delta, ratio * delta); };
      const double place = valley(error, 1e-6, 1e3), value = error(place);
      keep_worst(worst_place, std::abs(place * (std::sqrt(c) - std::sqrt(a)) / std::sqrt(a) - 1));
      keep_worst(worst_value, std::abs(value / (2 * std::sqrt(c * a) - a) - 1));
      if (ratio != 1) continue;
      lowest.push_back(value);
      law.push_back(2 * std::sqrt(c * a) - a);
    }
  // Rounding of 1e-16/β blurs a flat minimum by its square root.
  outcome.at_most("Q: best β against √a/(√C − √a), relative", 1e-3, worst_place);
  outcome.at_most("Q: lowest error against 2√(Ca) − a, relative", 1e-7, worst_value);
  const double slope_best = slope(deltas, lowest);
  outcome.near("Q: slope of the lowest error in δ = δ′", 0.5, slope_best, 0.02);
  const double heavy = 2 * c / Line::coupling;  // a = 4C: more noise than there is to gain from a small β
  double rises = 0;
  for (std::size_t i = 1; i < betas.size(); ++i)
    rises += line.error(lab, betas[i], heavy, heavy) > line.error(lab, betas[i - 1], heavy, heavy);
  outcome.check("Q: with a = 4C the error falls with every larger β", "0 rises",
                fmt::format("{} rises", rises), rises == 0);

  // Random problems.
  const Draws draws = nonlinear(lab);
  outcome.none_of("random problems with error > ℬ", draws.violations, draws.count);
  outcome.none_of("random problems with error > ℬ, sharper constant", draws.sharper_violations, draws.count);
  outcome.at_least("random problems without bias: largest error/ℬ", 0.9, draws.largest_unbiased);

  Chart over_delta("Error and bound over the errors of the phases, Q with H = G = 1", "Figure 2B");
  over_delta.x("δ = δ′", true).y("‖∇̂ − ∇‖", true);
  for (const double beta : {1e-3, 1e-1, 10.0}) {
    std::vector<double> errors, bounds;
    for (const double delta : deltas) {
      errors.push_back(line.error(lab, beta, delta, delta));
      bounds.push_back(line.bound(beta, delta, delta));
    }
    over_delta.line(fmt::format("ℬ, β = {:g}", beta), deltas, bounds, true)
        .dots(fmt::format("measured, {:g}", beta), deltas, errors);
  }
  over_delta.line("2√(Ca) − a", deltas, law).dots("measured at the best β", deltas, lowest);
  over_delta.caption("At a fixed β the error stops falling at the bias; the envelope falls like √δ.");
  outcome.show(over_beta.caption("The adversary reaches the bound at every β."));
  outcome.show(over_delta);
  const double low = *std::min_element(draws.bounds.begin(), draws.bounds.end()),
               high = *std::max_element(draws.bounds.begin(), draws.bounds.end());
  outcome.show(Chart("Error and bound, random problems")
                   .x("ℬ", true)
                   .y("‖∇̂ − ∇‖", true)
                   .dots("draws", draws.bounds, draws.errors)
                   .line("error = ℬ", {low, high}, {low, high}, true)
                   .caption(fmt::format("{} of the {} draws, offsets adversarial.", draws.errors.size(),
                                        draws.count)));
  outcome.note(
      fmt::format("Of ℬ, with the sharper constant of propagation-constant, the errors of the random "
                  "problems reach a share of {:.2f}, and {:.4f} where there is no bias.",
                  draws.largest, draws.largest_unbiased));
  outcome.measured =
      fmt::format("{:.0e}; {} of {} above; slope {:.3f}", worst, draws.violations, draws.count, slope_best);
}

}  // namespace of_propagation_bound
}  // namespace

const Claim propagation_bound{
    .name = "propagation-bound",
    .title = "Equilibrium propagation trades bias against sensitivity",
    .place = "Section 3.2, error bound for equilibrium propagation, Figure 2",
    .statement =
        "If the two phases end within δ of φ₀ and δ′ of φ_β, the error of the two-point estimate is at "
        "most ℬ = B_in(δ+δ′)/β + B_out δ′ + Cβ/(1+β). As a function of β it has the shape of a U: with a "
        "= B_in(δ+δ′) < C the minimum lies at β* = √a/(√C − √a) and is 2√(Ca) − a + B_out δ′.",
    .protocol =
        "Q in one variable with H = G = 1 and offsets of sizes δ and δ′ against the estimate: the error "
        "at 41 values of β for four δ = δ′, its minimum over β by golden section for 13 δ = δ′ and for δ′ "
        "= 3δ. Then 4000 random problems of 1 to 8 variables with both losses log-cosh plus quadratic, β "
        "from 10⁻³ to 10³, δ and δ′ from 10⁻⁶ to 1, offsets in turn random and adversarial; in every "
        "fourth φ₀ minimises L_out as well, so that only the two terms of the offsets are left.",
    .truth =
        "For Q the bound itself with C = B_in|φ₀ − y|, which the adversary reaches; for the random "
        "problems the outer gradient from a dense factorisation at φ₀, and the bound with C as in "
        "propagation-constant.",
    .slip = "",
    .expected = "ℬ reached for Q, never exceeded; slope ½",
    .run = of_propagation_bound::run};

}  // namespace claims
