#include <cmath>
#include <iostream>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/gradient/agnostic.hpp>
#include <bilevel/gradient/exact.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/inner/spring_controlled.hpp>
#include <bilevel/problem/check.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/registry.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/hopfield_box.hpp>
#include <conformance/translated.hpp>

namespace bilevel {
namespace agnostic_test {

/// A problem that can only settle, springs and all; the estimator owns it.
template <class V>
std::unique_ptr<Estimator<V>> make_agnostic(Problem<V>& problem, const AgnosticOptions& options = {},
                                            const SpringOptions& springs = {}) {
  return std::make_unique<Agnostic<V>>(std::make_unique<SpringControlled<V>>(problem, springs), options);
}

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using conformance::BlockVector;
using conformance::Translated;

/// Q with springs is Q in (φ, θ) jointly: everything in closed form.
struct QuadraticOnSprings {
  QuadraticOnSprings(std::uint64_t seed, double epsilon)
      : problem(problems::Quadratic::random({.phi = 6, .theta = 3, .condition = 4, .seed = seed})),
        e(epsilon) {
    Vec zero = Vec::Zero(6), residual(6), pull(6);
    problem.inner(zero, Vec::Zero(3), {.phi = &residual});
    problem.outer(zero, Vec::Zero(3), {.phi = &pull});
    b = -residual;
    y = -problem.outer_hessian().ldlt().solve(pull);
  }
  /// F = ½φᵀHφ − φᵀ(Jθ + b) + ‖θ − u‖²/2ε + β/2·(φ−y)ᵀG(φ−y) over (φ, θ).
  Vec rest(const Vec& u, double beta) const {
    Mat a(9, 9);
    a << problem.hessian() + beta * problem.outer_hessian(), -problem.coupling(),
        -problem.coupling().transpose(), Mat::Identity(3, 3) / e;
    Vec right(9);
    right << b + beta * problem.outer_hessian() * y, u / e;
    return a.partialPivLu().solve(right);
  }
  Vec gradient(const Vec& u) const {
    // dx/du = A⁻¹[0; I/ε], and L_out looks at φ.
    Mat a(9, 9);
    a << problem.hessian(), -problem.coupling(), -problem.coupling().transpose(), Mat::Identity(3, 3) / e;
    Vec pull = Vec::Zero(9);
    pull.head(6) = problem.outer_hessian() * (rest(u, 0).head(6) - y);
    return a.partialPivLu().solve(pull).tail(3) / e;
  }
  problems::Quadratic problem;
  double e;
  Vec b, y;
};

TEST(Agnostic, TheTheoremHoldsForAnyCompliance) {
  for (std::uint64_t seed : {1, 2, 3})
    for (const double epsilon : {1e-3, 1e-2, 0.05}) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", compliance " << epsilon);
      QuadraticOnSprings q(seed, epsilon);
      const Vec u = Vec::LinSpaced(3, -1, 1), expected = q.gradient(u);
      // The closed form of the estimate at this β, then its limit.
      const double beta = 1e-2;
      const Vec estimate = -(q.rest(u, beta) - q.rest(u, -beta)).tail(3) / (2 * beta * epsilon);
      const auto e = make_agnostic<Vec>(q.problem, {.beta = beta}, {.compliance = epsilon})->estimate(u, {});
      EXPECT_EQ(e.status, Status::converged) << e.message;
      EXPECT_LE((e.gradient - estimate).norm(), 1e-8 * expected.norm()) << e.message;
      const double error = (e.gradient - expected).norm();
      EXPECT_LE(error, 0.01 * expected.norm());
      EXPECT_GE(error, 1e-7 * expected.norm());  // the bias of β is real
      EXPECT_EQ(e.certificate.kind, Kind::estimated);
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
      EXPECT_GE(e.certificate.bound, error);
      EXPECT_LE((e.phi - q.rest(u, 0).head(6)).norm(), 1e-9);
      EXPECT_NEAR(e.outer_value, q.problem.outer(q.rest(u, 0).head(6), u, {}), 1e-9);
    }
}

TEST(Agnostic, BiasFallsWithBetaSquaredAndWithBetaWhenOneSided) {
  QuadraticOnSprings q(5, 0.02);
  const Vec u = Vec::LinSpaced(3, -1, 1), expected = q.gradient(u);
  for (const bool central : {true, false}) {
    double before = 0;
    for (const double beta : {0.08, 0.04, 0.02, 0.01}) {
      const auto e = make_agnostic<Vec>(q.problem, {.beta = beta, .central = central}, {.compliance = 0.02})
                         ->estimate(u, {});
      const double error = (e.gradient - expected).norm();
      if (before > 0) {
        EXPECT_NEAR(std::log2(before / error), central ? 2 : 1, 0.15) << beta;
      }
      EXPECT_GE(e.certificate.bound, error);
      EXPECT_LE(e.certificate.bound, 5 * error);
      before = error;
    }
  }
}

TEST(Agnostic, SmallComplianceApproachesTheProblemWithoutSprings) {
  for (const std::string family : {"quadratic", "log-cosh", "ridge", "logistic"}) {
    SCOPED_TRACE(family);
    problems::Settings settings{.seed = 3};
    if (family == "quadratic" || family == "log-cosh") settings.condition = 10;
    const auto problem = problems::make(family, settings);
    const Vec theta = problem->initial_theta();
    const auto inner = make_inner_solver<Vec>("newton", *problem);
    const Vec expected = Exact<Vec>(*problem, *inner).estimate(theta, {}).gradient;
    double before = 0;
    for (const double epsilon : {8e-3, 4e-3, 2e-3, 1e-3}) {
      const auto e =
          make_agnostic<Vec>(*problem, {.beta = 1e-3}, {.compliance = epsilon})->estimate(theta, {});
      const double error = (e.gradient - expected).norm() / expected.norm();
      if (before > 0) {
        EXPECT_NEAR(before / error, 2, 0.3)
            << "compliance " << epsilon << ": error " << error << " " << e.message;
      }
      before = error;
      EXPECT_NE(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
    }
    EXPECT_LE(before, 0.02);
  }
}

TEST(Agnostic, TheSpringLoadedProblemHasRightDerivatives) {
  for (const std::string family : {"quadratic", "log-cosh"}) {
    const auto problem = problems::make(family, {.phi = 5, .theta = 3, .seed = 2});
    SpringLoaded<Vec> joint(*problem, 0.01);
    const CheckReport report =
        check_derivatives<Vec>(joint, Vec::LinSpaced(8, -1, 1), Vec::LinSpaced(3, 0.2, 1), {.seed = 2});
    EXPECT_TRUE(report.passed()) << report.table();
  }
}

TEST(Agnostic, AJumpToAnotherBasinIsNoticed) {
  // φ⁴ − θφ²: two minima. A nudge strong enough tips the state at φ < 0 over to the target y = 1.
  problems::Pitchfork problem;
  SpringControlled<Vec> system(problem, {.compliance = 1e-3});
  const Vec u = Vec::Ones(1);
  const Warm<Vec> left{.phi = Vec::Constant(1, -0.7), .pi = {}};
  const auto gentle = Agnostic<Vec>(system, {.beta = 1e-3}).estimate(u, left);
  EXPECT_LT(gentle.phi[0], -0.5);
  EXPECT_EQ(gentle.certificate.verdict, Verdict::trusted) << gentle.certificate.reason;
  // dL_out/dθ = (φ − 1)/(4φ) on this branch, φ = −√(θ/2).
  const double phi = -std::sqrt(0.5);
  EXPECT_NEAR(gentle.gradient[0], (phi - 1) / (4 * phi), 5e-3);
  const auto strong = Agnostic<Vec>(system, {.beta = 1}).estimate(u, left);
  EXPECT_EQ(strong.certificate.verdict, Verdict::untrusted) << strong.certificate.reason;
  EXPECT_EQ(strong.status, Status::singular);
  EXPECT_NE(strong.certificate.reason.find("another basin"), std::string::npos);
  const auto forward = Agnostic<Vec>(system, {.beta = 1, .central = false}).estimate(u, left);
  EXPECT_EQ(forward.certificate.verdict, Verdict::untrusted) << forward.certificate.reason;
}

TEST(Agnostic, LooseSettlingShowsInTheBound) {
  QuadraticOnSprings q(4, 1e-3);
  const Vec u = Vec::LinSpaced(3, -1, 1), expected = q.gradient(u);
  SpringOptions loose{.compliance = 1e-3};
  loose.minimiser.gradient_tolerance = 1e-5;
  const auto e = make_agnostic<Vec>(q.problem, {.beta = 1e-3}, loose)->estimate(u, {});
  const double error = (e.gradient - expected).norm();
  EXPECT_GT(error, 1e-5 * expected.norm());
  EXPECT_TRUE(e.certificate.kind == Kind::none || e.certificate.bound >= error)
      << error << " " << e.certificate.bound << " " << e.certificate.reason;
}

TEST(Agnostic, OptionsAndSystemsThatDoNotFitAreRefused) {
  const auto problem = problems::make("quadratic", {.seed = 1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double beta : {0.0, -1.0, nan})
    EXPECT_THROW(make_agnostic<Vec>(*problem, {.beta = beta}), InvalidInput);
  for (const double compliance : {0.0, -1.0, nan})
    EXPECT_THROW(make_agnostic<Vec>(*problem, {}, {.compliance = compliance}), InvalidInput);
  EXPECT_THROW(make_agnostic<Vec>(*problem, {.outer_tolerance = nan}), InvalidInput);
  const auto estimator = make_agnostic<Vec>(*problem);
  EXPECT_EQ(estimator->name(), "ep-agnostic");
  EXPECT_THROW(estimator->estimate(Vec::Zero(1), {}), InvalidInput);
  EXPECT_THROW(estimator->estimate(Vec::Constant(5, nan), {}), InvalidInput);
}

TEST(Agnostic, ASystemThatBlowsUpIsNamed) {
  class Broken final : public ControlledSystem<Vec> {
   public:
    Vec initial_phi() const override { return Vec::Zero(1); }
    Vec initial_control() const override { return Vec::Zero(1); }
    double compliance() const override { return 0.1; }
    Rest<Vec> settle(const Vec&, double beta, const Vec&) override {
      const double phi = beta < 0 ? std::numeric_limits<double>::infinity() : beta;
      return {.phi = Vec::Constant(1, phi),
              .extension = Vec::Zero(1),
              .status = Status::converged,
              .message = {},
              .cost = {}};
    }
    double outer(const Vec& phi, const Vec&) override { return phi[0]; }
  } broken;
  const auto e = Agnostic<Vec>(broken).estimate(Vec::Zero(1), {});
  EXPECT_EQ(e.status, Status::not_finite);
  EXPECT_TRUE(std::isnan(e.gradient[0]));
  EXPECT_NE(e.message.find("beta = -0.01"), std::string::npos) << e.message;
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
}

TEST(Agnostic, OtherVectorTypesGiveTheSameGradient) {
  const auto original = problems::make("log-cosh", {.condition = 10, .seed = 5});
  const Vec theta = original->initial_theta();
  const Vec expected = make_agnostic<Vec>(*original)->estimate(theta, {}).gradient;
  Translated<BlockVector> block(*original);
  const auto e = make_agnostic<BlockVector>(block)->estimate(block.initial_theta(), {});
  EXPECT_LE((Translated<BlockVector>::host(e.gradient) - expected).norm(), 1e-8 * expected.norm())
      << e.message;
  using Single = Eigen::VectorXf;
  Translated<Single> single(*original);
  SpringOptions springs{.compliance = 0.1};
  springs.minimiser.gradient_tolerance = 1e-5;
  const auto f = make_agnostic<Single>(single, {.beta = 0.1}, springs)->estimate(single.initial_theta(), {});
  const auto reference =
      make_agnostic<Vec>(*original, {.beta = 0.1}, {.compliance = 0.1})->estimate(theta, {});
  EXPECT_LE((f.gradient.cast<double>() - reference.gradient).norm(), 1e-2 * reference.gradient.norm())
      << f.message;
}

/// The gradient of the box's knobs against differences of what they do to L_out.
TEST(AgnosticNetwork, TheGradientIsThatOfTheWholeRelaxation) {
  for (std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const std::unique_ptr<ControlledSystem<Vec>> box =
        std::make_unique<conformance::HopfieldBox>(conformance::HopfieldBoxOptions{.seed = seed});
    const Vec u = box->initial_control();
    const auto e = Agnostic<Vec>(*box, {.beta = 1e-3}).estimate(u, {});
    EXPECT_EQ(e.status, Status::converged) << e.message;
    const auto value = [&](const Vec& at) {
      const Rest<Vec> rest = box->settle(at, 0, e.phi);
      return box->outer(rest.phi, at + rest.extension);
    };
    Vec differences(u.size());
    const double h = 1e-3;
    for (Index i = 0; i < u.size(); ++i) {
      const auto at = [&](double steps) {
        Vec moved = u;
        moved[i] += steps * h;
        return value(moved);
      };
      differences[i] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h);
    }
    const double error = (e.gradient - differences).norm();
    std::cout << "seed " << seed << ": relative error " << error / differences.norm() << ", bound "
              << e.certificate.bound / differences.norm() << '\n';
    EXPECT_LE(error, 1e-5 * differences.norm());
    EXPECT_LE(error, e.certificate.bound + 1e-8 * differences.norm());
    // At half the nudge the rest is a quarter: what is left is the bias of β, nothing else.
    const auto half = Agnostic<Vec>(*box, {.beta = 5e-4}).estimate(u, {});
    EXPECT_LE(((4 * half.gradient - e.gradient) / 3 - differences).norm(), 1e-7 * differences.norm());
  }
}

}  // namespace agnostic_test
}  // namespace bilevel
