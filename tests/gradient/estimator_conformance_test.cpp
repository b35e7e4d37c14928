// Every estimator on every problem with ground truth, on three vector types. A new estimator is tested by its
// name in estimator_names(), a new problem by joining the list below.

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <conformance/block_vector.hpp>
#include <gradient/vector_conformance.hpp>

namespace bilevel {
namespace estimator_conformance_test {

using Vec = Eigen::VectorXd;
using testing::applies;
using testing::every_name;
using testing::owed;

struct Case {
  std::string name;
  std::string family;
  problems::Settings settings;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::uint64_t seed : {1, 2, 3}) {
    all.push_back({"quadratic", "quadratic", {.seed = seed}});
    all.push_back({"quadratic_ill", "quadratic", {.phi = 30, .theta = 7, .condition = 1e4, .seed = seed}});
    all.push_back({"quadratic_one", "quadratic", {.phi = 1, .theta = 1, .seed = seed}});
    all.push_back({"log_cosh", "log-cosh", {.seed = seed}});
    all.push_back({"ridge", "ridge", {.penalty = "per-feature", .seed = seed}});
    all.push_back({"ridge_global", "ridge", {.penalty = "global", .seed = seed}});
    all.push_back({"logistic", "logistic", {.penalty = "per-feature", .seed = seed}});
    all.push_back({"logistic_global", "logistic", {.penalty = "global", .seed = seed}});
  }
  all.push_back({"pitchfork", "pitchfork", {}});
  all.push_back({"duopoly", "duopoly", {}});
  return all;
}

/// The closed form, or fourth-order differences of the whole solve where there is none.
Vec truth(problems::ReferenceProblem& problem, const Vec& theta, bool& closed) {
  if (const auto known = problem.outer_gradient(theta)) {
    closed = true;
    return *known;
  }
  closed = false;
  MinimiserOptions tight;
  tight.gradient_tolerance = 1e-13;
  const auto inner = make_inner_solver<Vec>("newton", problem, tight);
  const auto value = [&](const Vec& at) {
    return problem.outer(inner->solve(at, 0, problem.initial_phi()).phi, at, {});
  };
  Vec gradient(theta.size());
  const double h = 2e-3;
  for (Index i = 0; i < theta.size(); ++i) {
    const auto at = [&](double steps) {
      Vec moved = theta;
      moved[i] += steps * h;
      return value(moved);
    };
    gradient[i] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h);
  }
  return gradient;
}

TEST(EstimatorConformance, EveryEstimatorAgreesWithTheTruthOrSaysThatItDoesNot) {
  for (const Case& c : cases()) {
    const auto problem = problems::make(c.family, c.settings);
    Vec theta = problem->initial_theta();
    if (c.family != "pitchfork" && c.family != "duopoly") {
      Vec noise = theta;
      Space<Vec>::random(c.settings.seed + 100, noise);
      theta += 0.3 * noise;
    }
    bool closed = false;
    const Vec expected = truth(*problem, theta, closed);
    for (const std::string& method : every_name()) {
      if (!applies(method, *problem)) continue;
      SCOPED_TRACE(::testing::Message() << c.name << ", seed " << c.settings.seed << ", " << method);
      MinimiserOptions tight;
      tight.gradient_tolerance = 1e-12;
      const auto inner = make_inner_solver<Vec>("newton", *problem, tight);
      EstimatorOptions options;
      options.adjoint.relative_tolerance = 1e-13;
      if (method == "implicit-neumann") options.adjoint.max_iterations = 2000000;
      const auto estimator = make_estimator<Vec>(method, *problem, *inner, options);
      EXPECT_EQ(estimator->name(), method);
      estimator->set_tolerances(1e-12, 1e-13);
      const Estimate<Vec> e = estimator->estimate(theta, {});
      const double error = (e.gradient - expected).norm();
      // Differences of the whole solve carry about nine digits themselves.
      const double slack = (closed ? 1e-8 : 2e-8) * std::max(expected.norm(), 1e-3);
      const double allowed = std::max(slack, owed(method) * expected.norm());
      if (allowed < everywhere) {
        EXPECT_LE(error, allowed) << e.message;
      }
      if (owed(method) <= 1e-8) {
        EXPECT_NE(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason << e.message;
      }
      if (e.certificate.verdict == Verdict::trusted) {
        EXPECT_LE(error, e.certificate.bound + (closed ? 1e-14 : slack)) << e.message << e.certificate.reason;
      }
      EXPECT_TRUE(e.certificate.kind != Kind::rigorous ||
                  error <= e.certificate.bound + (closed ? 1e-14 : slack))
          << "error " << error << ", bound " << e.certificate.bound;
      EXPECT_GT(e.cost.bytes, 0U);
      EXPECT_GT(e.cost.inner_gradients, 0);
      if (method != "ep-agnostic") {  // judges the state at the springs' θ
        EXPECT_NEAR(e.outer_value, problem->outer(e.phi, theta, {}), 1e-14 * (1 + std::abs(e.outer_value)));
      }
    }
  }
}

TEST(EstimatorConformance, CertificatesAreRigorousWhereTheProblemKnowsItsConstants) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(::testing::Message() << c.name << ", seed " << c.settings.seed);
    const auto problem = problems::make(c.family, c.settings);
    const auto inner = make_inner_solver<Vec>("newton", *problem);
    const auto e =
        make_estimator<Vec>("implicit-direct", *problem, *inner)->estimate(problem->initial_theta(), {});
    EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted)
        << e.certificate.reason << " bound " << e.certificate.bound << " " << e.message;
  }
}

/// Everything that loops looks whether it shall end, in either phase and in the certificate: what is asked
/// for before it begins costs next to nothing, and nothing that was cut short is called converged.
TEST(EstimatorConformance, WhoIsAskedToEndEndsAtOnce) {
  for (const std::string family : {"log-cosh", "logistic"}) {
    problems::Settings settings{.seed = 3};
    if (family == "logistic") settings.penalty = "per-feature";
    const auto problem = problems::make(family, settings);
    const Vec theta = problem->initial_theta();
    for (const std::string_view name : inner_solver_names()) {
      SCOPED_TRACE(::testing::Message() << family << ", " << name);
      const StopToken stop([] { return true; });
      problem->obey(&stop);
      const auto inner = make_inner_solver<Vec>(name, *problem);
      const Solution<Vec> s = inner->solve(theta, 0, problem->initial_phi());
      EXPECT_EQ(s.status, Status::interrupted) << s.message;
      EXPECT_LE(s.iterations, 1);
      EXPECT_LE(s.cost.inner_gradients + s.cost.hessian_products, 3);
    }
    for (const std::string& method : every_name()) {
      if (!applies(method, *problem)) continue;
      SCOPED_TRACE(::testing::Message() << family << ", " << method);
      problem->obey(nullptr);
      const auto inner = make_inner_solver<Vec>("newton", *problem);
      const auto estimator = make_estimator<Vec>(method, *problem, *inner);
      const Estimate<Vec> whole = estimator->estimate(theta, {});
      // At every moment of it: looked at for the k-th time, it ends.
      for (const long moment : {0, 1, 3, 7, 20, 60}) {
        SCOPED_TRACE(moment);
        long looks = 0;
        const StopToken stop([&] { return looks++ >= moment; });
        problem->obey(&stop);
        const auto anew = make_estimator<Vec>(method, *problem, *inner);
        const Estimate<Vec> e = anew->estimate(theta, {});
        if (looks <= moment) {
          EXPECT_EQ(e.status, whole.status) << "it was done before";
          continue;
        }
        const double much = whole.cost.gradient_equivalents();
        if (moment == 0) {
          EXPECT_NE(e.status, Status::converged) << e.message;
          EXPECT_LE(e.cost.gradient_equivalents(), 20 + 0.5 * much) << "of " << much;
        }
        EXPECT_LE(e.cost.gradient_equivalents(), much + 20);
        EXPECT_NE(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
      }
      problem->obey(nullptr);
    }
  }
}

}  // namespace estimator_conformance_test

namespace testing {

using OtherTypes = ::testing::Types<conformance::BlockVector, Eigen::VectorXf>;
INSTANTIATE_TYPED_TEST_SUITE_P(OtherVectors, VectorConformance, OtherTypes);

}  // namespace testing
}  // namespace bilevel
