#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <bilevel/problems/quadratic.hpp>

namespace claims {
namespace {
namespace of_more_points {

constexpr double coupling = 0.8, theta_value = 0.5, target = 2;

Mat one(double x) {
  return Mat::Constant(1, 1, x);
}

double factorial(int k) {
  return std::tgamma(k + 1.0);
}

/// α of the phase at strength t: the offsets must know its sign.
double weight_at(const Weights& weights, double t, double beta) {
  for (std::size_t i = 0; i < weights.points.size(); ++i)
    if (std::abs(weights.points[i] * beta - t) < 0.5 * beta) return weights.coefficients[i];
  return 0;
}

double gain(const Weights& weights) {
  double sum = 0;
  for (const double alpha : weights.coefficients) sum += std::abs(alpha);
  return sum;
}

/// |∇̂ − ∇| in one dimension with adversarial offsets of size δ, by the library's estimator.
class Adversary {
 public:
  explicit Adversary(Laboratory& lab)
      : lab_(lab), problem_(one(1), one(coupling), Vec::Zero(1), one(1), Vec::Constant(1, target)) {}

  double error(int p, double beta, double delta) {
    const Weights weights = lab_.forward_stencil(p);
    Settling phases(problem_, [&](const Vec& theta, double t, const Vec&) {
      // ∇̂ = −B Σ α_i φ_i/β and ∇ < 0: the bias pushes towards zero, and so does −α_i·offset < 0.
      const double sign = weight_at(weights, t, beta) > 0 ? -1 : 1;
      return Vec(problem_.settled(theta, t) + Vec::Constant(1, sign * delta));
    });
    const Vec theta = Vec::Constant(1, theta_value);
    const auto e = lab_.estimator(fmt::format("ep-forward-{}", p), problem_, phases,
                                  {.certificate = {.enabled = false}, .beta = beta})
                       ->estimate(theta, {});
    return std::abs(e.gradient[0] - coupling * (coupling * theta_value - target));
  }
  double closed_form(int p, double beta, double delta) const {
    double bias = slope_of_bias();
    for (int i = 1; i < p; ++i) bias *= i * beta / (1 + i * beta);
    return bias + coupling * gain(lab_.forward_stencil(p)) * delta / beta;
  }
  static double slope_of_bias() { return coupling * std::abs(coupling * theta_value - target); }

 private:
  Laboratory& lab_;
  bilevel::problems::Quadratic problem_;
};

/// The one-dimensional adversary; returns the slopes.
std::array<double, 4> with_adversary(Laboratory& lab, Outcome& outcome) {
  Adversary adversary(lab);
  std::array<double, 4> slopes{};
  double worst_form = 0, worst_constant = 0;
  std::vector<double> best_of[4], deltas = geometric(1e-12, 1e-9, 13), all_deltas = geometric(1e-12, 1, 25);
  for (int p = 2; p <= 5; ++p) {
    const auto best = [&](double delta) {
      const double q = p - 1, noise = coupling * gain(lab.forward_stencil(p)) * delta;
      const double expected = std::pow(noise / (q * factorial(p - 1) * Adversary::slope_of_bias()), 1.0 / p);
      double least = std::numeric_limits<double>::infinity();
      for (const double beta : geometric(expected / 30, 30 * expected, 120)) {
        const double error = adversary.error(p, beta, delta);
        const double form = adversary.closed_form(p, beta, delta);
        keep_worst(worst_form, std::abs(error / form - 1) * delta);
        least = std::min(least, error);
      }
      return std::pair(least, least / (p / q * noise / expected));
    };
    std::vector<double> least;
    for (const double delta : deltas) least.push_back(best(delta).first);
    slopes[p - 2] = slope(deltas, least);
    outcome.near(fmt::format("slope of the best error over δ, p = {}", p), (p - 1.0) / p, slopes[p - 2],
                 0.01);
    keep_worst(worst_constant, std::abs(best(1e-12).second - 1));
    for (const double delta : all_deltas) best_of[p - 2].push_back(best(delta).first);
  }
  outcome.at_most("error against its closed form, relative, × δ", 1e-15, worst_form);
  outcome.at_most("best error at δ = 1e-12 against p/(p−1)·NB/β*, relative", 0.1, worst_constant);
  outcome.check(
      "best error at δ = 1e-12", "falls with p",
      fmt::format("{:.1e}, {:.1e}, {:.1e}, {:.1e}", best_of[0][0], best_of[1][0], best_of[2][0],
                  best_of[3][0]),
      best_of[0][0] > best_of[1][0] && best_of[1][0] > best_of[2][0] && best_of[2][0] > best_of[3][0]);
  Chart reach("Best error over β with phases that miss by δ");
  reach.x("δ", true)
      .y("|∇̂ − ∇|", true)
      .caption("Slopes (p−1)/p. With δ large enough the curves meet: more points win nothing any more.");
  for (int p = 2; p <= 5; ++p) reach.line(fmt::format("p = {}", p), all_deltas, best_of[p - 2]);
  // At one δ, over β: fewer points win on the left, more on the right.
  const double delta = 1e-4;
  const std::vector<double> betas = geometric(1e-4, 10, 60);
  Chart crossing("Error over β at δ = 1e-4");
  crossing.x("β", true).y("|∇̂ − ∇|", true).caption("Dots measured, dashed the closed form.");
  std::vector<double> errors[4];
  for (int p = 2; p <= 5; ++p) {
    std::vector<double> form;
    for (const double beta : betas) {
      errors[p - 2].push_back(adversary.error(p, beta, delta));
      form.push_back(adversary.closed_form(p, beta, delta));
    }
    crossing.dots(fmt::format("p = {}", p), betas, errors[p - 2]);
    crossing.line(fmt::format("p = {}, closed form", p), betas, form, true);
  }
  outcome.near("error of p = 5 over that of p = 2 at β = δ: 32/3 over 2", 16.0 / 3,
               errors[3][0] / errors[0][0], 0.01);
  outcome.at_most("the same ratio at β = 0.5", 0.5,
                  adversary.error(5, 0.5, delta) / adversary.error(2, 0.5, delta));
  outcome.show(reach);
  outcome.show(crossing);
  return slopes;
}

/// Random problems, random offsets.
void with_random_offsets(Laboratory& lab, Outcome& outcome) {
  const std::vector<double> deltas = geometric(1e-11, 1e-8, 5);
  std::vector<double> mean[4];
  for (auto& m : mean) m.assign(deltas.size(), 0);
  int not_better = 0, worse_gradient = 0;
  constexpr double everywhere = std::numeric_limits<double>::infinity();
  for (int draw = 0; draw < 40; ++draw) {
    auto q = bilevel::problems::Quadratic::random(
        {.phi = 5, .theta = 3, .condition = 4, .seed = lab.seed(100 + draw)});
    const Vec theta = lab.vector(3, 200 + draw), truth = *q.outer_gradient(theta);
    const auto c = q.constants(theta, q.initial_phi(), bilevel::everywhere);
    const double scale = c.mu / c.outer_smoothness;
    const auto estimate = [&](int p, double beta, double delta) {
      std::uint64_t phase = 1000 + 10 * draw;
      Settling inner(q, [&](const Vec& t, double b, const Vec&) {
        return Vec(q.settled(t, b) + delta * lab.vector(5, phase++).normalized());
      });
      return lab
          .estimator(fmt::format("ep-forward-{}", p), q, inner,
                     {.certificate = {.enabled = false}, .beta = beta})
          ->estimate(theta, {});
    };
    const auto error = [&](int p, double beta, double delta) {
      return (estimate(p, beta, delta).gradient - truth).norm();
    };
    Vec force(5);
    q.outer(q.settled(theta, 0), theta, {.phi = &force});
    const Vec pi = q.hessian().llt().solve(force);
    for (int p = 2; p <= 5; ++p)
      for (std::size_t i = 0; i < deltas.size(); ++i) {
        double least = std::numeric_limits<double>::infinity();
        const double guess = std::pow(deltas[i], 1.0 / p);
        for (const double share : geometric(0.02 * guess, 2 * guess, 24))
          least = std::min(least, error(p, share * scale, deltas[i]));
        mean[p - 2][i] += std::log(least) / 40;
      }
    for (const double share : geometric(0.01, 30, 25)) {
      double last_state = everywhere, last_gradient = everywhere;
      for (int p = 2; p <= 5; ++p) {
        const auto e = estimate(p, share * scale, 0);
        // π̂ − π* = −Π [iβ(H + iβG)⁻¹G] π*: in the norm of H every factor shrinks.
        const Vec off = e.pi.size() == 5 ? Vec(e.pi - pi) : pi;
        const double state = std::sqrt(off.dot(q.hessian() * off)), gradient = (e.gradient - truth).norm();
        not_better += !(state < last_state);
        worse_gradient += !(gradient < last_gradient);
        last_state = state;
        last_gradient = gradient;
      }
    }
  }
  for (int p = 2; p <= 5; ++p) {
    std::vector<double> typical;
    for (const double m : mean[p - 2]) typical.push_back(std::exp(m));
    outcome.near(fmt::format("the same slope with random offsets, p = {}", p), (p - 1.0) / p,
                 slope(deltas, typical), 0.03);
  }
  outcome.none_of("perfect phases: π̂ no nearer to π* with one point more", not_better, 3000);
  outcome.note(fmt::format(
      "With perfect phases one point more always brings π̂ nearer to π* in the norm of H, on a quadratic "
      "problem and at any β. Of the gradient, which is a projection of it, that is true in the limit "
      "only: up to β = 30·μ/L_out it became worse in {} of 3000 comparisons.",
      worse_gradient));
}

void run(Laboratory& lab, Outcome& outcome) {
  const auto slopes = with_adversary(lab, outcome);
  with_random_offsets(lab, outcome);
  outcome.measured =
      fmt::format("slopes {:.3f}, {:.3f}, {:.3f}, {:.3f}", slopes[0], slopes[1], slopes[2], slopes[3]);
}

}  // namespace of_more_points
}  // namespace

const Claim more_points{
    .name = "more-points",
    .title = "When multiple-point estimators are worth it",
    .place = "Appendix C, \"When are multiple points estimators worth it?\"",
    .statement =
        "With perfect phases more points are more precise as β tends to 0. With phases that miss by δ the "
        "errors of all of them add up, Σ|α_i|·δ/β: the best error over β then scales like δ^((p−1)/p), "
        "and where δ/β is large fewer points win.",
    .protocol =
        "Q with H = G = 1 in one dimension and offsets of size δ whose signs add to the bias: the best "
        "error over 120 values of β for 13 values of δ from 1e-12 to 1e-9, p = 2 … 5, then the whole "
        "range of δ up to 1. The same with random offsets on 40 random quadratic problems (φ of 5), 5 "
        "values of δ. Perfect phases at 25 values of β on the same problems.",
    .truth =
        "Closed form of the error, C·Π_{i<p} iβ/(1 + iβ) + B·Σ|α_i|·δ/β with C = B|φ₀ − y|; its least "
        "value is p/(p−1)·NB/β* at β* = (NB/((p−1)(p−1)!C))^(1/p), N = Σ|α_i|·δ, as δ tends to 0.",
    .slip =
        "The bias is O(β^(p−1)), not O(β^p): with O(β^p) the best error would scale like δ^(p/(p+1)). "
        "That more points always give a more precise gradient with perfect phases holds in the limit of "
        "small β.",
    .expected = "slopes 1/2, 2/3, 3/4, 4/5; curves cross",
    .run = of_more_points::run};

}  // namespace claims
