#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <Eigen/Core>

#include <bilevel/problem/check.hpp>
#include <bilevel/problems/reference_problem.hpp>

namespace reference {

using bilevel::Index;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using Long = long double;
using LongVec = Eigen::Matrix<Long, Eigen::Dynamic, 1>;
using LongMat = Eigen::Matrix<Long, Eigen::Dynamic, Eigen::Dynamic>;

inline LongVec widen(const Vec& x) {
  return x.cast<Long>();
}
inline LongMat widen(const Mat& x) {
  return x.cast<Long>();
}

inline Vec random_vector(Index n, std::mt19937_64& engine, double scale = 1) {
  std::normal_distribution<double> normal;
  return scale * Vec::NullaryExpr(n, [&] { return normal(engine); });
}

/// The three quantities of a certificate, evaluated as a certificate does it.
struct Evaluated {
  Vec residual, adjoint, gradient;
};
inline Evaluated evaluate(bilevel::Problem<Vec>& problem, const Vec& phi, const Vec& theta, const Vec& pi) {
  Evaluated e{Vec(phi.size()), Vec(phi.size()), Vec(theta.size())};
  problem.residual(phi, theta, e.residual);
  problem.outer(phi, theta, {.phi = &e.adjoint, .theta = &e.gradient});
  std::unique_ptr<bilevel::Curvature<Vec>> curvature;
  problem.linearise(phi, theta, 0, curvature);
  Vec product(phi.size()), cross(theta.size());
  curvature->transpose_times(pi, product);
  curvature->cross_times(pi, cross);
  e.adjoint -= product;
  e.gradient -= cross;
  return e;
}

/// The same in long double, by formulas of the test's own.
struct Exact {
  LongVec residual, adjoint, gradient;
};

/// Collects error / bound over many draws; no ratio may exceed 1.
class RoundingTally {
 public:
  void add(bilevel::Problem<Vec>& problem, const Vec& phi, const Vec& theta, const Vec& pi,
           const Exact& exact) {
    const Evaluated e = evaluate(problem, phi, theta, pi);
    const bilevel::Rounding bound = problem.rounding(phi, theta, pi);
    compare("residual", widen(e.residual), exact.residual, bound.residual, 0);
    compare("adjoint", widen(e.adjoint), exact.adjoint, bound.adjoint, 1);
    compare("gradient", widen(e.gradient), exact.gradient, bound.gradient, 2);
  }
  void print(const std::string& family) {
    for (std::size_t i = 0; i < 3; ++i) {
      std::ranges::sort(ratios_[i]);
      std::cout << family << ' ' << std::array{"residual", "adjoint ", "gradient"}[i] << ": "
                << ratios_[i].size() << " draws, error / bound median " << ratios_[i][ratios_[i].size() / 2]
                << ", largest " << ratios_[i].back() << '\n';
    }
  }

 private:
  void compare(const char* what, const LongVec& actual, const LongVec& exact, double bound, std::size_t i) {
    const double error = static_cast<double>((actual - exact).norm());
    EXPECT_LE(error, bound) << what;
    ratios_[i].push_back(error == 0 ? 0 : error / bound);
  }
  std::vector<double> ratios_[3];
};

/// check_derivatives at random points for twenty seeds.
inline void expect_derivatives(
    const std::function<std::unique_ptr<bilevel::Problem<Vec>>(std::uint64_t)>& make) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto problem = make(seed);
    std::mt19937_64 engine(seed);
    const Vec phi = random_vector(problem->initial_phi().size(), engine);
    const Vec theta = random_vector(problem->initial_theta().size(), engine);
    const bilevel::CheckReport report = bilevel::check_derivatives(*problem, phi, theta, {.seed = seed});
    EXPECT_TRUE(report.passed()) << report.table();
    EXPECT_TRUE(report.not_offered.empty()) << report.table();
  }
}

/// Fourth-order central differences of a function of θ in long double.
inline LongVec differentiate(const std::function<Long(const LongVec&)>& f, const LongVec& theta,
                             Long h = 1e-4L) {
  LongVec g(theta.size());
  for (Index i = 0; i < theta.size(); ++i) {
    const auto at = [&](Long t) {
      LongVec moved = theta;
      moved[i] += t;
      return f(moved);
    };
    g[i] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  }
  return g;
}

/// A value's scale for a random draw: from 10⁻³ to 10³, since rounding errors depend on sizes.
inline double random_scale(std::mt19937_64& engine) {
  return std::pow(10.0, std::uniform_real_distribution<double>(-3, 3)(engine));
}

}  // namespace reference
