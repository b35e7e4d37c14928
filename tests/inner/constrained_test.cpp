// Nearest points under constraints, and how a solve under them ends.
#include <bilevel/inner/constrained.hpp>

#include <algorithm>
#include <random>

#include <gtest/gtest.h>
#include <Eigen/LU>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problem/adapter.hpp>
#include <bilevel/problem/functions.hpp>

namespace bilevel {
namespace constrained_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Small numbers, so that bounds meet in corners; some bounds infinite, some that meet.
PhiConstraints bounds(std::mt19937& bits, Index n, bool sum) {
  const auto one_of = [&](unsigned count) { return static_cast<int>(bits() % count); };
  PhiConstraints c;
  c.lower.resize(n);
  c.upper.resize(n);
  Vec inside(n);
  for (Index i = 0; i < n; ++i) {
    c.lower[i] = one_of(3) - 1;
    c.upper[i] = c.lower[i] + one_of(3);
    inside[i] = one_of(2) ? c.lower[i] : c.upper[i];
    if (one_of(4) == 0) c.lower[i] = -everywhere;
    if (one_of(4) == 0) c.upper[i] = everywhere;
  }
  if (!sum) return c;
  c.equal.resize(1, n);
  for (Index i = 0; i < n; ++i) c.equal(0, i) = one_of(5) - 2;
  if (c.equal.isZero()) c.equal(0, 0) = 1;
  c.equal_to = c.equal * inside;
  return c;
}

TEST(NearestStep, SatisfiesTheConditionsOfOptimality) {
  std::normal_distribution<> normal;
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 bits(seed);
    const auto n = static_cast<Index>(1 + bits() % 7);
    const NamedConstraints c = rows_of(bounds(bits, n, seed % 3 != 0), n);
    ASSERT_TRUE(c.separable());
    Vec phi(n), g(n);
    for (double& each : phi) each = normal(bits);
    for (double& each : g) each = seed % 2 ? 2 * normal(bits) : static_cast<double>(bits() % 5) - 2 - phi[0];
    const QuadraticProgramSolution s = nearest_step(c, phi, g, nullptr);
    ASSERT_TRUE(s.feasible);
    // And so is a step from where one has led, in which rounding is all that is left.
    const Vec there = phi + s.x;
    ASSERT_TRUE(nearest_step(c, there, 1e3 * g, nullptr).feasible);
    ASSERT_LE(nearest_step(c, there, s.x + g, nullptr).x.norm(), 1e-13 * (10 + phi.norm() + g.norm()));
    const Mat& normals = c.rows.normals;
    const double size = 10 + phi.norm() + g.norm() + s.multipliers.norm();
    EXPECT_LE((s.x + g - normals * s.multipliers).norm(), 1e-13 * size);
    const Vec slack = normals.transpose() * (phi + s.x) - c.rows.limits;
    for (Index i = 0; i < slack.size(); ++i) {
      if (i < c.rows.equalities) {
        EXPECT_NEAR(slack[i], 0, 1e-13 * size);
        continue;
      }
      EXPECT_GE(slack[i], -1e-13 * size);
      EXPECT_GE(s.multipliers[i], 0);
      EXPECT_LE(slack[i] * s.multipliers[i], 1e-12 * size * size);
    }
    Mat held(n, static_cast<Index>(s.active.size()));
    for (Index k = 0; k < held.cols(); ++k) held.col(k) = normals.col(s.active[static_cast<std::size_t>(k)]);
    if (held.cols() > 0) {
      EXPECT_EQ(Eigen::FullPivLU<Mat>(held).rank(), held.cols());
    }
  }
}

TEST(NearestStep, SaysWhereThereIsNoPoint) {
  PhiConstraints c = PhiConstraints::simplex(3, -1);
  EXPECT_EQ(nearest_step(rows_of(c, 3), Vec::Zero(3), Vec::Ones(3), nullptr).end,
            QuadraticProgramEnd::infeasible);
  c = PhiConstraints::simplex(3, 0);  // one point
  const auto s = nearest_step(rows_of(c, 3), Vec::Ones(3), Vec::Zero(3), nullptr);
  ASSERT_TRUE(s.feasible);
  EXPECT_EQ(s.x, -Vec::Ones(3));
}

/// L_in = ½(φ − b)ᵀ(dI + eeᵀ)(φ − b), e of ones: no Hessian is cheaper.
Functions<Vec> large(Index n, const Vec& b, double dense, PhiConstraints held) {
  Functions<Vec> f;
  f.initial_phi = [n] { return Vec::Zero(n); };
  f.initial_theta = [] { return Vec::Ones(1); };
  f.inner = [b, dense](const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
    const Vec away = phi - theta[0] * b;
    const Vec pull = away + Vec::Constant(b.size(), dense * away.sum());
    if (wanted.phi) *wanted.phi = pull;
    if (wanted.theta) *wanted.theta = Vec::Constant(1, -b.dot(pull));
    return 0.5 * away.dot(pull);
  };
  f.outer = [](const Vec& phi, const Vec&, Wanted<Vec> wanted) {
    if (wanted.phi) *wanted.phi = phi;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * phi.squaredNorm();
  };
  f.hessian_times = [dense](const Vec&, const Vec&, double beta, const Vec& v, Vec& out) {
    out = (1 + beta) * v + Vec::Constant(v.size(), dense * v.sum());
  };
  f.cross_times = [b](const Vec&, const Vec&, double, const Vec& v, Vec& out) {
    out = Vec::Constant(1, -b.dot(v));
  };
  f.cross_apply = [b](const Vec&, const Vec&, double, const Vec& v, Vec& out) { out = -v[0] * b; };
  f.phi_constraints = [held] { return held; };
  return f;
}

TEST(Constrained, ProjectsAThousandElementsInNoTime) {
  constexpr Index n = 1000;
  Vec b(n);
  Space<Vec>::random(1, b);
  for (const PhiConstraints& held :
       {PhiConstraints::box(Vec::Zero(n), Vec::Constant(n, 1e-3)), PhiConstraints::simplex(n)}) {
    const NamedConstraints c = rows_of(held, n);
    const Stopwatch watch;
    for (int k = 0; k < 20; ++k) ASSERT_TRUE(nearest_step(c, Vec::Zero(n), -b, nullptr).feasible);
    EXPECT_LT(watch.seconds(), 5);  // n³ operations each would be more
  }
}

TEST(Constrained, EndsInTimeWithAStepThatDecreasesTheLoss) {
  constexpr Index n = 500;
  Vec b(n);
  Space<Vec>::random(1, b);
  auto problem = make_problem(large(n, b, 0.01, PhiConstraints::box(Vec::Zero(n), Vec::Constant(n, 1e-3))));
  const auto inner = make_inner_solver<Vec>("newton", problem, {.max_seconds = 1e-4});
  const Stopwatch watch;
  const Solution<Vec> s = inner->solve(Vec::Ones(1), 0, Vec::Zero(n));
  EXPECT_EQ(s.status, Status::time_limit) << s.message;
  EXPECT_NE(s.message.find("max_seconds"), std::string::npos) << s.message;
  EXPECT_LT(watch.seconds(), 2);
  EXPECT_LE(s.value, problem.inner(Vec::Zero(n), Vec::Ones(1), {}));
}

TEST(Constrained, AnInterruptionWithinAModelKeepsAStep) {
  constexpr Index n = 60;
  Vec b(n);
  Space<Vec>::random(1, b);
  auto problem =
      make_problem(large(n, b, 0.3, PhiConstraints::box(Vec::Constant(n, -1), Vec::Constant(n, 0.5))));
  int looks = 0;
  const StopToken stop([&] { return ++looks > 20; });  // among the Hessian's columns
  problem.obey(&stop);
  const Solution<Vec> s = make_inner_solver<Vec>("newton", problem)->solve(Vec::Ones(1), 0, Vec::Zero(n));
  EXPECT_EQ(s.status, Status::interrupted) << s.message;
  EXPECT_EQ(s.iterations, 1) << s.message;
  EXPECT_LT(s.value, problem.inner(Vec::Zero(n), Vec::Ones(1), {}));
}

TEST(Constrained, RefusesOptionsThatItWouldNotLookAt) {
  auto problem = make_problem(large(3, Vec::Ones(3), 0, PhiConstraints::simplex(3)));
  const auto why = [&](const InnerChoice& choice) {
    try {
      make_inner_solver<Vec>(choice, problem);
    } catch (const InvalidInput& refusal) {
      return std::string(refusal.what());
    }
    return std::string();
  };
  EXPECT_EQ(why(NewtonOptions{}), "");
  EXPECT_EQ(why(LbfgsOptions{}), "");
  EXPECT_NE(why(NewtonOptions{.keep_factor = true}).find("newton: keep_factor = true"), std::string::npos);
  EXPECT_NE(why(NewtonOptions{.max_assembled = 7}).find("newton: max_assembled = 7"), std::string::npos);
  EXPECT_NE(why(LbfgsOptions{.memory = 3}).find("lbfgs: memory = 3"), std::string::npos);
}

}  // namespace constrained_test
}  // namespace bilevel
