// Where a theorem says how fast a method is, it is that fast.
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace rate_test {

using inner_tests::Vec;

constexpr double condition = 100;

/// The error after exactly k iterations, relative to that of the start.
double error_after(long k, std::unique_ptr<Step<Vec>> step, std::uint64_t seed) {
  auto problem = problems::Quadratic::random({.phi = 30, .theta = 4, .condition = condition, .seed = seed});
  const Vec theta = Vec::Ones(4), answer = problem.settled(theta, 0), start = problem.initial_phi();
  Minimiser<Vec> solver(problem, std::move(step), {.gradient_tolerance = 0, .max_iterations = k});
  const auto s = solver.solve(theta, 0, start);
  EXPECT_EQ(s.iterations, k) << s.message;
  return (s.phi - answer).norm() / (start - answer).norm();
}

TEST(Rate, GradientDescentContractsByOneMinusOneOverKappa) {
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const long k : {1, 10, 100, 500}) {
      SCOPED_TRACE(fmt::format("seed {}, k {}", seed, k));
      const double bound = std::pow(1 - 1 / condition, k);
      const double error = error_after(k, std::make_unique<GradientDescent<Vec>>(), seed);
      EXPECT_LE(error, bound * (1 + 1e-10));
      // And no faster than its slowest eigendirection, once the others have died: it is not another method.
      if (k == 500) {
        EXPECT_GE(error, 1e-3 * bound);
      }
    }
}

TEST(Rate, HeavyBallReachesPolyaksRate) {
  const double rate = (std::sqrt(condition) - 1) / (std::sqrt(condition) + 1);
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const long k : {10, 50, 100}) {
      SCOPED_TRACE(fmt::format("seed {}, k {}", seed, k));
      // The double root at both ends of the spectrum gives the factor 1 + 2k.
      EXPECT_LE(error_after(k, std::make_unique<HeavyBall<Vec>>(), seed),
                (1 + 2.0 * static_cast<double>(k)) * std::pow(rate, k));
    }
}

TEST(Rate, NesterovReachesItsRate) {
  const double rate = 1 - 1 / std::sqrt(condition);
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const long k : {10, 50, 200}) {
      SCOPED_TRACE(fmt::format("seed {}, k {}", seed, k));
      // ½μ‖x_k − φ*‖² ≤ rateᵏ·(L_0 − L* + ½μ‖e‖²) ≤ rateᵏ·½(L + μ)‖e‖², and φ_k lies within three times the
      // larger of the errors of x_k and x_{k−1}.
      EXPECT_LE(error_after(k, std::make_unique<Nesterov<Vec>>(), seed),
                3 * std::sqrt((condition + 1) * std::pow(rate, k - 1)));
    }
}

TEST(Rate, NewtonNeedsOneIterationOnAQuadratic) {
  auto problem = problems::Quadratic::random({.phi = 30, .theta = 4, .condition = 1e4, .seed = 5});
  const auto s = make_inner_solver("newton", problem)->solve(Vec::Ones(4), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::converged);
  EXPECT_EQ(s.iterations, 1);
  EXPECT_EQ(s.cost.dense_hessians, 1);
  EXPECT_EQ(s.cost.factorizations, 1);
}

TEST(Rate, NewtonConvergesQuadratically) {
  auto problem = inner_tests::double_well(3);
  double before = 0;
  for (long k = 2; k <= 6; ++k) {
    auto solver = make_inner_solver("newton", problem, {.gradient_tolerance = 0, .max_iterations = k});
    const auto s = solver->solve(Vec::Ones(1), 0, Vec::Ones(3));
    const double error = (s.phi.array() - std::sqrt(0.5)).abs().maxCoeff();
    // e⁺ = e²·L'''/(2L'') with L'' = 4 and L''' = 24·√½ at the minimum; 1e-15 is rounding.
    if (k > 2) {
      EXPECT_LE(error, 1.1 * 24 * std::sqrt(0.5) / 8 * before * before + 1e-15);
    }
    before = error;
  }
  EXPECT_LE(before, 1e-14);
}

TEST(Rate, TrustRegionNeedsOneProductForEachDistinctEigenvalue) {
  const Index n = 60;
  Vec eigenvalues(n);
  for (Index i = 0; i < n; ++i) eigenvalues[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 7 : 50;
  problems::Quadratic problem(eigenvalues.asDiagonal(), Eigen::MatrixXd::Ones(n, 1), Vec::LinSpaced(n, 0, 1),
                              Eigen::MatrixXd::Identity(n, n), Vec::Zero(n));
  Minimiser<Vec> solver(problem, std::make_unique<TrustRegion<Vec>>(TrustRegionOptions{.first_radius = 1e6}));
  const auto s = solver.solve(Vec::Ones(1), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE(s.cost.hessian_products, 3 * s.iterations);
  EXPECT_LE(s.iterations, 6) << s.message;
}

TEST(Rate, AndersonOnALinearProblemEndsLikeGmres) {
  // With as many differences as distinct eigenvalues the combination is exact.
  const Index n = 30;
  Vec eigenvalues(n);
  for (Index i = 0; i < n; ++i) eigenvalues[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 5;
  problems::Quadratic problem(eigenvalues.asDiagonal(), Eigen::MatrixXd::Ones(n, 1), Vec::LinSpaced(n, 0, 1),
                              Eigen::MatrixXd::Identity(n, n), Vec::Zero(n));
  const auto s = make_inner_solver("anderson", problem)->solve(Vec::Ones(1), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE(s.iterations, 8) << s.message;
}

}  // namespace rate_test
}  // namespace bilevel
