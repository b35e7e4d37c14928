#pragma once

#include <cmath>
#include <functional>
#include <limits>

#include <Eigen/LU>

#include <bilevel/gradient/impl/spectrum.hpp>

#include "laboratory.hpp"

// Roots of equilibria that need not be minima, and derivatives of whole solves by differences.
namespace claims {

/// ∂f/∂x at x, one column an element of x, by central differences of eighth order: the truncation error is
/// about h⁸, the rounding error about 1e-16/h.
inline Mat differences(const std::function<Vec(const Vec&)>& f, const Vec& x, double h) {
  constexpr double weights[] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
  Mat jacobian;
  for (Index i = 0; i < x.size(); ++i) {
    Vec column;
    for (int k = 1; k <= 4; ++k) {
      Vec up = x, down = x;
      up[i] += k * h;
      down[i] -= k * h;
      const Vec term = weights[k - 1] / (up[i] - x[i]) * k * (f(up) - f(down));
      column = k == 1 ? term : Vec(column + term);
    }
    if (i == 0) jacobian.resize(column.size(), x.size());
    jacobian.col(i) = column;
  }
  return jacobian;
}

/// The root of residual + β·∂φ L_out that Newton's method without any safeguard reaches from `start`: the
/// stationary path of a saddle is followed as well as that of a minimum. NaN where it does not settle.
inline Vec root(bilevel::Equilibrium<Vec>& problem, const Vec& theta, double beta, Vec phi) {
  Vec residual(phi.size()), outer(phi.size());
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  const auto evaluate = [&](const Vec& at) {
    problem.residual(at, theta, residual);
    if (beta == 0) return residual.norm();
    problem.outer(at, theta, {.phi = &outer});
    residual += beta * outer;
    return residual.norm();
  };
  Vec best = phi;
  double lowest = evaluate(phi);
  const double scale = 1 + lowest;
  // As far as rounding lets it go: until the residual, once small, does not fall any more.
  for (int step = 0; step < 200; ++step) {
    problem.linearise(phi, theta, beta, curvature);
    phi -= bilevel::dense_matrix(*curvature, phi).partialPivLu().solve(residual);
    const double norm = evaluate(phi);
    if (!(norm < lowest) && lowest < 1e-9 * scale) return best;
    if (norm < lowest) lowest = norm, best = phi;
  }
  return lowest < 1e-9 * scale ? best : Vec(Vec::Constant(phi.size(), bilevel::unknown));
}

}  // namespace claims
