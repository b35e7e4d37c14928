#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>
#include <Eigen/QR>

namespace claims {
namespace {
namespace of_convergence_rates {

/// H from its eigenvectors and eigenvalues.
class Matrix final : public bilevel::LinearOperator<Vec> {
 public:
  Matrix(const Laboratory& lab, Index size, double condition, std::uint64_t number)
      : vectors(Eigen::HouseholderQR<Mat>(lab.matrix(size, size, number)).householderQ() *
                Mat::Identity(size, size)),
        values(size) {
    for (Index i = 0; i < size; ++i)
      values[i] = std::pow(condition, static_cast<double>(i) / static_cast<double>(size - 1) - 0.5);
    matrix_ = vectors * values.asDiagonal() * vectors.transpose();
  }
  void apply(const Vec& x, Vec& out) override {
    out.noalias() = matrix_ * x;
    seen.push_back(x);
  }

  double smallest() const { return values[0]; }
  double largest() const { return values[values.size() - 1]; }
  Vec inverse_times(const Vec& g) const { return vectors * (vectors.transpose() * g).cwiseQuotient(values); }
  double energy_norm(const Vec& x) const { return std::sqrt(x.dot(matrix_ * x)); }

  Mat vectors;
  Vec values;
  std::vector<Vec> seen;  ///< what it was multiplied by

 private:
  Mat matrix_;
};

std::vector<long> grid(double rate) {
  // To where the bound is 10⁻⁷: rounding has to stay far below.
  const double end = std::min(2000.0, std::log(1e-7) / std::log(rate));
  std::vector<long> ks;
  for (double k = 1; k <= end; k *= 1.35)
    if (ks.empty() || std::lround(k) != ks.back()) ks.push_back(std::lround(k));
  return ks;
}

/// c·ρ^K.
struct Bound {
  double factor, rate;
  double at(double k) const { return factor * std::pow(rate, k); }
};

struct Curve {
  std::vector<double> k, error;

  /// The largest error in units of the bound.
  double excess(const Bound& bound) const {
    double most = 0;
    for (std::size_t n = 0; n < k.size(); ++n) keep_worst(most, error[n] / bound.at(k[n]));
    return most;
  }
  /// The largest distance of that from 1.
  double inequality(const Bound& bound) const {
    double most = 0;
    for (std::size_t n = 0; n < k.size(); ++n) keep_worst(most, std::abs(error[n] / bound.at(k[n]) - 1));
    return most;
  }
  std::vector<double> of(const Bound& bound) const {
    std::vector<double> y;
    for (const double each : k) y.push_back(bound.at(each));
    return y;
  }
};

/// ‖π_K − π*‖/‖π*‖, in the H-norm or the Euclidean one.
template <class Solver>
Curve errors(Matrix& h, const Vec& g, const std::vector<long>& ks, bool energy, const Solver& iterate) {
  const Vec pi = h.inverse_times(g);
  const auto norm = [&](const Vec& x) { return energy ? h.energy_norm(x) : x.norm(); };
  Curve curve;
  for (const long k : ks) {
    curve.k.push_back(static_cast<double>(k));
    curve.error.push_back(norm(iterate(k) - pi) / norm(pi));
  }
  return curve;
}

/// The two solvers on one H.
struct Solvers {
  static constexpr Index size = 60;

  Solvers(const Laboratory& laboratory, double condition, std::uint64_t number)
      : lab(laboratory),
        kappa(condition),
        h(lab, size, kappa, number),
        best_step(2 / (h.smallest() + h.largest())),
        short_step(1 / h.largest()),
        conjugate_bound{2, (std::sqrt(kappa) - 1) / (std::sqrt(kappa) + 1)},
        best_bound{1, (kappa - 1) / (kappa + 1)},
        short_bound{1, 1 - 1 / kappa} {}

  /// The iterates of conjugate gradients: the K-th minimises the quadratic form over the first K search
  /// directions, which are what H is multiplied by.
  Curve conjugate(const Vec& g) {
    const std::vector<long> ks = grid(conjugate_bound.rate);
    h.seen.clear();
    solve(g, ks.back());
    const std::vector<Vec> directions = h.seen;
    Vec x = Vec::Zero(size), r = g, q(size);
    long done = 0;
    return errors(h, g, ks, true, [&](long k) {
      for (; done < k; ++done) {
        const Vec& p = directions[static_cast<std::size_t>(done)];
        h.apply(p, q);
        const double step = r.dot(p) / p.dot(q);
        x += step * p;
        r -= step * q;
      }
      return x;
    });
  }
  /// What conjugate gradients return: the iterate of smallest residual.
  Curve returned(const Vec& g) {
    return errors(h, g, grid(conjugate_bound.rate), true, [&](long k) { return solve(g, k); });
  }
  /// Recurrent backpropagation with α = 2/(μ + L).
  Curve best(const Vec& g) { return series(g, best_step, best_bound.rate); }
  /// The same with α = 1/L.
  Curve shorter(const Vec& g) { return series(g, short_step, short_bound.rate); }

  const Laboratory& lab;
  double kappa;
  Matrix h;
  double best_step, short_step;
  Bound conjugate_bound, best_bound, short_bound;

 private:
  Vec solve(const Vec& g, long iterations) {
    bilevel::ConjugateGradientOptions options;
    options.relative_tolerance = 1e-300;
    options.ritz_steps = 0;
    options.max_iterations = iterations;
    return lab.adjoint(std::make_unique<bilevel::ConjugateGradient<Vec>>(options))->solve(h, g, nullptr).x;
  }
  Curve series(const Vec& g, double step, double rate) {
    return errors(h, g, grid(rate), false,
                  [&](long k) { return lab.adjoint(neumann(step, k))->solve(h, g, nullptr).x; });
  }
};

/// The largest errors in units of their bounds.
struct Excesses {
  double conjugate = 0, returned = 0, returned_weak = 0, best = 0, shorter = 0;
  double equality = 0, equality_short = 0;  ///< distance from the bound at the worst g

  void see_random(Solvers& solvers, const Vec& g) {
    const Bound bound = solvers.conjugate_bound, weak{bound.factor * std::sqrt(solvers.kappa), bound.rate};
    keep_worst(conjugate, solvers.conjugate(g).excess(bound));
    const Curve by_residual = solvers.returned(g);
    keep_worst(returned, by_residual.excess(bound));
    keep_worst(returned_weak, by_residual.excess(weak));
    keep_worst(best, solvers.best(g).excess(solvers.best_bound));
    keep_worst(shorter, solvers.shorter(g).excess(solvers.short_bound));
  }
  /// At α = 2/(μ + L) both ends of the spectrum shrink by the same factor, with opposite signs.
  void see_worst(Solvers& solvers) {
    const Vec low = solvers.h.vectors.col(0), high = solvers.h.vectors.col(Solvers::size - 1),
              both = low + high;
    for (const Vec* g : {&low, &high, &both})
      keep_worst(equality, solvers.best(*g).inequality(solvers.best_bound));
    keep_worst(equality_short, solvers.shorter(low).inequality(solvers.short_bound));
  }
};

void show(Solvers& solvers, const Vec& g, Outcome& outcome) {
  const Curve c = solvers.conjugate(g), s = solvers.best(g), w = solvers.best(solvers.h.vectors.col(0)),
              t = solvers.shorter(g);
  outcome.show(Chart(fmt::format("Error of π_K at κ = {:.0f}", solvers.kappa))
                   .x("iterations K", true)
                   .y("error, relative to the first", true)
                   .y_range(1e-8, 3)
                   .dots("conjugate gradients", c.k, c.error)
                   .line("2((√κ − 1)/(√κ + 1))^K", c.k, c.of(solvers.conjugate_bound), true)
                   .dots("RBP, α = 2/(μ + L)", s.k, s.error)
                   .dots("the same, worst g", w.k, w.error)
                   .line("((κ − 1)/(κ + 1))^K", s.k, s.of(solvers.best_bound), true)
                   .dots("RBP, α = 1/L", t.k, t.error)
                   .line("(1 − 1/κ)^K", t.k, t.of(solvers.short_bound), true)
                   .caption("H-norm for conjugate gradients, Euclidean norm for recurrent backpropagation."));
}

void run(Laboratory& lab, Outcome& outcome) {
  Excesses excess;
  const std::vector<double> conditions{10, 100, 1000, 10000};
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const auto random = [&](std::uint64_t draw) { return lab.vector(Solvers::size, 100 * i + 10 + draw); };
    Solvers solvers(lab, conditions[i], 100 * i);
    for (std::uint64_t draw = 0; draw < 5; ++draw) excess.see_random(solvers, random(draw));
    excess.see_worst(solvers);
    if (conditions[i] == 100 || conditions[i] == 10000) show(solvers, random(0), outcome);
  }
  // Rounding may take the last digits of an error of 10⁻⁷.
  outcome.at_most("CG: error over its bound, the largest", 1 + 1e-6, excess.conjugate);
  outcome.at_most("CG, iterate of smallest residual: error over √κ times the bound", 1, excess.returned_weak);
  outcome.at_most("RBP, α = 2/(μ + L): error over its bound, random g", 1 + 1e-6, excess.best);
  outcome.at_most("RBP, α = 1/L: error over its bound, random g", 1 + 1e-6, excess.shorter);
  outcome.at_most("RBP, α = 2/(μ + L), extreme eigenvectors: error over rate, minus 1", 1e-6,
                  excess.equality);
  outcome.at_most("RBP, α = 1/L, lowest eigenvector: error over rate, minus 1", 1e-6, excess.equality_short);
  outcome.note(fmt::format(
      "The bound is for the K-th iterate. The solver returns the one with the smallest residual so far, "
      "whose error in the H-norm may be larger: here up to {:.2f} of the bound, and never more than √κ "
      "times it.",
      excess.returned));
  outcome.measured =
      fmt::format("≤ {:.2f}, {:.2f}, {:.2f} of bounds; = ± {:.0e}", excess.conjugate, excess.best,
                  excess.shorter, std::max(excess.equality, excess.equality_short));
}

}  // namespace of_convergence_rates
}  // namespace

const Claim convergence_rates{
    .name = "convergence-rates",
    .title = "How fast the two solvers of phase 2 converge",
    .place = "Section 3.1 and Section 4.2",
    .statement =
        "On the quadratic form ½πHπᵀ − gπᵀ with condition number κ the error of conjugate gradients after "
        "K iterations is at most 2((√κ − 1)/(√κ + 1))^K of the first, in the H-norm; that of recurrent "
        "backpropagation at most ((κ − 1)/(κ + 1))^K with α = 2/(μ + L) and (1 − 1/κ)^K with α = 1/L, and "
        "for some g it is exactly that.",
    .protocol =
        "H with |φ| = 60, random eigenvectors and log-spaced eigenvalues, κ = 10, 10², 10³, 10⁴. For five "
        "random g each, and for the worst ones, the iterates π_K for K on a geometric grid up to where "
        "the bound is 10⁻⁷ of the first, or 2000; those of conjugate gradients from the search "
        "directions. Worst g for recurrent backpropagation: an extreme eigenvector of H, or both.",
    .truth =
        "π* = gH⁻¹ from the eigenvectors that H was made of; the bounds are those of Chebyshev "
        "polynomials and of the spectral radius of I − αH.",
    .slip = "",
    .expected = "no bound exceeded; equality at the worst g",
    .run = of_convergence_rates::run};

}  // namespace claims
