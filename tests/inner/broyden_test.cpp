// FixedPoint with the secants of Broyden.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace broyden_test {

using inner_tests::Recurrent;
using inner_tests::Vec;
using Mat = Eigen::MatrixXd;

/// F(φ) of any kind, with L_out = ½‖φ‖²; it remembers where it was asked.
struct Asked final : Equilibrium<Vec> {
  using Residual = std::function<Vec(const Vec&)>;
  Asked(Vec from, Residual residual) : start(std::move(from)), f(std::move(residual)) {}
  Vec initial_phi() const override { return start; }
  Vec initial_theta() const override { return Vec::Ones(1); }
  void residual(const Vec& phi, const Vec&, Vec& out) override {
    phis.push_back(phi);
    out = f(phi);
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi;
    return 0.5 * phi.squaredNorm();
  }
  Capabilities capabilities() const override { return {.curvature = false, .symmetric = false}; }

  Vec start;
  Residual f;
  std::vector<Vec> phis;
};

Solution<Vec> settle(Asked& problem, FixedPointOptions method, double beta = 0,
                     MinimiserOptions options = {.gradient_tolerance = 1e-12}) {
  return FixedPoint<Vec>(problem, options, method).solve(Vec::Ones(1), beta, problem.start);
}

FixedPointOptions broyden(double step) {
  FixedPointOptions method = FixedPointOptions::broyden();
  method.step = step;
  return method;
}

Mat random_matrix(Index n, std::uint64_t seed) {
  Vec entries(n * n);
  Space<Vec>::random(seed, entries);
  return Eigen::Map<Mat>(entries.data(), n, n);
}

/// Every iterate is φ − H·F with the dense H = αI + (ΔΦ − αΔF)(ΔΦᵀΔF)⁻¹ΔΦᵀ of the latest differences.
TEST(Broyden, StepsAreThoseOfTheDenseUpdate) {
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const long memory : {1, 3, 20})
      for (const double beta : {0.0, 0.3}) {
        SCOPED_TRACE(fmt::format("seed {}, memory {}, beta {}", seed, memory, beta));
        const Index n = 30;
        const Mat w = 0.6 / std::sqrt(static_cast<double>(n)) * random_matrix(n, seed);
        Asked problem(Vec::Zero(n), [&](const Vec& phi) -> Vec {
          return phi - (w * phi + Vec::LinSpaced(n, -0.5, 0.5)).array().tanh().matrix();
        });
        FixedPointOptions method = broyden(0.8);
        method.memory = memory;
        const auto s = settle(problem, method, beta, {.gradient_tolerance = 1e-7});
        ASSERT_EQ(s.status, Status::converged) << s.message;
        ASSERT_EQ(s.message.find("restarted"), std::string::npos) << s.message;
        const auto& phis = problem.phis;
        ASSERT_GE(phis.size(), 6U);
        const auto f = [&](std::size_t k) -> Vec { return problem.f(phis[k]) + beta * phis[k]; };
        for (std::size_t k = 0; k + 1 < phis.size(); ++k) {
          const Index held = std::min(static_cast<Index>(k), static_cast<Index>(memory));
          Mat dp(n, held), df(n, held);
          for (Index j = 0; j < held; ++j) {
            const std::size_t at = k - static_cast<std::size_t>(j);
            dp.col(j) = phis[at] - phis[at - 1];
            df.col(j) = f(at) - f(at - 1);
          }
          Vec step = 0.8 * f(k);
          if (held > 0) {
            const Vec gamma = (dp.transpose() * df).partialPivLu().solve(dp.transpose() * f(k));
            step += (dp - 0.8 * df) * gamma;
          }
          EXPECT_LE((phis[k + 1] - (phis[k] - step)).norm(), 1e-6 * f(k).norm()) << "step " << k;
        }
      }
}

/// In one dimension it is the secant method whatever the memory: what depends on newer secants has no weight.
TEST(Broyden, OlderSecantsThanThereAreDirectionsDoNotCount) {
  for (const long memory : {1, 5, 32}) {
    SCOPED_TRACE(memory);
    Asked problem(Vec::Zero(1), [](const Vec& phi) -> Vec { return phi.array().cube() + phi.array() - 2; });
    FixedPointOptions method = broyden(0.25);
    method.memory = memory;
    const auto s = settle(problem, method);
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_NEAR(s.phi[0], 1, 1e-12);
    const auto f = [&](double x) { return x * x * x + x - 2; };
    double before = 0, now = 0.5;
    for (std::size_t k = 1; k < problem.phis.size(); ++k) {
      EXPECT_NEAR(problem.phis[k][0], now, 1e-9) << "iterate " << k;
      const double next = now - f(now) * (now - before) / (f(now) - f(before));
      before = now;
      now = next;
    }
    EXPECT_LE(s.iterations, 9);
  }
}

struct Linear {
  std::string what;
  Mat a;
};

/// Symmetric, far from normal, turning and at random; all with singular values above 0.1.
std::vector<Linear> linear_ones(std::uint64_t seed) {
  const Index n = 40;
  Vec spectrum(n);
  for (Index i = 0; i < n; ++i) spectrum[i] = std::pow(100, static_cast<double>(i) / (n - 1));
  const Mat q = Eigen::HouseholderQR<Mat>(random_matrix(n, seed)).householderQ();
  Mat shift = Mat::Identity(n, n);
  shift.diagonal(1).setConstant(0.8);
  shift(n - 1, 0) = 0.3;
  const Mat g = random_matrix(n, seed + 50) / std::sqrt(static_cast<double>(n));
  return {{"symmetric", q * spectrum.asDiagonal() * q.transpose()},
          {"shift", shift},
          {"turning", Mat::Identity(n, n) + g - g.transpose()},
          {"random", 1.5 * Mat::Identity(n, n) + g}};
}

TEST(Broyden, LinearOnesSettleAtTheirClosedForm) {
  for (const std::uint64_t seed : {1u, 2u, 3u})
    for (const auto& [what, a] : linear_ones(seed))
      for (const double beta : {0.0, 0.5, -0.05}) {
        SCOPED_TRACE(fmt::format("{}, seed {}, beta {}", what, seed, beta));
        const Index n = a.rows();
        Vec b(n);
        Space<Vec>::random(seed + 100, b);
        Asked problem(Vec::Zero(n), [&, &m = a](const Vec& phi) -> Vec { return m * phi - b; });
        const auto s = settle(problem, broyden(1 / a.jacobiSvd().singularValues()[0]), beta);
        EXPECT_EQ(s.status, Status::converged) << s.message;
        const Vec expected = (a + beta * Mat::Identity(n, n)).partialPivLu().solve(b);
        EXPECT_LE((s.phi - expected).norm(), 1e-10) << s.message;
      }
}

TEST(Broyden, OneIterationForEachDistinctEigenvalue) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    const Index n = 30;
    Vec eigenvalues(n), b(n);
    for (Index i = 0; i < n; ++i) eigenvalues[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : 5;
    Space<Vec>::random(seed, b);
    const Mat t = Mat::Identity(n, n) + 0.3 / std::sqrt(static_cast<double>(n)) * random_matrix(n, seed + 10);
    const Mat a = t * eigenvalues.asDiagonal() * t.inverse();
    Asked problem(Vec::Zero(n), [&](const Vec& phi) -> Vec { return a * phi - b; });
    const auto s = settle(problem, broyden(0.2), 0, {.gradient_tolerance = 1e-9});
    EXPECT_EQ(s.status, Status::converged) << s.message;
    // The three secants want a plain step each, and the one after them arrives.
    EXPECT_EQ(s.iterations, 4) << s.message;
  }
}

/// A quarter turn: ⟨Δφ, ΔF⟩ = 0 for every step, and plain steps lead away.
TEST(Broyden, ASecantThatIsSingularAloneServesBesideTheNext) {
  Asked problem(Vec::Zero(2), [](const Vec& phi) -> Vec { return Vec{{phi[1] - 1, -phi[0] - 2}}; });
  const auto s = settle(problem, broyden(0.5));
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE((s.phi - Vec{{-2, 1}}).norm(), 1e-11);
  EXPECT_EQ(s.iterations, 3) << s.message;
}

/// F does not change on plateaus of different lengths, and falls slowly behind them.
TEST(Broyden, SecantsOfNoChangeAreIgnored) {
  const Vec rest{{16, 19, 22.5}};
  Asked problem(Vec::Zero(3), [&](const Vec& phi) -> Vec { return (0.1 * (phi - rest)).cwiseMax(-1); });
  const auto s = settle(problem, broyden(1));
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE((s.phi - rest).norm(), 1e-10);
  EXPECT_LE(s.iterations, 30) << "plain steps take more than 200";

  Asked flat(Vec::Zero(3), [](const Vec&) -> Vec { return Vec::Ones(3); });
  const auto lost = settle(flat, broyden(1));
  EXPECT_EQ(lost.status, Status::stalled) << lost.message;
  EXPECT_TRUE(lost.phi.allFinite());
  EXPECT_EQ(lost.residual_norm, std::sqrt(3.0));
}

/// F is constant along the kernel of a singular matrix: no step leaves for there, and the others are not
/// disturbed.
TEST(Broyden, ADirectionThatFDoesNotSeeStaysWhereItIs) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    const Mat q = Eigen::HouseholderQR<Mat>(random_matrix(4, seed)).householderQ();
    const Mat a = q * Vec{{1, 3, 9, 0}}.asDiagonal() * q.transpose();
    Asked problem(q * Vec{{0, 0, 0, 7}}, [&](const Vec& phi) -> Vec {
      return a * phi - q * Vec{{1, 1, 1, 0}};
    });
    const auto s = settle(problem, broyden(0.1));
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.phi - q * Vec{{1, 1 / 3.0, 1 / 9.0, 7}}).norm(), 1e-11);
    EXPECT_LE(s.iterations, 5) << "one for each eigenvalue that is not 0, one to arrive, one for rounding";
  }
}

TEST(Broyden, SavesIterationsWithAMemoryThatIsLongEnough) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    auto problem = problems::Quadratic::random({.phi = 20, .theta = 2, .condition = 1e3, .seed = seed});
    const auto iterations = [&](FixedPointOptions method) {
      FixedPoint<Vec> solver(problem, {.gradient_tolerance = 1e-8, .max_iterations = 100000}, method);
      const auto s = solver.solve(Vec::Ones(2), 0, problem.initial_phi());
      EXPECT_EQ(s.status, Status::converged) << s.message;
      return s.iterations;
    };
    FixedPointOptions shorter = FixedPointOptions::broyden();
    shorter.memory = 5;
    const long whole = iterations(FixedPointOptions::broyden());
    EXPECT_LE(20 * whole, iterations({.memory = 0}));
    EXPECT_LE(3 * whole, iterations(shorter));
  }
}

/// Type I minimises nothing: its residual rises on the way, and restarts at every rise would waste the
/// secants.
TEST(Broyden, ItsResidualMayRise) {
  const Index n = 20;
  Vec spectrum(n), b(n);
  for (Index i = 0; i < n; ++i) spectrum[i] = std::pow(1e4, -static_cast<double>(i) / (n - 1));
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Space<Vec>::random(seed, b);
    Asked problem(Vec::Zero(n), [&](const Vec& phi) -> Vec { return spectrum.cwiseProduct(phi) - b; });
    const auto patient = settle(problem, broyden(1), 0, {});
    EXPECT_EQ(patient.status, Status::converged) << patient.message;
    EXPECT_LE(patient.iterations, 60) << patient.message;
    FixedPointOptions hasty = broyden(1);
    hasty.growth = 2;
    EXPECT_GE(settle(problem, hasty, 0, {}).iterations, 2 * patient.iterations);
  }
}

TEST(Broyden, IsKnownByItsName) {
  const InnerChoice choice = inner_solver_named("broyden");
  ASSERT_TRUE(std::holds_alternative<FixedPointOptions>(choice));
  const auto& method = std::get<FixedPointOptions>(choice);
  EXPECT_EQ(method.secants, Secants::broyden);
  EXPECT_EQ(method.memory, FixedPointOptions::broyden().memory);
  EXPECT_EQ(method.growth, FixedPointOptions::broyden().growth);
  EXPECT_FALSE(minimises(choice));
  EXPECT_FALSE(differentiable(choice));
  Recurrent problem(5, 0.5, 1);
  const auto name_of = [&](const FixedPointOptions& o) {
    EXPECT_EQ(make_inner_solver<Vec>(o, problem)->name(), name(InnerChoice(o)));
    return name(InnerChoice(o));
  };
  EXPECT_EQ(name_of({.secants = Secants::broyden}), "broyden");
  EXPECT_EQ(name_of({.memory = 0, .secants = Secants::broyden}), "fixed-point");
  EXPECT_EQ(name_of({}), "anderson");
}

}  // namespace broyden_test
}  // namespace bilevel
