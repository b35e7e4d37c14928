#include "catalogue.hpp"
#include "claim.hpp"

#include <cmath>

#include <fmt/format.h>
#include <Eigen/QR>

namespace claims {

static void run(Laboratory& lab, Outcome& outcome);

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
    .run = run};

namespace {

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

struct Curve {
  std::vector<double> k, error;
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

}  // namespace

static void run(Laboratory& lab, Outcome& outcome) {
  const Index size = 60;
  double worst_conjugate = 0, worst_series = 0, worst_short = 0, equality = 0, equality_short = 0,
         worst_returned = 0, worst_returned_weak = 0;
  const std::vector<double> conditions{10, 100, 1000, 10000};
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const double kappa = conditions[i];
    Matrix h(lab, size, kappa, 100 * i);
    const double mu = h.smallest(), smoothness = h.largest(), root = std::sqrt(kappa);
    const double conjugate_rate = (root - 1) / (root + 1), best_rate = (kappa - 1) / (kappa + 1),
                 short_rate = 1 - 1 / kappa;
    const auto conjugate = [&](const Vec& g, bool returned) {
      const std::vector<long> ks = grid(conjugate_rate);
      bilevel::ConjugateGradientOptions options;
      options.relative_tolerance = 1e-300;
      options.ritz_steps = 0;
      const auto solve = [&](long k) {
        options.max_iterations = k;
        return lab.adjoint(std::make_unique<bilevel::ConjugateGradient<Vec>>(options))
            ->solve(h, g, nullptr)
            .x;
      };
      if (returned) return errors(h, g, ks, true, solve);
      // The K-th iterate minimises the quadratic form over the first K search directions, which are what H is
      // multiplied by.
      h.seen.clear();
      solve(ks.back());
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
    };
    const auto series = [&](const Vec& g, double step, double rate) {
      return errors(h, g, grid(rate), false, [&](long k) {
        bilevel::NeumannOptions options;
        options.step = step;
        options.terms = k;
        return lab.adjoint(std::make_unique<bilevel::Neumann<Vec>>(options))->solve(h, g, nullptr).x;
      });
    };
    const auto excess = [](const Curve& curve, double factor, double rate) {
      double most = 0;
      for (std::size_t n = 0; n < curve.k.size(); ++n)
        keep_worst(most, curve.error[n] / (factor * std::pow(rate, curve.k[n])));
      return most;
    };
    const auto inequality = [](const Curve& curve, double rate) {
      double most = 0;
      for (std::size_t n = 0; n < curve.k.size(); ++n)
        keep_worst(most, std::abs(curve.error[n] / std::pow(rate, curve.k[n]) - 1));
      return most;
    };
    const double best_step = 2 / (mu + smoothness);
    for (std::uint64_t draw = 0; draw < 5; ++draw) {
      const Vec g = lab.vector(size, 100 * i + 10 + draw);
      keep_worst(worst_conjugate, excess(conjugate(g, false), 2, conjugate_rate));
      keep_worst(worst_returned, excess(conjugate(g, true), 2, conjugate_rate));
      keep_worst(worst_returned_weak, excess(conjugate(g, true), 2 * root, conjugate_rate));
      keep_worst(worst_series, excess(series(g, best_step, best_rate), 1, best_rate));
      keep_worst(worst_short, excess(series(g, 1 / smoothness, short_rate), 1, short_rate));
    }
    // At α = 2/(μ + L) both ends of the spectrum shrink by the same factor, with opposite signs.
    const Vec low = h.vectors.col(0), high = h.vectors.col(size - 1), both = low + high;
    for (const Vec* g : {&low, &high, &both})
      keep_worst(equality, inequality(series(*g, best_step, best_rate), best_rate));
    keep_worst(equality_short, inequality(series(low, 1 / smoothness, short_rate), short_rate));
    if (kappa != 100 && kappa != 10000) continue;
    const Vec g = lab.vector(size, 100 * i + 10);
    const Curve c = conjugate(g, false), s = series(g, best_step, best_rate),
                w = series(low, best_step, best_rate), t = series(g, 1 / smoothness, short_rate);
    const auto bound = [](const Curve& curve, double factor, double rate) {
      std::vector<double> y;
      for (const double k : curve.k) y.push_back(factor * std::pow(rate, k));
      return y;
    };
    outcome.show(
        Chart(fmt::format("Error of π_K at κ = {:.0f}", kappa))
            .x("iterations K", true)
            .y("error, relative to the first", true)
            .y_range(1e-8, 3)
            .dots("conjugate gradients", c.k, c.error)
            .line("2((√κ − 1)/(√κ + 1))^K", c.k, bound(c, 2, conjugate_rate), true)
            .dots("RBP, α = 2/(μ + L)", s.k, s.error)
            .dots("the same, worst g", w.k, w.error)
            .line("((κ − 1)/(κ + 1))^K", s.k, bound(s, 1, best_rate), true)
            .dots("RBP, α = 1/L", t.k, t.error)
            .line("(1 − 1/κ)^K", t.k, bound(t, 1, short_rate), true)
            .caption("H-norm for conjugate gradients, Euclidean norm for recurrent backpropagation."));
  }
  // Rounding may take the last digits of an error of 10⁻⁷.
  outcome.at_most("CG: error over its bound, the largest", 1 + 1e-6, worst_conjugate);
  outcome.at_most("CG, iterate of smallest residual: error over √κ times the bound", 1, worst_returned_weak);
  outcome.at_most("RBP, α = 2/(μ + L): error over its bound, random g", 1 + 1e-6, worst_series);
  outcome.at_most("RBP, α = 1/L: error over its bound, random g", 1 + 1e-6, worst_short);
  outcome.at_most("RBP, α = 2/(μ + L), extreme eigenvectors: error over rate, minus 1", 1e-6, equality);
  outcome.at_most("RBP, α = 1/L, lowest eigenvector: error over rate, minus 1", 1e-6, equality_short);
  outcome.note(fmt::format(
      "The bound is for the K-th iterate. The solver returns the one with the smallest residual so far, "
      "whose error in the H-norm may be larger: here up to {:.2f} of the bound, and never more than √κ "
      "times it.",
      worst_returned));
  outcome.measured = fmt::format("≤ {:.2f}, {:.2f}, {:.2f} of bounds; = ± {:.0e}", worst_conjugate,
                                 worst_series, worst_short, std::max(equality, equality_short));
}

}  // namespace claims
