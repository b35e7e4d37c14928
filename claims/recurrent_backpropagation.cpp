#include "catalogue.hpp"
#include "claim.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <bilevel/problems/registry.hpp>

#include "recurrent_net.hpp"
#include "root.hpp"

namespace claims {
namespace {
namespace of_recurrent_backpropagation {

using Iterates = std::vector<Vec>;

/// π₁ … π_K from π₀ = 0, by hand. `curvature` multiplies π from the left by its transposed product.
Iterates by_hand(bilevel::Curvature<Vec>& curvature, const Vec& g, double alpha, int count) {
  Iterates iterates;
  Vec pi = Vec::Zero(g.size()), product(g.size());
  for (int k = 0; k < count; ++k) {
    curvature.transpose_times(pi, product);
    pi = pi - alpha * (product - g);
    iterates.push_back(pi);
  }
  return iterates;
}

Vec by_library(const Laboratory& lab, bilevel::Curvature<Vec>& curvature, bool symmetric, const Vec& g,
               double alpha, long count) {
  bilevel::CurvatureOperator<Vec> a(curvature, symmetric, true);
  return lab.adjoint(neumann(alpha, count))->solve(a, g, nullptr).x;
}

/// The largest distance of the two over 60 steps, relative to the largest iterate.
double iterates_apart(const Laboratory& lab, bilevel::Curvature<Vec>& curvature, bool symmetric, const Vec& g,
                      double alpha) {
  const Iterates hand = by_hand(curvature, g, alpha, 60);
  double apart = 0, size = 0;
  for (const Vec& pi : hand) keep_worst(size, pi.norm());
  for (std::size_t k = 0; k < hand.size(); ++k)
    keep_worst(apart, (by_library(lab, curvature, symmetric, g, alpha, long(k) + 1) - hand[k]).norm());
  return apart / size;
}

/// A net at an equilibrium φ of our choice, where diag(s)·W is a matrix of our choice.
RecurrentNet net_around(const Laboratory& lab, const Vec& phi, const Vec& theta, const Mat& gain,
                        std::uint64_t first) {
  const Vec s = 1 - phi.array().square();
  const Mat w = s.cwiseInverse().asDiagonal() * gain, u = lab.matrix(phi.size(), theta.size(), first);
  const Vec b = phi.array().atanh().matrix() - w * phi - u * theta;
  return {w, u, b, 0.5 * lab.vector(phi.size(), first + 1)};
}

void run(Laboratory& lab, Outcome& outcome) {
  double worst_symmetric = 0, worst_net = 0;
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    const auto problem =
        bilevel::problems::make(draw % 2 ? "quadratic" : "log-cosh",
                                {.phi = 8, .theta = 3, .condition = 30, .seed = lab.seed(10 * draw)});
    const Vec theta = problem->initial_theta() + lab.vector(3, 10 * draw + 1), phi = settled(*problem, theta);
    Vec g(8);
    problem->outer(phi, theta, {.phi = &g});
    const auto curvature = lab.curvature(*problem, phi, theta);
    const double alpha = 1 / problem->constants(theta, phi, bilevel::everywhere).smoothness;
    keep_worst(worst_symmetric, iterates_apart(lab, *curvature, true, g, alpha));
  }
  outcome.at_most("by hand against the library, 60 iterates, minima", 1e-12, worst_symmetric);

  // Nets: one equilibrium each, J = I − diag(s)W.
  double worst_solution = 0, worst_gradient = 0, worst_rate = 0;
  int transient = 0, diverged = 0;
  std::vector<double> chart_x, chart_normal, chart_transient, chart_law, chart_unstable;
  for (int i = 1; i <= 100; ++i) chart_x.push_back(i);
  for (std::uint64_t draw = 0; draw < 70; ++draw) {
    const std::uint64_t number = 1000 + 10 * draw;
    const Vec theta = lab.vector(3, number + 5);
    Vec phi = 0.5 * lab.vector(8, number + 6).array().tanh();
    const bool contraction = draw < 25, unstable = draw >= 50;
    Mat gain = lab.matrix(8, 8, number + 7);
    if (!contraction && !unstable) gain.triangularView<Eigen::StrictlyUpper>() *= 2;
    gain *= (unstable ? 1.2 : 0.9) / spectral_radius(gain);
    RecurrentNet net =
        contraction ? random_net(lab, 8, 3, 0.9, number) : net_around(lab, phi, theta, gain, number);
    phi = root(net, theta, 0, contraction ? net.initial_phi() : phi);
    Vec g(8);
    net.outer(phi, theta, {.phi = &g});
    const auto curvature = lab.curvature(net, phi, theta);
    const Mat jacobian = bilevel::dense_matrix(*curvature, phi);
    const Vec pi = jacobian.transpose().partialPivLu().solve(g);
    const double radius = spectral_radius(Mat::Identity(8, 8) - jacobian);
    const Iterates hand = by_hand(*curvature, g, 1, 2000);
    std::vector<double> distance;
    for (int i = 0; i < 100; ++i) distance.push_back((hand[std::size_t(i)] - pi).norm() / pi.norm());
    if (unstable) {
      diverged += hand.back().norm() > 1e6 * pi.norm() || !hand.back().allFinite();
      if (draw == 50) chart_unstable = distance;
      continue;
    }
    keep_worst(worst_net, iterates_apart(lab, *curvature, false, g, 1));
    const double norm = bilevel::dense_spectrum(Mat::Identity(8, 8) - jacobian, false).largest;
    transient += norm > 1;
    const Vec solved = by_library(lab, *curvature, false, g, 1, 2000);
    keep_worst(worst_solution, (solved - pi).norm() / pi.norm());
    // ‖(I − J)^K‖^(1/K) tends to the spectral radius; so does the decay of the error over many steps.
    const double early = (hand[149] - pi).norm(), late = (hand[199] - pi).norm();
    if (late > 1e-12 * pi.norm()) keep_worst(worst_rate, std::pow(late / early, 1.0 / 50) - radius);
    if (contraction) {
      Vec cross(3);
      curvature->cross_times(solved, cross);
      const Mat truth = differences(
          [&](const Vec& at) { return Vec(Vec::Constant(1, net.outer(root(net, at, 0, phi), at, {}))); },
          theta, 2e-3);
      keep_worst(worst_gradient, (-cross - truth.transpose()).norm() / truth.norm());
    }
    if (draw == 0) chart_normal = distance;
    if (draw == 25) {
      chart_transient = distance;
      for (const double k : chart_x) chart_law.push_back(std::pow(radius, k));
    }
  }
  outcome.at_most("by hand against the library, 60 iterates, nets", 1e-12, worst_net);
  outcome.at_most("2000 steps against π = gJ⁻¹, J not symmetric, relative", 1e-9, worst_solution);
  outcome.at_most("−π∂θf against differences of the whole solve, relative", 1e-8, worst_gradient);
  outcome.check("nets with ‖I − J‖ > 1 among those that converge", "≥ 25 of 50",
                fmt::format("{} of 50", transient), transient >= 25);
  outcome.at_most("decay per step late in the run beyond the spectral radius", 0.05,
                  std::max(0.0, worst_rate));
  outcome.all_of("nets with spectral radius 1.2 whose iterates diverge", diverged, 20);

  outcome.show(
      Chart("Recurrent backpropagation at equilibria of recurrent nets, α = 1")
          .x("step k")
          .y("‖π_k − π‖ / ‖π‖", true)
          .line("‖W‖ = 0.9", chart_x, chart_normal)
          .line("‖I − J‖ > 1, spectral radius 0.9", chart_x, chart_transient)
          .line("0.9^k", chart_x, chart_law, true)
          .line("spectral radius 1.2", chart_x, chart_unstable)
          .caption("The spectral radius of I − J decides, not its norm, which only allows a transient."));
  outcome.measured =
      fmt::format("{:.0e}, {:.0e}; πJ = g to {:.0e}", worst_symmetric, worst_net, worst_solution);
}

}  // namespace of_recurrent_backpropagation
}  // namespace

const Claim recurrent_backpropagation{
    .name = "recurrent-backpropagation",
    .title = "Gradient descent on the quadratic form is recurrent backpropagation",
    .place = "Section 3.1, Equation (recurrent backpropagation) and its footnote",
    .statement =
        "Gradient descent on the quadratic form is the algorithm of Almeida and Pineda, π ← π − "
        "α(π∂φ²L_in − ∂φL_out). Read as an iteration for the linear system πJ = ∂φL_out it also serves "
        "equilibria that minimise nothing, whose J is not symmetric.",
    .protocol =
        "The update written out by hand, 60 steps, against the library's solver cut after each number of "
        "steps: 25 quadratic and 25 log-cosh problems with |φ| = 8 at α = 1/L, and 50 recurrent nets φ = "
        "tanh(Wφ + Uθ + b) of 8 units at α = 1, half of them with ‖W‖ = 0.9, half with ‖diag(s)W‖ > 1 and "
        "spectral radius 0.9 at the equilibrium. Then 2000 steps, and for 20 nets with spectral radius "
        "1.2 as many.",
    .truth =
        "The iteration by hand; π = gJ⁻¹ by LU; ∇θ by central differences of the whole solve where ‖W‖ = "
        "0.9; the spectral radius of I − αJ from its eigenvalues.",
    .slip = "",
    .expected = "iterates equal to 1e-12; solves πJ = g",
    .run = of_recurrent_backpropagation::run};

}  // namespace claims
