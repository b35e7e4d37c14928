#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <Eigen/Eigenvalues>

#include "recurrent_net.hpp"
#include "root.hpp"
#include "saddle.hpp"

namespace claims {
namespace {
namespace of_stationarity {

/// The gradient of θ ↦ L_out(φ*(θ), θ), all solves by Newton's method from `near`.
Vec true_gradient(bilevel::Equilibrium<Vec>& problem, const Vec& theta, const Vec& near) {
  return differences(
             [&](const Vec& at) {
               return Vec(Vec::Constant(1, problem.outer(root(problem, at, 0, near), at, {})));
             },
             theta, 2e-3)
      .transpose();
}

/// d/dβ ∂θL along the stationary path, by a stencil of the laboratory.
Vec propagation(const Laboratory& lab, Saddle& problem, const Vec& theta, const Vec& phi, double beta) {
  const Weights weights = lab.forward_stencil(5);
  Vec gradient = Vec::Zero(theta.size()), inner(theta.size()), outer(theta.size());
  for (std::size_t i = 0; i < weights.points.size(); ++i) {
    const double t = weights.points[i] * beta;
    const Vec nudged = root(problem, theta, t, phi);
    problem.inner(nudged, theta, {.theta = &inner});
    problem.outer(nudged, theta, {.theta = &outer});
    gradient += weights.coefficients[i] / beta * (inner + t * outer);
  }
  return gradient;
}

/// atanh φ − Wφ − Uθ − b + β(φ − y) = 0: the net of the same name, a gradient where W is symmetric.
struct Rates {
  Mat w, u;
  Vec b, y;

  Vec settle(const Vec& theta, double beta) const {
    Vec phi = Vec::Zero(w.rows());
    for (int k = 0; k < 300; ++k) phi = (w * phi + u * theta + b).array().tanh();
    for (int k = 0; k < 6; ++k)
      phi -= jacobian(phi, beta).partialPivLu().solve(
          Vec(phi.array().atanh().matrix() - w * phi - u * theta - b + beta * (phi - y)));
    return phi;
  }
  Mat jacobian(const Vec& phi, double beta) const {
    Mat j = -w;
    j.diagonal().array() += 1 / (1 - phi.array().square()) + beta;
    return j;
  }
};

struct NudgedNet {
  Vec propagated;  ///< by equilibrium propagation
  Vec truth;       ///< by differences
  Vec transposed;  ///< by implicit differentiation with Jᵀ in place of J
};

NudgedNet nudge_net(const Laboratory& lab, double tau, std::uint64_t first) {
  Mat symmetric = lab.matrix(6, 6, first), skew = lab.matrix(6, 6, first + 1);
  symmetric = (symmetric + symmetric.transpose()).eval();
  skew = (skew - skew.transpose()).eval();
  symmetric *= 0.5 / bilevel::dense_spectrum(symmetric, false).largest;
  skew *= 0.4 / bilevel::dense_spectrum(skew, false).largest;
  const Vec theta = lab.vector(3, first + 2);
  const Rates rates{symmetric + tau * skew, lab.matrix(6, 3, first + 3), 0.3 * lab.vector(6, first + 4),
                    0.5 * lab.vector(6, first + 5)};
  const auto loss = [&](const Vec& at) {
    return Vec(Vec::Constant(1, 0.5 * (rates.settle(at, 0) - rates.y).squaredNorm()));
  };
  const double beta = 1e-3;
  const Weights weights = lab.forward_stencil(5);
  Vec moved = Vec::Zero(6);
  for (std::size_t k = 0; k < weights.points.size(); ++k)
    moved += weights.coefficients[k] / beta * rates.settle(theta, weights.points[k] * beta);
  const Vec phi = rates.settle(theta, 0);
  return {-(rates.u.transpose() * moved), differences(loss, theta, 2e-3).transpose(),
          rates.u.transpose() * rates.jacobian(phi, 0).partialPivLu().solve(phi - rates.y)};
}

/// Ten stationary points with so many negative eigenvalues.
struct TenPoints {
  TenPoints(const Laboratory& lab, Index negative) {
    for (std::uint64_t draw = 0; draw < 10; ++draw)
      see(lab, negative, 1000 + 100 * std::uint64_t(negative) + 10 * draw);
  }

  double implicit_error = 0, propagation_error = 0;  ///< the largest
  int wrong_index = 0;
  int refused = 0, diverged = 0;          ///< CG and gradient descent as phase 2
  int cg_solved = 0, descent_solved = 0;  ///< to 1e-8

 private:
  void see(const Laboratory& lab, Index negative, std::uint64_t number) {
    Saddle problem(lab, 6, 3, negative, number);
    const Vec theta = lab.vector(3, number + 5);
    const Vec phi = root(problem, theta, 0, problem.initial_phi());
    const Vec truth = true_gradient(problem, theta, phi);
    const Vec eigenvalues = bilevel::dense_matrix(*lab.curvature(problem, phi, theta), phi)
                                .selfadjointView<Eigen::Lower>()
                                .eigenvalues();
    wrong_index += (eigenvalues.array() < 0).count() != negative;
    Settling newton(problem,
                    [&](const Vec& at, double beta, const Vec&) { return root(problem, at, beta, phi); });
    const auto estimate = [&](const char* name) {
      return lab.estimator(name, problem, newton, {.adjoint = {.relative_tolerance = 1e-13}})
          ->estimate(theta, {});
    };
    for (const char* name : {"exact", "implicit-direct", "implicit-minres", "implicit-gmres"})
      keep_worst(implicit_error, relative(estimate(name).gradient, truth));
    keep_worst(propagation_error, relative(propagation(lab, problem, theta, phi, 1e-3), truth));
    const auto cg = estimate("implicit-cg"), descent = estimate("implicit-neumann");
    refused += cg.adjoint_status == bilevel::Status::negative_curvature ||
               cg.adjoint_status == bilevel::Status::breakdown;
    diverged += descent.adjoint_status == bilevel::Status::diverged;
    cg_solved += relative(cg.gradient, truth) < 1e-8;
    descent_solved += relative(descent.gradient, truth) < 1e-8;
  }
};

/// Saddles, with 0 (a minimum) to 6 (a maximum) negative eigenvalues.
struct StationaryPoints {
  static constexpr int minima = 10, saddles = 60;

  explicit StationaryPoints(const Laboratory& lab) {
    for (Index negative = 0; negative <= 6; ++negative) by_index.emplace_back(lab, negative);
    for (const TenPoints& points : by_index) {
      keep_worst(worst_implicit, points.implicit_error);
      keep_worst(worst_propagation, points.propagation_error);
      wrong_index += points.wrong_index;
      if (&points == &by_index.front()) continue;
      cg_refused += points.refused;
      descent_diverged += points.diverged;
    }
  }
  void check(Outcome& outcome) const {
    outcome.all_of("stationary points with the index that H has", 70 - wrong_index, 70);
    outcome.at_most("implicit differentiation at stationary points, relative error", 1e-8, worst_implicit);
    outcome.at_most("d/dβ ∂θL along the stationary path, relative error", 1e-8, worst_propagation);
    outcome.all_of("saddles and maxima at which CG reports negative curvature", cg_refused, saddles);
    outcome.all_of("saddles and maxima at which gradient descent in phase 2 diverges", descent_diverged,
                   saddles);
    outcome.all_of("minima at which CG gives the gradient", by_index[0].cg_solved, minima);
    outcome.all_of("minima at which gradient descent in phase 2 gives the gradient",
                   by_index[0].descent_solved, minima);
  }
  void show(Outcome& outcome) const {
    Table table("Stationary points with k negative eigenvalues, 10 draws each",
                {"k", "implicit, worst error", "propagation, worst error", "CG: negative curvature",
                 "gradient descent: diverged"});
    for (std::size_t k = 0; k < by_index.size(); ++k)
      table.row({fmt::format("{}", k), fmt::format("{:.1e}", by_index[k].implicit_error),
                 fmt::format("{:.1e}", by_index[k].propagation_error),
                 fmt::format("{} of 10", by_index[k].refused),
                 fmt::format("{} of 10", by_index[k].diverged)});
    outcome.show(table);
  }

  std::vector<TenPoints> by_index;
  double worst_implicit = 0, worst_propagation = 0;
  int wrong_index = 0, cg_refused = 0, descent_diverged = 0;  ///< the last two at saddles and maxima
};

/// The largest error of implicit differentiation at equilibria that minimise nothing.
double error_at_nets(const Laboratory& lab) {
  double worst = 0;
  for (std::uint64_t draw = 0; draw < 20; ++draw) {
    RecurrentNet net = random_net(lab, 6, 3, 0.9, 5000 + 10 * draw);
    const Vec theta = lab.vector(3, 5005 + 10 * draw);
    const auto inner = bilevel::make_inner_solver<Vec>(
        "anderson", static_cast<bilevel::Equilibrium<Vec>&>(net), {.gradient_tolerance = 1e-14});
    const Vec truth = true_gradient(net, theta, inner->solve(theta, 0, net.initial_phi()).phi);
    for (const char* name : {"exact", "implicit-direct", "implicit-gmres", "implicit-bicgstab"})
      keep_worst(worst, relative(lab.estimator(name, net, *inner, {.adjoint = {.relative_tolerance = 1e-13}})
                                     ->estimate(theta, {})
                                     .gradient,
                                 truth));
  }
  return worst;
}

/// Equilibrium propagation solves Jπ = g where πJ = g is meant: checked, and drawn.
Chart check_asymmetry(const Laboratory& lab, Outcome& outcome) {
  double worst_transposed = 0;
  const auto error = [&](double tau) {
    std::vector<double> sample;
    for (std::uint64_t draw = 0; draw < 11; ++draw) {
      const NudgedNet nudged = nudge_net(lab, tau, 7000 + 10 * draw);
      sample.push_back(relative(nudged.propagated, nudged.truth));
      keep_worst(worst_transposed, relative(nudged.propagated, nudged.transposed));
    }
    return median(sample);
  };
  outcome.at_most("nudged nets with symmetric W, median relative error", 1e-8, error(0));
  const std::vector<double> asymmetry = geometric(1e-3, 1, 13);
  std::vector<double> errors, law;
  for (const double tau : asymmetry) errors.push_back(error(tau));
  const std::vector<double> small(asymmetry.begin(), asymmetry.begin() + 6),
      small_errors(errors.begin(), errors.begin() + 6);
  outcome.near("order in τ of their error with W = S + τ(A − Aᵀ)", 1, slope(small, small_errors), 0.05);
  outcome.at_least("their median relative error at τ = 1", 0.05, errors.back());
  outcome.at_most("their distance from the formula with Jᵀ in place of J", 1e-8, worst_transposed);

  for (const double tau : asymmetry) law.push_back(errors.front() * tau / asymmetry.front());
  return Chart("Equilibrium propagation where there is no loss")
      .x("asymmetry τ of the weights", true)
      .y("relative error of the gradient", true)
      .dots("nudged nets, β = 1e-3, median of 11", asymmetry, errors)
      .line("τ", asymmetry, law, true)
      .caption(
          "The nudged state moves by −J⁻¹g; the gradient needs −J⁻ᵀg. The two agree only where "
          "J is symmetric, that is, where the equilibrium is a stationary point of a loss.");
}

void run(Laboratory& lab, Outcome& outcome) {
  const StationaryPoints points(lab);
  points.check(outcome);
  const double worst_net = error_at_nets(lab);
  outcome.at_most("implicit differentiation of recurrent nets, relative error", 1e-8, worst_net);
  const Chart asymmetry = check_asymmetry(lab, outcome);

  points.show(outcome);
  outcome.show(asymmetry);
  outcome.note(
      "At a saddle a solver of phase 2 must not minimise: direct, MINRES and GMRES give the gradient, "
      "conjugate "
      "gradient and gradient descent report what they met. Phase 1 must not minimise either.");
  outcome.measured = fmt::format("{:.0e}, {:.0e}, nets {:.0e}; {} of {} refuse", points.worst_implicit,
                                 points.worst_propagation, worst_net,
                                 points.cg_refused + points.descent_diverged, 2 * StationaryPoints::saddles);
}

}  // namespace of_stationarity
}  // namespace

const Claim stationarity{
    .name = "stationarity",
    .title = "Stationarity suffices, minimality is not needed",
    .place = "Section 2.2, last paragraph",
    .statement =
        "The implicit function theorem and the formulas of both methods need ∂φL_in(φ*, θ) = 0 and an "
        "invertible Hessian, not a minimum. They hold at saddle points and maxima, and implicit "
        "differentiation at equilibria that minimise nothing. What does not carry over are solvers that "
        "minimise: gradient descent and conjugate gradient in phase 2; and equilibrium propagation needs "
        "a loss.",
    .protocol =
        "L_in = ½φᵀHφ + ½Σ ln cosh(φ − Jθ)_i with |φ| = 6, |θ| = 3 and 0 to 6 negative eigenvalues of H, "
        "10 draws each: φ* by Newton's method on ∂φL_in = 0, then the estimators exact, direct, MINRES "
        "and GMRES; d/dβ ∂θL by the five-point stencil at β = 1e-3 along the stationary path φ_β, "
        "followed by Newton's method; then CG and recurrent backpropagation as phase 2. 20 recurrent nets "
        "φ = tanh(Wφ + Uθ + b) of 6 units, ‖W‖ = 0.9. The same nets as atanh φ − Wφ − Uθ − b = 0 with W = "
        "S + τ(A − Aᵀ), S symmetric, for 13 values of τ, 11 draws each, nudged by β(φ − y).",
    .truth =
        "Central differences of eighth order of θ ↦ L_out(φ*(θ), θ), every φ* found afresh by Newton's "
        "method.",
    .slip =
        "“All methods we present here only require stationarity” holds for the formulas. Of the solvers, "
        "recurrent backpropagation diverges and conjugate gradient meets negative curvature at every "
        "saddle.",
    .expected = "1e-8 at saddles and nets; GD, CG refuse",
    .run = of_stationarity::run};

}  // namespace claims
