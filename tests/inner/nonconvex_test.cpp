// Valleys, saddles, equilibria without a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace nonconvex_test {

using inner_tests::double_well;
using inner_tests::Recurrent;
using inner_tests::rosenbrock;
using inner_tests::Vec;
using testing::HasSubstr;

TEST(Nonconvex, RosenbrocksValley) {
  for (const auto& [name, evaluations] : std::vector<std::pair<std::string_view, long>>{
           {"lbfgs", 80}, {"newton", 40}, {"trust-region", 60}, {"gradient-descent-backtracking", 200000}}) {
    for (const Index pairs : {1, 10}) {
      SCOPED_TRACE(fmt::format("{} {}", name, pairs));
      auto problem = rosenbrock(pairs);
      auto solver = make_inner_solver(name, problem, {.max_iterations = 200000});
      const auto s = solver->solve(Vec::Zero(1), 0, problem.initial_phi());
      EXPECT_EQ(s.status, Status::converged) << s.message;
      EXPECT_LE((s.phi - Vec::Ones(2 * pairs)).norm(), 1e-8);
      EXPECT_LE(s.cost.inner_gradients, evaluations) << s.message;
    }
  }
}

TEST(Nonconvex, NearASaddleNewtonAndTrustRegionDescendToAMinimum) {
  for (const std::string_view name : {"newton", "trust-region", "lbfgs", "gradient-descent-backtracking"}) {
    for (const double offset : {1e-1, 1e-3, 1e-6}) {
      SCOPED_TRACE(fmt::format("{} {}", name, offset));
      auto problem = double_well(4);
      Vec start = Vec::Constant(4, offset);
      start[1] = 0.8;
      start[2] = -offset;
      const auto s = make_inner_solver(name, problem)->solve(Vec::Ones(1), 0, start);
      EXPECT_EQ(s.status, Status::converged) << s.message;
      EXPECT_LE((s.phi.cwiseAbs() - Vec::Constant(4, std::sqrt(0.5))).norm(), 1e-9) << s.phi.transpose();
      if (name == "newton") {
        EXPECT_THAT(s.message, HasSubstr("was not positive definite in"));
      }
      if (name == "trust-region") {
        EXPECT_THAT(s.message, HasSubstr("negative curvature was met"));
      }
    }
  }
}

TEST(Nonconvex, ConvergedMeansAStationaryPoint) {
  // Exactly on the saddle nothing pulls away from it; a certificate, which looks at the curvature, says so.
  auto problem = double_well(2);
  for (const std::string_view name : {"newton", "trust-region"}) {
    const auto s = make_inner_solver(name, problem)->solve(Vec::Ones(1), 0, Vec::Zero(2));
    EXPECT_EQ(s.status, Status::converged);
    EXPECT_EQ(s.iterations, 0);
  }
}

TEST(Nonconvex, AValueWithoutDigitsLeftStillAllowsASmallGradient) {
  // An offset of 1e6 leaves differences of 1e-10: gradients below about 1e-5 change nothing in the value.
  const auto lifted = [] {
    return inner_tests::MadeD(
        Vec::Constant(4, 2), Vec::Ones(1),
        [](const Vec& p, const Vec&, Vec* g) {
          if (g) *g = p.array().sinh() + Eigen::ArrayXd::LinSpaced(4, 1, 4) * p.array();
          return 1e6 + p.array().cosh().sum() +
                 0.5 * (Eigen::ArrayXd::LinSpaced(4, 1, 4) * p.array().square()).sum();
        },
        [](const Vec& p, const Vec&, const Vec& v, Vec& out) {
          out = (p.array().cosh() + Eigen::ArrayXd::LinSpaced(4, 1, 4)) * v.array();
        });
  };
  for (const std::string_view name : inner_solver_names()) {
    SCOPED_TRACE(name);
    auto problem = lifted();
    const auto s = make_inner_solver(name, problem, {.max_iterations = 100000})
                       ->solve(Vec::Ones(1), 0, problem.initial_phi());
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE(s.phi.norm(), 1e-10);
  }
}

TEST(Nonconvex, IllConditionedQuadraticsAreSolvedToTheSameGradient) {
  auto quadratic = problems::Quadratic::random({.phi = 50, .theta = 5, .condition = 1e6, .seed = 3});
  for (const std::string_view name : {"lbfgs", "newton", "trust-region"}) {
    SCOPED_TRACE(name);
    const auto s =
        make_inner_solver(name, quadratic, {.max_iterations = 50000})->solve(Vec::Ones(5), 0, Vec::Zero(50));
    EXPECT_EQ(s.status, Status::converged) << s.message;
    // μ = 1e-3, so the error is at most a thousand times the gradient.
    EXPECT_LE((s.phi - quadratic.settled(Vec::Ones(5), 0)).norm(), 1e-7);
  }
}

TEST(FixedPoint, SettlesARecurrentNetworkThatMinimisesNothing) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    for (const double beta : {0.0, 0.5, -0.05}) {
      for (const FixedPointOptions& method :
           {FixedPointOptions{.memory = 0}, FixedPointOptions{}, FixedPointOptions{.memory = 10},
            FixedPointOptions::broyden()}) {
        SCOPED_TRACE(fmt::format("seed {}, beta {}, {} {}", seed, beta, method.name(), method.memory));
        Recurrent problem(15, 0.9, seed);
        FixedPoint<Vec> solver(problem, {}, method);
        const auto s = solver.solve(problem.initial_theta(), beta, problem.initial_phi());
        EXPECT_EQ(s.status, Status::converged) << s.message;
        EXPECT_TRUE(std::isnan(s.value));
        Vec f = s.phi;
        problem.residual(s.phi, problem.initial_theta(), f);
        EXPECT_LE((f + beta * s.phi).norm(), 1e-10);
      }
    }
  }
}

TEST(FixedPoint, AccelerationSavesIterations) {
  auto problem = problems::Quadratic::random({.phi = 20, .theta = 2, .condition = 100, .seed = 4});
  FixedPoint<Vec> plain(problem, {}, {.memory = 0}), accelerated(problem);
  const Vec theta = Vec::Ones(2), start = problem.initial_phi();
  const auto slow = plain.solve(theta, 0, start), fast = accelerated.solve(theta, 0, start);
  EXPECT_EQ(slow.status, Status::converged);
  EXPECT_EQ(fast.status, Status::converged);
  EXPECT_LE(4 * fast.iterations, slow.iterations);
}

TEST(FixedPoint, TheSafeguardRescuesAStepThatIsFarTooLong) {
  auto problem = problems::Quadratic::random({.phi = 20, .theta = 2, .condition = 100, .seed = 4});
  const Vec theta = Vec::Ones(2);
  for (FixedPointOptions method : {FixedPointOptions{}, FixedPointOptions::broyden()})
    for (const double step : {10.0, 100.0, 1e4}) {
      SCOPED_TRACE(fmt::format("{}, step {}", method.name(), step));
      method.step = step;
      FixedPoint<Vec> solver(problem, {}, method);
      const auto s = solver.solve(theta, 0, problem.initial_phi());
      EXPECT_EQ(s.status, Status::converged) << s.message;
      EXPECT_THAT(s.message, HasSubstr("restarted"));
      EXPECT_LE((s.phi - problem.settled(theta, 0)).norm(), 1e-8);
    }
}

TEST(Newton, AssemblesTheHessianFromProductsWhereNoneIsOffered) {
  auto problem = rosenbrock(3);
  const auto s = make_inner_solver("newton", problem)->solve(Vec::Zero(1), 0, problem.initial_phi());
  EXPECT_EQ(s.cost.dense_hessians, 0);
  EXPECT_EQ(s.cost.hessian_products, 6 * s.cost.linearisations);
}

TEST(Step, LengthFromTheConstantsOrFromThePowerMethod) {
  auto known = problems::Quadratic::random({.phi = 10, .theta = 2, .condition = 100, .seed = 1});
  const auto s = make_inner_solver("gradient-descent", known)->solve(Vec::Ones(2), 0, known.initial_phi());
  EXPECT_THAT(s.message, HasSubstr("step 0.1 = 1/L from the problem's constants"));
  EXPECT_EQ(s.cost.hessian_products, 0);

  std::vector<double> d;
  auto measured = inner_tests::bowl<Vec>(Vec::Zero(10), Vec::Ones(1), 50, d);
  const auto t = make_inner_solver("gradient-descent", measured)->solve(Vec::Ones(1), 0, Vec::Zero(10));
  EXPECT_EQ(t.status, Status::converged) << t.message;
  EXPECT_THAT(t.message, HasSubstr("from the power method at the start"));
  EXPECT_EQ(t.cost.hessian_products, 30);

  auto flat = inner_tests::MadeD(
      Vec::Zero(2), Vec::Ones(1),
      [](const Vec& p, const Vec&, Vec* g) {
        if (g) g->setOnes();
        return p.sum();
      },
      [](const Vec&, const Vec&, const Vec&, Vec& out) { out.setZero(); });
  const auto u = make_inner_solver("nesterov", flat)->solve(Vec::Ones(1), 0, Vec::Zero(2));
  EXPECT_EQ(u.status, Status::singular);
  EXPECT_THAT(u.message, HasSubstr("set step"));
}

}  // namespace nonconvex_test
}  // namespace bilevel
