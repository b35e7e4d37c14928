// Situations in which a wrong gradient once looked trustworthy: none of them may be trusted and wrong.

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/problems/pitchfork.hpp>

namespace bilevel {
namespace false_trust_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

Vec vec(std::initializer_list<double> numbers) {
  return Eigen::Map<const Vec>(numbers.begin(), static_cast<Index>(numbers.size()));
}

void expect_honest(const Estimate<Vec>& e, const Vec& truth) {
  const double error = (e.gradient - truth).norm();
  EXPECT_TRUE(e.certificate.verdict != Verdict::trusted || error <= e.certificate.bound)
      << "error " << error << ", bound " << e.certificate.bound << ", trusted: " << e.certificate.reason
      << "; " << e.message;
}

/// A·φ = B·θ exactly.
class ExactSolve final : public InnerSolver<Vec> {
 public:
  ExactSolve(Mat a, Mat b) : a_(std::move(a)), b_(std::move(b)) {}
  std::string_view name() const override { return "exact-solve"; }
  Solution<Vec> solve(const Vec& theta, double, const Vec&) override {
    Solution<Vec> s;
    s.phi = a_.partialPivLu().solve(b_ * theta);
    s.status = Status::converged;
    return s;
  }

 private:
  Mat a_, b_;
};

TEST(FalseTrust, DifferencesOfSolvesThatStandStill) {
  for (const char* family : {"quadratic", "logistic", "ridge"})
    for (const double tolerance : {1e-1, 1e-2, 1e-3, 1e-4})
      for (const char* method : {"finite-difference", "spsa", "evolution-strategies"}) {
        SCOPED_TRACE(::testing::Message() << family << ", " << method << ", inner tolerance " << tolerance);
        const auto problem = problems::make(family, {.seed = 1});
        const Vec theta = problem->initial_theta();
        const auto exact_inner = make_inner_solver<Vec>("newton", *problem, {.gradient_tolerance = 1e-12});
        const auto exact = make_estimator<Vec>("exact", *problem, *exact_inner)->estimate(theta, {});
        const auto inner = make_inner_solver<Vec>("lbfgs", *problem, {.gradient_tolerance = tolerance});
        // A start that the solver finds good enough, so that nothing ever moves.
        const auto e =
            make_estimator<Vec>(method, *problem, *inner)->estimate(theta, {.phi = exact.phi, .pi = {}});
        expect_honest(e, exact.gradient);
      }
}

TEST(FalseTrust, OuterLoopsOnDifferencesFindTheOptimum) {
  for (const char* method : {"finite-difference", "spsa"}) {
    const auto problem = problems::make("logistic", {.penalty = "global", .seed = 2});
    const auto inner = make_inner_solver<Vec>("newton", *problem);
    SolveOptions options;
    options.gradient_tolerance = 1e-5;
    options.box = {Vec::Constant(1, -10), Vec::Constant(1, 10)};
    const auto by = [&](const char* name) {
      const auto estimator = make_estimator<Vec>(name, *problem, *inner);
      const auto optimizer = make_optimizer("lbfgs");
      return solve<Vec>(*estimator, *optimizer, problem->initial_theta(), options);
    };
    const Summary expected = by("implicit-direct"), found = by(method);
    EXPECT_TRUE(found.certificate.verdict != Verdict::trusted ||
                std::abs(found.outer_value - expected.outer_value) <= 1e-7)
        << method << ": " << found.outer_value << " against " << expected.outer_value << "; "
        << found.message;
    EXPECT_NEAR(found.outer_value, expected.outer_value, 1e-6) << method << ": " << found.message;
  }
}

TEST(FalseTrust, AutoDifferencesSolvesAndNotOneFrozenState) {
  const Mat a = (Mat(2, 2) << 1, 0, 0, 1e-4).finished(), b = Mat::Identity(2, 2);
  ResidualFunctions<Vec> f;
  f.initial_phi = [] { return vec({0, 0}); };
  f.initial_theta = [] { return vec({1, 1}); };
  f.residual = [&](const Vec& phi, const Vec& theta, Vec& out) { out = a * phi - b * theta; };
  f.outer = [](const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
    if (wanted.phi) *wanted.phi = vec({0, 1});
    if (wanted.theta) *wanted.theta = 100 * theta;
    return phi[1] + 50 * theta.squaredNorm();
  };
  auto problem = make_problem(f);
  ExactSolve inner(a, b);
  const auto e = make_estimator<Vec>("auto", problem, inner)->estimate(vec({1, 1}), {});
  const Vec truth = vec({100, 10100});
  EXPECT_TRUE(e.message.starts_with("auto chose finite-difference")) << e.message;
  EXPECT_LE((e.gradient - truth).norm(), 1e-6 * truth.norm()) << e.message;
  expect_honest(e, truth);
}

// A nudged phase that stops early in a soft direction, while the free one happens to be exact.
TEST(FalseTrust, ResidualsOfNudgedPhasesInSoftDirections) {
  const Vec stiffness = vec({1, 1e-6}), force = vec({1, 0.009}), truth = force.cwiseQuotient(stiffness);
  Functions<Vec> f;
  f.initial_phi = f.initial_theta = [] { return vec({0, 0}); };
  f.inner = [&](const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
    if (wanted.phi) *wanted.phi = stiffness.cwiseProduct(phi) - theta;
    if (wanted.theta) *wanted.theta = -phi;
    return 0.5 * phi.dot(stiffness.cwiseProduct(phi)) - phi.dot(theta);
  };
  f.outer = [&](const Vec& phi, const Vec&, Wanted<Vec> wanted) {
    if (wanted.phi) *wanted.phi = force;
    if (wanted.theta) wanted.theta->setZero();
    return force.dot(phi);
  };
  auto problem = make_problem(f);
  for (const char* method : {"ep-central", "ep-forward-2", "ep-forward-3", "auto"})
    for (const char* solver : {"lbfgs", "gradient-descent-backtracking"})
      for (const double tolerance : {1e-3, 1e-4})
        for (const double beta : {0.0, 0.1, 0.01, 1e-3}) {
          SCOPED_TRACE(::testing::Message()
                       << method << ", " << solver << ", tolerance " << tolerance << ", beta " << beta);
          const auto inner = make_inner_solver<Vec>(solver, problem, {.gradient_tolerance = tolerance});
          expect_honest(
              make_estimator<Vec>(method, problem, *inner, {.beta = beta})->estimate(vec({0, 0}), {}), truth);
        }
}

// |β|·L_out far above the curvature of L_in, phases so loose that they could explain the bend.
TEST(FalseTrust, SaturatedNudgesWithLoosePhases) {
  constexpr double h = 0.02, q = 400, r = 1000, c = 1e-3, theta = -0.1;
  Functions<Vec> f;
  f.initial_phi = [] { return vec({0}); };
  f.initial_theta = [] { return vec({theta}); };
  f.inner = [](const Vec& phi, const Vec& t, Wanted<Vec> wanted) {
    if (wanted.phi) (*wanted.phi)[0] = h * phi[0] - c * t[0];
    if (wanted.theta) (*wanted.theta)[0] = -c * phi[0];
    return 0.5 * h * phi[0] * phi[0] - c * phi[0] * t[0];
  };
  f.outer = [](const Vec& phi, const Vec& t, Wanted<Vec> wanted) {
    if (wanted.phi) (*wanted.phi)[0] = q * phi[0] + r * t[0];
    if (wanted.theta) (*wanted.theta)[0] = r * phi[0];
    return 0.5 * q * phi[0] * phi[0] + r * t[0] * phi[0];
  };
  auto problem = make_problem(f);
  const double settled = c * theta / h;
  const Vec truth = vec({r * settled + (q * settled + r * theta) / h * c});
  for (const char* method : {"ep-forward-2", "ep-forward-3", "ep-forward-5", "ep-central"})
    for (const double tolerance : {1e-2, 1e-3})
      for (const double beta : {1.0, 0.1, 0.02, 1e-3}) {
        SCOPED_TRACE(::testing::Message() << method << ", tolerance " << tolerance << ", beta " << beta);
        const auto inner = make_inner_solver<Vec>("lbfgs", problem, {.gradient_tolerance = tolerance});
        expect_honest(
            make_estimator<Vec>(method, problem, *inner, {.beta = beta})->estimate(vec({theta}), {}), truth);
      }
}

TEST(FalseTrust, NudgesThatNobodySees) {
  for (const double scale : {1.0, 1e-12})
    for (const double beta : {1e-2, 1e-10, 1e-13}) {
      SCOPED_TRACE(::testing::Message() << "L_out in units of " << scale << ", beta " << beta);
      Functions<Vec> f;
      f.initial_phi = [] { return vec({0}); };
      f.initial_theta = [] { return vec({0.5}); };
      f.inner = [](const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
        const double x = phi[0] - theta[0];
        if (wanted.phi) (*wanted.phi)[0] = x;
        if (wanted.theta) (*wanted.theta)[0] = -x;
        return 0.5 * x * x;
      };
      f.outer = [scale](const Vec& phi, const Vec&, Wanted<Vec> wanted) {
        const double x = phi[0] - 2;
        if (wanted.phi) (*wanted.phi)[0] = scale * x;
        if (wanted.theta) (*wanted.theta)[0] = 0;
        return 0.5 * scale * x * x;
      };
      auto problem = make_problem(f);
      const auto inner = make_inner_solver<Vec>("lbfgs", problem);
      for (const char* method : {"ep-agnostic", "ep-central", "ep-forward-2"})
        expect_honest(
            make_estimator<Vec>(method, problem, *inner, {.outer_tolerance = 1e-6 * scale, .beta = beta})
                ->estimate(vec({0.5}), {}),
            vec({-1.5 * scale}));
    }
}

TEST(FalseTrust, DifferencesThatOverflowHaveNoStatusConverged) {
  const auto problem = problems::make("log-cosh", {});
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  for (const char* method : {"ep-forward-2", "ep-central", "ep-random-sign"}) {
    const auto e = make_estimator<Vec>(method, *problem, *inner, {.beta = 1e-310})
                       ->estimate(problem->initial_theta(), {});
    if (e.gradient.allFinite()) continue;
    EXPECT_EQ(e.status, Status::not_finite) << method;
    EXPECT_EQ(e.certificate.kind, Kind::none) << method;
  }
}

TEST(FalseTrust, AutoReturnsToItsFirstChoiceAfterABadPoint) {
  problems::Pitchfork problem;
  const auto inner = make_inner_solver<Vec>("newton", static_cast<Problem<Vec>&>(problem));
  const auto estimator = make_estimator<Vec>("auto", static_cast<Problem<Vec>&>(problem), *inner);
  const auto choice = [&](double theta) {
    const auto e = estimator->estimate(vec({theta}), {});
    return e.message.substr(0, e.message.find(':'));
  };
  EXPECT_EQ(choice(1), "auto chose implicit-direct");
  choice(0);  // the Hessian is singular where the branches meet
  EXPECT_EQ(choice(1), "auto chose implicit-direct");
}

}  // namespace false_trust_test
}  // namespace bilevel
