#pragma once

#include <cmath>

#include <Eigen/LU>

#include <bilevel/problems/log_cosh.hpp>

#include "laboratory.hpp"

namespace claims {

/// φ*, π* and ∇θ of a log-cosh problem from the formulas of its documentation, by dense LU: the truth that no
/// instrument of the laboratory has touched.
struct LogCoshTruth {
  LogCoshTruth(bilevel::problems::LogCosh& problem, const Vec& theta) : phi(settled(problem, theta)) {
    const Vec inside = phi - problem.coupling() * theta;
    const Vec outside = phi - problem.target() - problem.outer_coupling() * theta;
    const Vec bend = problem.epsilon() * inside.unaryExpr([](double x) { return sech(x) * sech(x); });
    const Vec force = outside.unaryExpr([](double x) { return std::tanh(x); });
    hessian = problem.hessian();
    hessian.diagonal() += bend;
    pi = hessian.fullPivLu().solve(force);
    // −πχ = π·ε diag s(φ − Jθ)·J and ∂θ L_out = −Kᵀ tanh(φ − y − Kθ).
    gradient =
        problem.coupling().transpose() * bend.cwiseProduct(pi) - problem.outer_coupling().transpose() * force;
  }

  Vec phi, pi, gradient;
  Mat hessian;

 private:
  static double sech(double x) { return 1 / std::cosh(x); }
};

}  // namespace claims
