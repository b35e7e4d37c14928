// The inverse Hessian that phase 1 leaves behind, used in phase 2.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace bilevel {
namespace inherited_test {

using Vec = Eigen::VectorXd;

std::unique_ptr<InnerSolver<Vec>> lbfgs(Problem<Vec>& problem, long memory, double tolerance = 1e-11) {
  MinimiserOptions options;
  options.gradient_tolerance = tolerance;
  return std::make_unique<Minimiser<Vec>>(problem, std::make_unique<Lbfgs<Vec>>(LbfgsOptions{memory}),
                                          options);
}

TEST(Inherited, ALongMemoryHoldsTheWholeInverse) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    auto problem = problems::Quadratic::random({.phi = 15, .theta = 4, .condition = 20, .seed = seed});
    const Vec theta = Vec::Ones(4);
    /// Relative error of B⁻¹ĝ where the inner solver's inverse stands for Ĥ⁻¹.
    const auto error = [&](long memory, int runs_before) {
      const auto inner = lbfgs(problem, memory);
      for (int step = 1; step <= runs_before; ++step) {
        Vec other = theta;
        Space<Vec>::random(100 * seed + static_cast<std::uint64_t>(step), other);
        inner->solve(other, 0, problem.initial_phi());
      }
      const Vec phi = inner->solve(theta, 0, problem.initial_phi()).phi;
      Vec g = phi, pi = phi;
      problem.outer(phi, theta, {.phi = &g});
      inner->inverse_hessian()->apply(g, pi);
      std::unique_ptr<Curvature<Vec>> curvature;
      problem.linearise(phi, theta, 0, curvature);
      const Vec exact = dense_matrix(*curvature, phi).llt().solve(g);
      return (pi - exact).norm() / exact.norm();
    };
    // One run sees the directions that it needs; those of an outer loop before it fill the memory.
    EXPECT_LE(error(400, 12), 1e-4) << "seed " << seed;
    EXPECT_GE(error(3, 0), 1e-3) << "seed " << seed;
  }
}

TEST(Inherited, PreconditionsConjugateGradients) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    auto problem = problems::Quadratic::random({.phi = 60, .theta = 5, .condition = 1e4, .seed = seed});
    const Vec theta = Vec::Ones(5), truth = *problem.outer_gradient(theta);
    const auto inner = lbfgs(problem, 40);
    const AdjointOptions tight{.relative_tolerance = 1e-11};
    const auto with = make_estimator<Vec>("implicit-cg-inherited", problem, *inner, {.adjoint = tight})
                          ->estimate(theta, {});
    const auto without =
        make_estimator<Vec>("implicit-cg", problem, *inner, {.adjoint = tight})->estimate(theta, {});
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << with.message << "\n" << without.message);
    EXPECT_EQ(with.status, Status::converged);
    EXPECT_LE((with.gradient - truth).norm(), 1e-8 * truth.norm());
    EXPECT_LE((with.gradient - without.gradient).norm(), 1e-8 * truth.norm());
    EXPECT_GE(static_cast<double>(without.cost.hessian_products),
              1.3 * static_cast<double>(with.cost.hessian_products));
  }
}

TEST(Inherited, AWarmSolveWithoutIterationsKeepsThePairsOfTheOneBefore) {
  auto problem = problems::Quadratic::random({.phi = 40, .theta = 3, .condition = 1e3, .seed = 4});
  const Vec theta = Vec::Ones(3);
  const auto inner = lbfgs(problem, 10);
  EXPECT_EQ(inner->inverse_hessian()->rank(), 0);
  Vec b = Vec::Ones(40), out = Vec::Zero(40);
  inner->inverse_hessian()->apply(b, out);
  EXPECT_EQ(b, out);
  const auto estimator = make_estimator<Vec>("implicit-cg-inherited", problem, *inner);
  const auto first = estimator->estimate(theta, {});
  EXPECT_EQ(inner->inverse_hessian()->rank(), 10);
  inner->inverse_hessian()->apply(b, out);
  const Vec before = out;
  const auto second = estimator->estimate(theta, {.phi = first.phi, .pi = {}});
  EXPECT_EQ(second.inner_iterations, 0);
  EXPECT_EQ(inner->inverse_hessian()->rank(), 10);
  EXPECT_EQ(second.adjoint_iterations, first.adjoint_iterations);
  inner->inverse_hessian()->apply(b, out);
  EXPECT_EQ(before, out);
  // A step away, few new pairs come on top of the old ones. B⁻¹ stays positive and satisfies the last secant.
  const Vec moved = theta + Vec::Constant(3, 1e-9);
  const auto third = estimator->estimate(moved, {.phi = first.phi, .pi = first.pi});
  EXPECT_GT(third.inner_iterations, 0);
  EXPECT_EQ(inner->inverse_hessian()->rank(), 10);
  EXPECT_EQ(third.status, Status::converged) << third.message;
}

TEST(Inherited, PairsOfEarlierRunsDoNotChangeTheRunsThemselves) {
  auto problem = problems::LogCosh::random({.seed = 5});
  const auto used = lbfgs(problem, 5), fresh = lbfgs(problem, 5);
  const Vec theta = problem.initial_theta(), other = theta + Vec::Constant(theta.size(), 0.3);
  used->solve(other, 0, problem.initial_phi());
  EXPECT_EQ(used->solve(theta, 0, problem.initial_phi()).phi,
            fresh->solve(theta, 0, problem.initial_phi()).phi);
}

TEST(Inherited, NewtonsFactorServesWithoutBeingFormedAgain) {
  for (const std::string family : {"logistic", "log-cosh", "quadratic"}) {
    const auto problem = problems::make(family, {.seed = 6});
    const Vec theta = problem->initial_theta();
    const auto inner = make_inner_solver<Vec>("newton", *problem);
    const auto again = make_estimator<Vec>("implicit-direct", *problem, *inner)->estimate(theta, {});
    const auto e = make_estimator<Vec>("implicit-cg-inherited", *problem, *inner)->estimate(theta, {});
    EXPECT_EQ(e.status, Status::converged) << family << ": " << e.message;
    EXPECT_LE(e.adjoint_iterations, 3) << family << ": " << e.message;
    EXPECT_EQ(e.cost.factorizations, again.cost.factorizations - 1) << family;
    EXPECT_LE((e.gradient - again.gradient).norm(), 1e-8 * again.gradient.norm()) << family;
  }
}

TEST(Inherited, AnInnerSolverThatLeavesNothingIsRefusedAtOnce) {
  auto problem = problems::Quadratic::random({.seed = 7});
  for (const std::string_view solver : {"gradient-descent", "trust-region", "anderson", "broyden"}) {
    const auto inner = make_inner_solver<Vec>(solver, problem);
    try {
      make_estimator<Vec>("implicit-cg-inherited", problem, *inner);
      ADD_FAILURE() << solver;
    } catch (const InvalidInput& refusal) {
      const std::string message = refusal.what();
      for (const std::string_view part :
           {std::string_view("implicit-cg-inherited"), std::string_view("lbfgs, newton"), solver})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

}  // namespace inherited_test
}  // namespace bilevel
