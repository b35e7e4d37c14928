#pragma once

#include <cmath>
#include <functional>

#include <Eigen/LU>

#include "convex_pair.hpp"
#include "laboratory.hpp"

// Phases that end where a claim wants them to: the truth plus an error of known size and direction.
namespace claims {

/// x/‖x‖; zero stays zero.
inline Vec unit(const Vec& x) {
  const double size = x.norm();
  return size > 0 ? Vec(x / size) : x;
}

/// A uniformly distributed direction.
inline Vec direction(Index size, std::mt19937_64& engine) {
  return unit(Vec::NullaryExpr(size, [&](Index) { return std::normal_distribution<>()(engine); }));
}

/// The two-point estimate of equilibrium propagation from the states `free` and `nudged`.
inline Vec propagated(const Laboratory& lab, bilevel::Problem<Vec>& problem, const Vec& theta, double beta,
                      const Vec& free, const Vec& nudged) {
  Settling phases(problem, [&](const Vec&, double t, const Vec&) { return t == 0 ? free : nudged; });
  const bilevel::EstimatorOptions options{.certificate = {.enabled = false}, .beta = beta};
  return lab.estimator("ep-forward-2", problem, phases, options)->estimate(theta, {.phi = free}).gradient;
}

/// Directions of the errors of the two phases at β that add up with the bias: to first order they contribute
/// (χ_βᵀe_β − χ₀ᵀe₀)/β to the estimate, with χ_β = ∂θ∂φ(L_in + βL_out) at φ_β. Where there is no bias, those
/// to which the nudged phase is most sensitive.
struct Adversary {
  Adversary(ConvexPair& problem, const Vec& theta, double beta, const Vec& phi0, const Vec& phi_beta) {
    const Mat chi = problem.cross(phi_beta, theta, 1, beta), chi0 = problem.cross(phi0, theta, 1, 0);
    Vec in0(theta.size()), in(theta.size()), out(theta.size());
    problem.inner(phi0, theta, {.theta = &in0});
    problem.inner(phi_beta, theta, {.theta = &in});
    problem.outer(phi_beta, theta, {.theta = &out});
    const Vec bias = (in - in0) / beta + out - problem.gradient_at(phi0, theta);
    const Vec along = bias.norm() > 1e-9 ? unit(bias) : most_amplified(chi);
    free = -unit(chi0 * along);
    nudged = unit(chi * along);
  }
  Vec free, nudged;
};

/// Phase 2 of implicit differentiation, solved exactly at φ̂ and then moved by an offset.
class OffsetAdjoint final : public bilevel::AdjointSolver<Vec> {
 public:
  explicit OffsetAdjoint(Vec offset) : offset_(std::move(offset)) {}
  std::string_view name() const override { return "offset"; }
  bilevel::LinearSolution<Vec> solve(bilevel::LinearOperator<Vec>& a, const Vec& b, const Vec*) override {
    Mat matrix;
    if (!a.dense(matrix)) throw std::logic_error("the offset solver needs the whole matrix");
    bilevel::LinearSolution<Vec> solution;
    solution.x = matrix.partialPivLu().solve(b) + offset_;
    solution.residual_norm = (b - matrix * solution.x).norm();
    solution.rhs_norm = b.norm();
    solution.status = bilevel::Status::converged;
    return solution;
  }

 private:
  Vec offset_;
};

/// Where a function of one valley in ln x has its minimum between two x: golden section, as far as rounding
/// of the values lets it go.
inline double valley(const std::function<double(double)>& f, double from, double to) {
  const double golden = 0.5 * (std::sqrt(5.0) - 1);
  double a = std::log(from), b = std::log(to), c = b - golden * (b - a), d = a + golden * (b - a);
  double at_c = f(std::exp(c)), at_d = f(std::exp(d));
  while (b - a > 1e-8) {
    if (at_c < at_d) {
      b = d, d = c, at_d = at_c;
      at_c = f(std::exp(c = b - golden * (b - a)));
    } else {
      a = c, c = d, at_c = at_d;
      at_d = f(std::exp(d = a + golden * (b - a)));
    }
  }
  return std::exp(0.5 * (a + b));
}

}  // namespace claims
