// What equilibrium propagation must refuse or flag, and how it says so.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/problems/quadratic.hpp>

#include <gradient/propagation_names.hpp>
#include "settling.hpp"

namespace bilevel {
namespace nudged_trust_test {

using namespace nudged_tests;

Vec scalar(double x) {
  return Vec::Constant(1, x);
}

/// L_in = φ⁴ − θφ² with L_out = ½(φ − y)², y of either sign; constants on request.
struct Fork {
  double y = -1;
  Vec initial_phi() const { return scalar(1); }
  Vec initial_theta() const { return scalar(1); }
  double inner(const Vec& p, const Vec& t, Wanted<Vec> w) const {
    if (w.phi) *w.phi = scalar(4 * std::pow(p[0], 3) - 2 * t[0] * p[0]);
    if (w.theta) *w.theta = scalar(-p[0] * p[0]);
    return std::pow(p[0], 4) - t[0] * p[0] * p[0];
  }
  double outer(const Vec& p, const Vec&, Wanted<Vec> w) const {
    if (w.phi) *w.phi = scalar(p[0] - y);
    if (w.theta) *w.theta = scalar(0);
    return 0.5 * (p[0] - y) * (p[0] - y);
  }
};

TEST(EquilibriumPropagationTrust, PhaseInAnotherBasinIsFlagged) {
  auto problem = make_problem<Vec>(Fork{});
  const auto lbfgs = solver("gradient-descent-backtracking", problem, 1e-10);
  const double root = std::sqrt(0.5), truth = (root + 1) / (4 * root);
  const auto weak = propagation("ep-forward-2", problem, *lbfgs, 1e-4).estimate(scalar(1), {});
  EXPECT_NEAR(weak.gradient[0], truth, 1e-3);
  EXPECT_EQ(weak.certificate.verdict, Verdict::trusted) << weak.certificate.reason;
  for (const char* name : {"ep-forward-2", "ep-forward-3", "ep-forward-5"})
    for (const double beta : {1.0, 2.0, 3.0}) {
      const auto strong = propagation(name, problem, *lbfgs, beta).estimate(scalar(1), {});
      EXPECT_GT(std::abs(strong.gradient[0] - truth), 0.1);
      EXPECT_EQ(strong.certificate.verdict, Verdict::untrusted) << beta << strong.certificate.reason;
      EXPECT_EQ(strong.certificate.kind, Kind::none);
      if (beta == 1) {
        EXPECT_NE(strong.certificate.reason.find("another basin"), std::string::npos)
            << strong.certificate.reason;
      }
    }
  // The choice stays on the branch.
  for (const std::string& name : equilibrium_propagation_names()) {
    const auto e = propagation(name, problem, *lbfgs, 0).estimate(scalar(1), {});
    EXPECT_NEAR(e.gradient[0], truth, 1e-4) << name << e.message;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
  }
}

TEST(EquilibriumPropagationTrust, AwayFromAMinimumItIsFiniteWrongGrowsAndIsFlagged) {
  problems::Pitchfork known;
  auto unknown_constants = make_problem<Vec>(Fork{.y = 1});
  const double truth = (*known.outer_gradient(scalar(1)))[0];
  for (Problem<Vec>* problem :
       {static_cast<Problem<Vec>*>(&known), static_cast<Problem<Vec>*>(&unknown_constants)}) {
    const auto newton = solver("lbfgs", *problem, 1e-12);
    // The free phase is told to stay at 0.2, where the Hessian is −1.52.
    Settling stuck([&](const Vec& theta, double beta, const Vec&) {
      return beta == 0 ? scalar(0.2) : newton->solve(theta, beta, scalar(1)).phi;
    });
    Settling all_stuck([](const Vec&, double, const Vec&) { return scalar(0.2); });
    double last = 0;
    for (const double beta : {1e-1, 1e-2, 1e-3, 1e-4}) {
      const auto e = propagation("ep-forward-2", *problem, stuck, beta).estimate(scalar(1), {});
      ASSERT_TRUE(all_finite(e.gradient));
      const double error = std::abs(e.gradient[0] - truth);
      EXPECT_GT(error, 5 * last);
      last = error;
      EXPECT_EQ(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
      EXPECT_NE(e.certificate.reason.find("settled"), std::string::npos) << e.certificate.reason;
      EXPECT_EQ(
          propagation("ep-central", *problem, all_stuck, beta).estimate(scalar(1), {}).certificate.verdict,
          Verdict::untrusted);
    }
    for (const std::string& name : equilibrium_propagation_names()) {
      EXPECT_EQ(propagation(name, *problem, stuck, 0).estimate(scalar(1), {}).certificate.verdict,
                Verdict::untrusted);
      EXPECT_EQ(propagation(name, *problem, all_stuck, 0).estimate(scalar(1), {}).certificate.verdict,
                Verdict::untrusted);
    }
  }
}

// At φ = 0 the pitchfork is stationary and no minimum: a solver that finds stationary points follows that
// branch.
TEST(EquilibriumPropagationTrust, SaddleIsSeenByTheDisplacement) {
  auto problem = make_problem<Vec>(Fork{.y = 0.3});
  Settling branch([](const Vec& theta, double beta, const Vec&) {
    double p = 0;
    for (int i = 0; i < 50; ++i)
      p -= (4 * p * p * p - 2 * theta[0] * p + beta * (p - 0.3)) / (12 * p * p - 2 * theta[0] + beta);
    return scalar(p);
  });
  for (const char* name : {"ep-forward-2", "ep-forward-4", "ep-central"}) {
    const auto e = propagation(name, problem, branch, 1e-3).estimate(scalar(1), {});
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
    EXPECT_EQ(e.status, Status::negative_curvature);
    EXPECT_NE(e.certificate.reason.find("no minimum"), std::string::npos) << e.certificate.reason;
  }
}

// L_in = L‖φ‖²/2 − φθ, L_out = m‖φ‖²/2 − φ: nothing to settle in once β < −L/m.
TEST(EquilibriumPropagationTrust, NegativeBetaBeyondThePoleIsRefused) {
  const double big = 2, m = 0.5;
  const auto eye = [](double x) { return Eigen::MatrixXd(x * Eigen::MatrixXd::Identity(3, 3)); };
  problems::Quadratic problem(eye(big), eye(1), Vec::Zero(3), eye(m), Vec::Constant(3, 2));
  const Vec theta = Vec::Constant(3, 0.7), truth = *problem.outer_gradient(theta);
  const auto newton = solver("newton", problem, 1e-12);
  for (const char* name : {"ep-central", "ep-random-sign"})
    for (const double beta : {4.0, 4.5, 100.0, -5.0}) {
      const auto e = propagation(name, problem, *newton, beta).estimate(theta, {});
      EXPECT_EQ(e.status, Status::negative_curvature);
      EXPECT_TRUE(std::isnan(e.gradient[0]));
      EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
      EXPECT_NE(e.certificate.reason.find("minimum"), std::string::npos);
    }
  EXPECT_EQ(propagation("ep-forward-2", problem, *newton, -4.5).estimate(theta, {}).status,
            Status::negative_curvature);
  for (const char* name : {"ep-central", "ep-random-sign"}) {
    const auto e = propagation(name, problem, *newton, 0.01).estimate(theta, {});
    EXPECT_EQ(e.status, Status::converged) << e.message;
    EXPECT_LE((e.gradient - truth).norm(), 0.01 * truth.norm());
  }
  // Forward stays finite: its closed form is truth·L/(L + βm).
  const auto forward = propagation("ep-forward-2", problem, *newton, 100).estimate(theta, {});
  EXPECT_LE((forward.gradient - truth * big / (big + 100 * m)).norm(), 1e-10);
  EXPECT_NE(forward.certificate.verdict, Verdict::trusted);
  // Constants unknown: the phase diverges, and that is the answer.
  FirstOrder hidden(problem);
  const auto descent = solver("gradient-descent-backtracking", hidden, 1e-10);
  const auto e = propagation("ep-central", hidden, *descent, 10).estimate(theta, {});
  EXPECT_FALSE(succeeded(e.status)) << e.message;
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
  EXPECT_FALSE(e.certificate.reason.empty());
}

TEST(EquilibriumPropagationTrust, RoundingIsNamedWhereBetaIsTooSmall) {
  auto problem = problems::Quadratic::random({.phi = 6, .theta = 3, .condition = 10, .seed = 3});
  const Vec theta = Vec::Ones(3), truth = *problem.outer_gradient(theta);
  Settling phases([&](const Vec& t, double beta, const Vec&) { return problem.settled(t, beta); });
  FirstOrder hidden(problem);
  for (Problem<Vec>* p : {static_cast<Problem<Vec>*>(&problem), static_cast<Problem<Vec>*>(&hidden)})
    for (const char* name : {"ep-forward-2", "ep-forward-4", "ep-central"}) {
      const auto e = propagation(name, *p, phases, 1e-15).estimate(theta, {});
      EXPECT_NE(e.certificate.verdict, Verdict::trusted);
      EXPECT_NE(e.certificate.reason.find("rounding dominates"), std::string::npos) << e.certificate.reason;
      EXPECT_LE((e.gradient - truth).norm(), e.certificate.bound);
    }
}

TEST(EquilibriumPropagationTrust, InvalidInputIsRefusedBeforeAnyWork) {
  auto problem = problems::Quadratic::random({.phi = 4, .theta = 2, .seed = 1});
  const auto newton = solver("newton", problem, 1e-10);
  const auto refused = [&](EquilibriumPropagationOptions options, const char* words) {
    try {
      EquilibriumPropagation<Vec>(problem, *newton, options);
      ADD_FAILURE() << "accepted: " << words;
    } catch (const InvalidInput& why) {
      EXPECT_NE(std::string(why.what()).find(words), std::string::npos) << why.what();
    }
  };
  refused({.points = 1}, "points = 1");
  refused({.points = 9}, "points = 9");
  refused({.beta = std::nan("")}, "beta = nan");
  refused({.beta = everywhere}, "beta = inf");
  refused({.patience = 0}, "patience = 0");
  refused({.outer_tolerance = -1}, "outer_tolerance = -1");
  EXPECT_EQ((EquilibriumPropagationOptions{.points = 1, .beta = everywhere}.validate().texts().size()), 2U);
  EXPECT_THROW(estimator_named("ep-forward-9"), InvalidInput);
  EXPECT_THROW(estimator_named("ep"), InvalidInput);
  auto estimator = propagation("ep-central", problem, *newton, 0);
  EXPECT_THROW(estimator.estimate(Vec::Zero(3), {}), InvalidInput);
  Settling wrong_size([](const Vec&, double beta, const Vec&) { return Vec(Vec::Zero(beta == 0 ? 4 : 5)); });
  EXPECT_THROW(propagation("ep-forward-2", problem, wrong_size, 0.1).estimate(Vec::Zero(2), {}),
               InvalidInput);
}

TEST(EquilibriumPropagationTrust, NotANumberIsNamed) {
  auto problem = problems::Quadratic::random({.phi = 4, .theta = 2, .seed = 1});
  for (const double bad : {0.0, 0.1, 0.2}) {
    Settling broken([&](const Vec& theta, double beta, const Vec&) {
      return beta == bad ? Vec(Vec::Constant(4, std::nan(""))) : problem.settled(theta, beta);
    });
    const auto e = propagation("ep-forward-3", problem, broken, 0.1).estimate(Vec::Ones(2), {});
    EXPECT_EQ(e.status, Status::not_finite);
    EXPECT_TRUE(std::isnan(e.gradient[0]));
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
  }
  // Nothing but the free phase settles: there is no β to choose, and no exception either.
  Settling free_only([&](const Vec& theta, double beta, const Vec&) {
    return beta == 0 ? problem.settled(theta, 0) : Vec(Vec::Constant(4, std::nan("")));
  });
  for (const std::string& name : equilibrium_propagation_names()) {
    auto estimator = propagation(name, problem, free_only, 0);
    for (int k = 0; k < 2; ++k) {
      const auto e = estimator.estimate(Vec::Ones(2), {});
      EXPECT_EQ(e.status, Status::not_finite);
      EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
    }
  }
}

}  // namespace nudged_trust_test
}  // namespace bilevel
