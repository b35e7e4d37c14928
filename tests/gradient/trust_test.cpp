// What must never come back with a clean verdict, and that each failure is named.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace bilevel {
namespace {

using Vec = Eigen::VectorXd;

/// Something that settles where it likes.
struct Fixed final : InnerSolver<Vec> {
  explicit Fixed(Vec where) : where_(std::move(where)) {}
  std::string_view name() const override { return "fixed"; }
  Solution<Vec> solve(const Vec&, double, const Vec&) override {
    Solution<Vec> s;
    s.phi = where_;
    s.status = Status::converged;
    s.message = "settled, it says";
    return s;
  }
  Vec where_;
};

/// The estimators that need nothing beyond what every problem here has.
std::vector<std::string> methods() {
  std::vector<std::string> names = estimator_names();
  std::erase(names, "implicit-cg-preconditioned");
  return names;
}

Vec scalar(double x) {
  return Vec::Constant(1, x);
}

// L_in = φ⁴ − θφ² at θ = 1, φ̂ = 0.2: H = 12·0.04 − 2 = −1.52.
TEST(Trust, IndefiniteHessianIsReportedByEveryEstimatorInItsOwnWay) {
  problems::Pitchfork problem;
  Fixed inner(scalar(0.2));
  const auto run = [&](const char* method) {
    return make_estimator<Vec>(method, problem, inner)->estimate(scalar(1), {});
  };
  for (const std::string& method : methods()) {
    SCOPED_TRACE(method);
    const auto e = run(method.c_str());
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
    EXPECT_EQ(e.certificate.kind, Kind::none);
    EXPECT_NE(e.certificate.reason.find("-1.52"), std::string::npos) << e.certificate.reason;
  }
  EXPECT_EQ(run("implicit-cg").status, Status::negative_curvature);
  EXPECT_EQ(run("implicit-direct").status, Status::negative_curvature);
  EXPECT_EQ(run("implicit-neumann").status, Status::diverged);
}

TEST(Trust, SaddleAtRestIsNotTrustedAlthoughItsGradientVanishes) {
  problems::Pitchfork problem;
  Fixed inner(scalar(0));
  for (const std::string& method : methods()) {
    const auto e = make_estimator<Vec>(method, problem, inner)->estimate(scalar(1), {});
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted) << method;
  }
}

TEST(Trust, SingularHessianWhereBranchesMeet) {
  problems::Pitchfork problem;
  const auto inner = make_inner_solver<Vec>("newton", problem);
  for (const std::string& method : methods()) {
    const auto e = make_estimator<Vec>(method, problem, *inner)->estimate(scalar(0), {});
    EXPECT_NE(e.certificate.verdict, Verdict::trusted) << method << ": " << e.certificate.reason;
  }
}

TEST(Trust, UnconvergedPhaseIsAtBestDoubtful) {
  auto problem = problems::Quadratic::random({.condition = 100, .seed = 3});
  MinimiserOptions few;
  few.max_iterations = 3;
  const auto inner = make_inner_solver<Vec>("gradient-descent", problem, few);
  const auto e =
      make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(problem.initial_theta(), {});
  EXPECT_EQ(e.inner_status, Status::iteration_limit);
  EXPECT_EQ(e.status, Status::iteration_limit);
  EXPECT_NE(e.certificate.verdict, Verdict::trusted);

  const auto tight = make_inner_solver<Vec>("newton", problem);
  AdjointOptions short_adjoint;
  short_adjoint.max_iterations = 2;
  const auto f = make_estimator<Vec>("implicit-cg", problem, *tight, short_adjoint)
                     ->estimate(problem.initial_theta(), {});
  EXPECT_EQ(f.adjoint_status, Status::iteration_limit);
  EXPECT_NE(f.certificate.verdict, Verdict::trusted);
  EXPECT_LE((f.gradient - *problem.outer_gradient(problem.initial_theta())).norm(), f.certificate.bound);
}

TEST(Trust, AUsersSolverThatClaimsConvergenceIsMeasuredAnew) {
  auto problem = problems::Quadratic::random({.seed = 4});
  const Vec theta = Vec::Ones(5);
  Vec noise = problem.initial_phi();
  Space<Vec>::random(1, noise);
  for (const double size : {1e-9, 1e-6, 1e-3, 1.0}) {
    Fixed inner(*problem.settled(theta) + size * noise);
    const auto e = make_estimator<Vec>("implicit-direct", problem, inner)->estimate(theta, {});
    const double error = (e.gradient - *problem.outer_gradient(theta)).norm();
    EXPECT_EQ(e.certificate.kind, Kind::rigorous);
    EXPECT_LE(error, e.certificate.bound);
    EXPECT_GE(e.certificate.delta, size * noise.norm() * (1 - 1e-6)) << "δ is a true bound";
    EXPECT_EQ(e.certificate.verdict == Verdict::trusted, size < 1) << size;
  }
}

/// A problem that hides what it knows, so that certificates must measure.
struct Silent final : Problem<Vec> {
  explicit Silent(Problem<Vec>& p) : problem(p) {}
  Vec initial_phi() const override { return problem.initial_phi(); }
  Vec initial_theta() const override { return problem.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> w) override {
    return problem.inner(phi, theta, w);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> w) override {
    return problem.outer(phi, theta, w);
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override {
    problem.linearise(phi, theta, beta, reuse);
  }
  Problem<Vec>& problem;
};

TEST(Trust, WithoutConstantsTheBoundIsEstimatedAndRarelyTooSmall) {
  int below = 0, draws = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const Index size : {Index{12}, Index{260}}) {  // dense eigenvalues, then Lanczos
      if (size > 200 && seed > 4) continue;
      auto known =
          problems::LogCosh::random({.phi = size, .theta = 4, .condition = 50, .epsilon = 1, .seed = seed});
      Silent problem(known);
      const Vec theta = problem.initial_theta();
      const auto tight = make_inner_solver<Vec>("newton", known);
      const Vec truth = make_estimator<Vec>("exact", known, *tight)->estimate(theta, {}).gradient;
      MinimiserOptions loose;
      loose.gradient_tolerance = 1e-4;
      const auto inner = make_inner_solver<Vec>("gradient-descent-backtracking", problem, loose);
      const auto e = make_estimator<Vec>("implicit-cg", problem, *inner, {.relative_tolerance = 1e-4})
                         ->estimate(theta, {});
      EXPECT_EQ(e.certificate.kind, Kind::estimated) << "seed " << seed << ": " << e.certificate.reason;
      ++draws;
      below += (e.gradient - truth).norm() > e.certificate.bound;
    }
  }
  EXPECT_LE(below, draws / 20) << "of " << draws << " draws (seeds 1 to 40)";
}

TEST(Trust, LanczosFindsNegativeCurvatureThatConjugateGradientsMiss) {
  // H = diag(−1, 2, …) and g without a component along the first axis: CG never sees the negative eigenvalue.
  const Index n = 300;
  Functions<Vec> f;
  Vec diagonal = Vec::LinSpaced(n, 1, 3);
  diagonal[0] = -1;
  f.initial_phi = [n] { return Vec(Vec::Zero(n)); };
  f.initial_theta = [] { return Vec(Vec::Ones(1)); };
  f.inner = [diagonal](const Vec& phi, const Vec& theta, Wanted<Vec> w) {
    if (w.phi) *w.phi = diagonal.cwiseProduct(phi) - theta[0] * Vec::Unit(phi.size(), 1);
    if (w.theta) *w.theta = Vec::Constant(1, -phi[1]);
    return 0.5 * phi.dot(diagonal.cwiseProduct(phi)) - theta[0] * phi[1];
  };
  f.outer = [](const Vec& phi, const Vec&, Wanted<Vec> w) {
    if (w.phi) *w.phi = Vec::Unit(phi.size(), 1);
    if (w.theta) w.theta->setZero();
    return phi[1];
  };
  f.hessian_times = [diagonal](const Vec&, const Vec&, double, const Vec& v, Vec& out) {
    out = diagonal.cwiseProduct(v);
  };
  f.cross_times = [](const Vec&, const Vec&, double, const Vec& v, Vec& out) {
    out = Vec::Constant(1, -v[1]);
  };
  f.cross_apply = [](const Vec&, const Vec&, double, const Vec& u, Vec& out) {
    out = -u[0] * Vec::Unit(out.size(), 1);
  };
  auto problem = make_problem(f);
  Vec settled = Vec::Zero(n);
  settled[1] = 1 / diagonal[1];
  Fixed inner(settled);
  const auto e = make_estimator<Vec>("implicit-cg", problem, inner)->estimate(Vec::Ones(1), {});
  EXPECT_EQ(e.adjoint_status, Status::converged);
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
}

TEST(Trust, NotFiniteOracleIsNamed) {
  auto base = problems::Quadratic::random({.seed = 2});
  Functions<Vec> f;
  f.initial_phi = [&] { return base.initial_phi(); };
  f.initial_theta = [&] { return base.initial_theta(); };
  f.inner = [&](const Vec& phi, const Vec& theta, Wanted<Vec> w) { return base.inner(phi, theta, w); };
  f.outer = [&](const Vec& phi, const Vec& theta, Wanted<Vec> w) {
    base.outer(phi, theta, w);
    return std::nan("");
  };
  auto problem = make_problem(f);
  const auto inner = make_inner_solver<Vec>("lbfgs", problem);
  const auto e = make_estimator<Vec>("first-order", problem, *inner)->estimate(base.initial_theta(), {});
  EXPECT_EQ(e.status, Status::not_finite);
  EXPECT_NE(e.message.find("outer loss"), std::string::npos) << e.message;
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
  EXPECT_TRUE(e.gradient.array().isNaN().all());
}

TEST(Trust, FirstOrderProblemsRefuseImplicitDifferentiationBeforeAnyWork) {
  Functions<Vec> f;
  int calls = 0;
  f.initial_phi = [] { return Vec(Vec::Zero(2)); };
  f.initial_theta = [] { return Vec(Vec::Zero(1)); };
  f.inner = [&](const Vec&, const Vec&, Wanted<Vec>) { return ++calls, 0.0; };
  f.outer = [&](const Vec&, const Vec&, Wanted<Vec>) { return ++calls, 0.0; };
  auto problem = make_problem(f);
  const auto inner = make_inner_solver<Vec>("lbfgs", problem);
  for (const std::string& method : methods()) {
    if (method == "first-order") continue;
    EXPECT_THROW(make_estimator<Vec>(method, problem, *inner), InvalidInput) << method;
  }
  EXPECT_EQ(calls, 0);
}

TEST(Trust, BadInputIsNamed) {
  auto problem = problems::Quadratic::random({.seed = 2});
  const auto inner = make_inner_solver<Vec>("newton", problem);
  const auto estimator = make_estimator<Vec>("implicit-cg", problem, *inner);
  const auto message = [&](auto&& call) -> std::string {
    try {
      call();
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_NE(message([&] {
              estimator->estimate(Vec::Zero(3), {});
            }).find("theta has 3 elements, the problem wants 5"),
            std::string::npos);
  EXPECT_NE(message([&] { estimator->estimate(Vec::Constant(5, std::nan("")), {}); }).find("theta holds NaN"),
            std::string::npos);
  EXPECT_NE(message([&] { make_estimator<Vec>("implicit-magic", problem, *inner); }).find("implicit-cg"),
            std::string::npos);
  EXPECT_NE(message([&] {
              make_estimator<Vec>("implicit-cg", problem, *inner, {.relative_tolerance = -1});
            }).find("relative_tolerance = -1"),
            std::string::npos);
  ImplicitOptions bad;
  bad.certificate.secant_safety = 0;
  bad.outer_tolerance = -2;
  const std::string both = message([&] { make_estimator<Vec>("exact", problem, *inner, {}, bad); });
  EXPECT_NE(both.find("secant_safety = 0"), std::string::npos) << both;
  EXPECT_NE(both.find("outer_tolerance = -2"), std::string::npos) << both;
}

TEST(Trust, VerdictFollowsItsDefinition) {
  Certificate c;
  c.kind = Kind::rigorous;
  const auto verdict = [&](double bound, double gradient, double tolerance, bool settled) {
    c.bound = bound;
    c.judge(gradient, tolerance, settled);
    return c.verdict;
  };
  EXPECT_EQ(verdict(0.1, 1, 0, true), Verdict::trusted);
  EXPECT_EQ(verdict(0.11, 1, 0, true), Verdict::doubtful);
  EXPECT_EQ(verdict(1.1, 1, 0, true), Verdict::untrusted);
  EXPECT_EQ(verdict(1e-7, 0, 1e-6, true), Verdict::trusted);
  EXPECT_EQ(verdict(1e-7, 1, 1e-6, false), Verdict::doubtful);
  EXPECT_EQ(verdict(std::nan(""), 1, 1, true), Verdict::untrusted);
  EXPECT_EQ(verdict(0, std::nan(""), 1, true), Verdict::untrusted);
  c.kind = Kind::none;
  EXPECT_EQ(verdict(0, 1, 1, true), Verdict::untrusted);
}

}  // namespace
}  // namespace bilevel
