// Outer gradients of problems whose φ is constrained: closed forms, and differences of the whole solve.
#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problem/functions.hpp>
#include <random_matrix.hpp>

#include "held_states.hpp"

namespace bilevel {
namespace constraints_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// L_in = ½φᵀHφ − φᵀBθ + ¼ε Σ φ⁴, L_out = ½‖φ − t‖² + ½·0.1‖θ‖², under constraints.
struct Bowl {
  Mat h, b;
  Vec target, theta;
  PhiConstraints held;
  double epsilon = 0;
  bool second_order = true;

  Vec initial_phi() const { return Vec::Zero(h.rows()); }
  Vec initial_theta() const { return theta; }
  double inner(const Vec& phi, const Vec& at, Wanted<Vec> wanted) const {
    const Vec hp = h * phi, bt = b * at;
    if (wanted.phi) *wanted.phi = hp - bt + epsilon * phi.array().cube().matrix();
    if (wanted.theta) *wanted.theta = -(b.transpose() * phi);
    return 0.5 * phi.dot(hp) - phi.dot(bt) + 0.25 * epsilon * phi.array().pow(4).sum();
  }
  double outer(const Vec& phi, const Vec& at, Wanted<Vec> wanted) const {
    return held_states::outer(target, phi, at, wanted);
  }
};

Functions<Vec> functions(const Bowl& p) {
  Functions<Vec> f;
  f.initial_phi = [p] { return p.initial_phi(); };
  f.initial_theta = [p] { return p.initial_theta(); };
  f.inner = [p](const Vec& a, const Vec& t, Wanted<Vec> w) { return p.inner(a, t, w); };
  f.outer = [p](const Vec& a, const Vec& t, Wanted<Vec> w) { return p.outer(a, t, w); };
  f.phi_constraints = [p] { return p.held; };
  if (!p.second_order) return f;
  f.hessian_times = [p](const Vec& a, const Vec&, double beta, const Vec& v, Vec& out) {
    out = p.h * v + beta * v + (3 * p.epsilon * a.array().square() * v.array()).matrix();
  };
  f.cross_times = [p](const Vec&, const Vec&, double, const Vec& v, Vec& out) {
    out = -(p.b.transpose() * v);
  };
  f.cross_apply = [p](const Vec&, const Vec&, double, const Vec& u, Vec& out) { out = -(p.b * u); };
  return f;
}

Bowl bowl(std::uint64_t seed, Index n, Index m) {
  const Mat a = random_matrix(seed, n, n);
  return {a * a.transpose() / static_cast<double>(n) + 0.3 * Mat::Identity(n, n),
          random_matrix(seed + 100, n, m),
          random_matrix(seed + 200, n, 1),
          random_matrix(seed + 300, m, 1),
          {}};
}

Estimate<Vec> estimate(Bowl p, std::string_view method, std::string_view inner_name = "newton") {
  auto problem = make_problem(functions(p));
  const auto inner = make_inner_solver<Vec>(inner_name, problem, {.gradient_tolerance = 1e-12});
  return make_estimator<Vec>(method, problem, *inner)->estimate(p.theta, {});
}

/// The value of the whole solve, for differences of it.
double value(Bowl p, const Vec& theta) {
  p.theta = theta;
  auto problem = make_problem(functions(p));
  const Vec phi = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-13})
                      ->solve(theta, 0, Vec::Zero(p.h.rows()))
                      .phi;
  return p.outer(phi, theta, {});
}

Vec differences(const Bowl& p) {
  Vec g(p.theta.size());
  for (Index j = 0; j < g.size(); ++j) {
    const auto at = [&](double h) { return value(p, p.theta + h * Vec::Unit(g.size(), j)); };
    constexpr double h = 1e-4;
    g[j] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  }
  return g;
}

/// Of the quadratic with these active rows: [H Nᵀ; N 0] solved for the adjoint.
Vec by_kkt(const Bowl& p, const Vec& phi, const Mat& n) {
  const Index k = phi.size(), q = n.rows();
  Mat kkt = Mat::Zero(k + q, k + q);
  kkt.topLeftCorner(k, k) = p.h;
  kkt.diagonal().head(k) += (3 * p.epsilon * phi.array().square()).matrix();
  kkt.topRightCorner(k, q) = n.transpose();
  kkt.bottomLeftCorner(q, k) = n;
  Vec right = Vec::Zero(k + q);
  right.head(k) = phi - p.target;
  return 0.1 * p.theta + p.b.transpose() * kkt.fullPivLu().solve(right).head(k);
}

/// The rows that φ meets with equality.
Mat active_rows(const PhiConstraints& c, const Vec& phi) {
  std::vector<Vec> rows;
  for (Index i = 0; i < c.equal.rows(); ++i) rows.push_back(c.equal.row(i).transpose());
  for (Index i = 0; i < phi.size(); ++i)
    if ((c.lower.size() && phi[i] == c.lower[i]) || (c.upper.size() && phi[i] == c.upper[i]))
      rows.push_back(Vec::Unit(phi.size(), i));
  for (Index i = 0; i < c.below.rows(); ++i)
    if (std::abs(c.below.row(i).dot(phi) - c.below_to[i]) < 1e-9) rows.push_back(c.below.row(i).transpose());
  Mat n(static_cast<Index>(rows.size()), phi.size());
  for (std::size_t i = 0; i < rows.size(); ++i) n.row(static_cast<Index>(i)) = rows[i].transpose();
  return n;
}

std::vector<PhiConstraints> kinds(std::uint64_t seed, Index n) {
  PhiConstraints linear;
  linear.below = random_matrix(seed + 600, 4, n);
  linear.below_to = Vec::Constant(4, 0.1);
  PhiConstraints equal;
  equal.equal = random_matrix(seed + 700, 2, n);
  equal.equal_to = (Vec(2) << 0.3, -0.2).finished();
  return {PhiConstraints::box(Vec::Constant(n, -0.4), Vec::Constant(n, 0.3)),
          PhiConstraints::box(Vec::Zero(n), Vec()),
          PhiConstraints::simplex(n),
          PhiConstraints::simplex(n, 2.5),
          linear,
          equal,
          held_states::mixed(seed, n)};
}

TEST(Constraints, GradientsAreThoseOfTheClosedFormAndOfDifferencesOfTheWholeSolve) {
  int trusted = 0, all = 0, held = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::size_t kind = 0;
    for (const PhiConstraints& constraints : kinds(seed, 7)) {
      for (const double epsilon : {0.0, 0.5}) {
        Bowl p = bowl(seed, 7, 3);
        p.held = constraints;
        p.epsilon = epsilon;
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", kind " << kind << ", epsilon " << epsilon);
        const Estimate<Vec> e = estimate(p, "implicit-direct");
        EXPECT_EQ(e.inner_status, Status::converged) << e.message;
        if (constraints.lower.size()) {
          EXPECT_GE((e.phi - constraints.lower).minCoeff(), 0);
        }
        if (constraints.upper.size()) {
          EXPECT_LE((e.phi - constraints.upper).maxCoeff(), 0);
        }
        const Mat n = active_rows(constraints, e.phi);
        held += static_cast<int>(n.rows());
        const Vec truth = by_kkt(p, e.phi, n);
        EXPECT_LE((e.gradient - truth).norm(), 1e-8 * (1 + truth.norm())) << e.message;
        EXPECT_LE((e.gradient - differences(p)).norm(), 1e-7 * (1 + truth.norm())) << e.certificate.reason;
        ++all;
        if (e.certificate.verdict == Verdict::trusted) {
          ++trusted;
          // The reference has rounding errors of its own.
          EXPECT_LE((e.gradient - truth).norm(), e.certificate.bound + 1e-14 * (1 + truth.norm()));
          EXPECT_EQ(e.certificate.kind, Kind::estimated);
        }
      }
      ++kind;
    }
  }
  EXPECT_GE(trusted, all * 9 / 10);
  EXPECT_GE(held, all);  // they do hold something
}

TEST(Constraints, TheProjectionOntoASimplexIsTheKnownOne) {
  // min ½‖φ − y‖² on the simplex: φ = max(y − τ, 0).
  Bowl p{Mat::Identity(4, 4), Mat::Identity(4, 4), Vec::Zero(4), (Vec(4) << 0.9, 0.5, -0.3, 0.2).finished(),
         PhiConstraints::simplex(4)};
  const Estimate<Vec> e = estimate(p, "implicit-direct");
  const Vec expected =
      (Vec(4) << 0.7, 0.3, 0, 0).finished();  // τ = 0.2: the last is touched, and held by nothing
  EXPECT_LE((e.phi - expected).norm(), 1e-12);
  EXPECT_EQ(e.certificate.verdict, Verdict::doubtful);
  EXPECT_NE(e.certificate.reason.find("lower bound of element 3"), std::string::npos) << e.certificate.reason;
  p.theta[3] = 0.1;  // now it is held
  const Estimate<Vec> sure = estimate(p, "implicit-direct");
  EXPECT_LE((sure.phi - expected).norm(), 1e-12);
  EXPECT_EQ(sure.certificate.verdict, Verdict::trusted) << sure.certificate.reason;
  // dφ/dθ = I − 11ᵀ/2 on the two that are free.
  const double mean = 0.5 * (0.7 + 0.3);
  const Vec gradient = 0.1 * p.theta + (Vec(4) << 0.7 - mean, 0.3 - mean, 0, 0).finished();
  EXPECT_LE((sure.gradient - gradient).norm(), 1e-12);
}

TEST(Constraints, AMultiplierThatVanishesMakesTheGradientOneSided) {
  for (const double excess : {-1e-9, 0.0, 1e-9, 1e-3, -1e-3}) {
    SCOPED_TRACE(excess);
    Bowl p{Mat::Identity(2, 2), Mat::Identity(2, 2), Vec::Ones(2), (Vec(2) << 1 + excess, 0.5).finished(),
           PhiConstraints::box(Vec::Constant(2, -1), Vec::Ones(2))};
    const Estimate<Vec> e = estimate(p, "implicit-direct");
    const bool near = std::abs(excess) < 1e-6;
    EXPECT_EQ(e.certificate.verdict, near ? Verdict::doubtful : Verdict::trusted) << e.certificate.reason;
    EXPECT_EQ(e.certificate.reason.find("upper bound of element 0") != std::string::npos, near)
        << e.certificate.reason;
  }
}

TEST(Constraints, AMultiplierIsJudgedTheSameAtBothEndsOfABoxAndInAnyUnit) {
  // φ* is θ put into [0, 1]: at either end the multiplier is what θ lies outside by.
  for (const double unit : {1e-6, 1.0, 1e6})
    for (const bool upper : {false, true})
      for (const double outside : {1e-2, 1e-4, 1e-8, 1e-12, 1e-17}) {
        SCOPED_TRACE(::testing::Message()
                     << "unit " << unit << ", upper " << upper << ", outside " << outside);
        Bowl p{unit * Mat::Identity(1, 1), unit * Mat::Identity(1, 1), Vec::Constant(1, 3),
               Vec::Constant(1, upper ? 1 + outside : -outside),
               PhiConstraints::box(Vec::Zero(1), Vec::Ones(1))};
        const Estimate<Vec> e = estimate(p, "implicit-direct");
        const bool near = outside < 1e-6;
        EXPECT_EQ(e.certificate.verdict, near ? Verdict::doubtful : Verdict::trusted) << e.certificate.reason;
      }
}

TEST(Constraints, EveryEstimatorDoesRightOrRefuses) {
  Bowl p = bowl(3, 6, 3);
  p.held = PhiConstraints::box(Vec::Constant(6, -0.4), Vec::Constant(6, 0.3));
  const Vec truth = estimate(p, "implicit-direct").gradient;
  int served = 0;
  for (const std::string& method : estimator_names()) {
    SCOPED_TRACE(method);
    try {
      const Estimate<Vec> e = estimate(p, method);
      ++served;
      if (e.certificate.verdict == Verdict::trusted) {
        EXPECT_LE((e.gradient - truth).norm(), e.certificate.bound + 1e-9) << e.message;
      }
      if (method == "exact" || method == "auto" || method == "implicit-cg" || method == "implicit-gmres") {
        EXPECT_LE((e.gradient - truth).norm(), 1e-8 * truth.norm()) << e.message;
      }
      if (method == "ep-central" || method == "finite-difference") {
        EXPECT_LE((e.gradient - truth).norm(), 1e-5 * truth.norm()) << e.message;
      }
    } catch (const InvalidInput& refusal) {
      const std::string why = refusal.what();
      // Or for another reason, as without constraints: no diagonal, no preconditioner, nothing inherited.
      EXPECT_TRUE(why.find("constraints on phi") != std::string::npos || method.starts_with("implicit-cg-"))
          << why;
    }
  }
  EXPECT_GE(served, 10);
}

TEST(Constraints, FirstDerivativesAreEnoughToSettle) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    for (const PhiConstraints& constraints : kinds(seed, 7)) {
      SCOPED_TRACE(seed);
      Bowl p = bowl(seed, 7, 3);
      p.held = constraints;
      p.epsilon = 0.5;
      const Vec expected = estimate(p, "implicit-direct").phi;
      p.second_order = false;
      auto problem = make_problem(functions(p));
      const Solution<Vec> s = make_inner_solver<Vec>("lbfgs", problem, {.gradient_tolerance = 1e-9})
                                  ->solve(p.theta, 0, problem.initial_phi());
      EXPECT_EQ(s.status, Status::converged) << s.message;
      EXPECT_LE((s.phi - expected).norm(), 1e-7);
    }
}

TEST(Constraints, AnActiveBoundThatIsCoupledToTheRestIsNoSaddle) {
  // φ = (0, θ), held at 0 by a bound that H couples to the free element.
  Bowl p{(Mat(2, 2) << 1, 0.9, 0.9, 1).finished(), Mat(2, 2), Vec::Constant(2, 3), Vec::Ones(2),
         PhiConstraints::box(Vec::Zero(2), Vec::Constant(2, 10))};
  p.b << -1, 0, 0, 1;
  for (const bool second_order : {false, true}) {
    p.second_order = second_order;
    for (const char* method : {"auto", "ep-central", "ep-forward-3", "finite-difference"}) {
      SCOPED_TRACE(testing::Message() << method << ", second order " << second_order);
      const Estimate<Vec> e = estimate(p, method, second_order ? "newton" : "lbfgs");
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
      EXPECT_LE((e.gradient - (Vec(2) << 0.1, 0.1 + 1 - 3).finished()).norm(), 1e-6) << e.message;
    }
    auto problem = make_problem(functions(p));
    const Summary s = minimise(static_cast<Problem<Vec>&>(problem));
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.theta - (Vec(2) << 0, 3 / 1.1).finished()).norm(), 1e-4);
    EXPECT_LE((s.phi - (Vec(2) << 0, 3 / 1.1).finished()).norm(), 1e-4);
  }
}

TEST(Constraints, FirstDerivativesAreTrustedWhereSecondOnesAre) {
  for (const char* method : {"ep-central", "finite-difference", "auto"}) {
    int all = 0, trusted = 0;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      std::size_t kind = 0;
      for (const PhiConstraints& constraints : kinds(seed, 7)) {
        Bowl p = bowl(seed, 7, 3);
        p.held = constraints;
        SCOPED_TRACE(testing::Message() << method << ", seed " << seed << ", kind " << kind++);
        if (estimate(p, "implicit-direct").certificate.verdict != Verdict::trusted) continue;
        p.second_order = false;
        auto problem = make_problem(functions(p));
        const auto inner = make_inner_solver<Vec>("lbfgs", problem, {.gradient_tolerance = 1e-10});
        const Estimate<Vec> e = make_estimator<Vec>(method, problem, *inner)->estimate(p.theta, {});
        const Mat held = active_rows(p.held, e.phi);
        const Vec truth = by_kkt(p, e.phi, held);
        EXPECT_LE((e.gradient - truth).norm(), 1e-5 * (1 + truth.norm())) << e.message;
        if (held.rows() == 7) continue;  // at a vertex nothing moves, and methods may find no scales there
        EXPECT_NE(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
        ++all;
        trusted += e.certificate.verdict == Verdict::trusted;
      }
    }
    EXPECT_GE(trusted, all * 9 / 10) << method << ": " << trusted << " of " << all;
    EXPECT_GE(all, 30);
  }
}

/// |φ₀| + ½(φ₀ − θ)² + ½(φ₁ − θ − 2)² settles at the kink where |θ| < 1.
struct Kinked final : Problem<Vec> {
  Vec initial_phi() const override { return Vec::Zero(2); }
  Vec initial_theta() const override { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    const Vec away = (Vec(2) << phi[0] - theta[0], phi[1] - theta[0] - 2).finished();
    if (wanted.phi) *wanted.phi = away + Vec::Unit(2, 0) * ((phi[0] > 0) - (phi[0] < 0));
    if (wanted.theta) *wanted.theta = Vec::Constant(1, -away.sum());
    return std::abs(phi[0]) + 0.5 * away.squaredNorm();
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = (Vec(2) << phi[0] - 2, 1).finished();
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi[0] - 2) * (phi[0] - 2) + phi[1];
  }
  struct Here final : Curvature<Vec> {
    double stiffness = 1;
    void times(const Vec& v, Vec& out) override { out = stiffness * v; }
    void cross_times(const Vec& v, Vec& out) override { out = Vec::Constant(1, -v.sum()); }
    void cross_apply(const Vec& u, Vec& out) override { out = Vec::Constant(2, -u[0]); }
  };
  void linearise(const Vec&, const Vec&, double, std::unique_ptr<Curvature<Vec>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Here>();
  }
  std::string kink(const Vec& phi, const Vec&) override { return phi[0] == 0 ? "|φ| is at its tip" : ""; }
  PhiConstraints phi_constraints() const override {
    return PhiConstraints::box(Vec(), (Vec(2) << everywhere, 1).finished());
  }
};

TEST(Constraints, AKinkAlongTheFaceIsSeen) {
  Kinked problem;
  const auto inner = make_inner_solver<Vec>("newton", problem);
  const Estimate<Vec> e =
      make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(problem.initial_theta(), {});
  ASSERT_EQ(e.phi, (Vec(2) << 0, 1).finished()) << e.message;
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
  EXPECT_NE(e.certificate.reason.find("|φ| is at its tip"), std::string::npos) << e.certificate.reason;
}

TEST(Constraints, WhoCannotObeySaysSo) {
  Bowl p = bowl(1, 4, 2);
  p.held = PhiConstraints::box(Vec::Zero(4), Vec());
  auto problem = make_problem(functions(p));
  for (const char* inner :
       {"gradient-descent", "nesterov", "adam", "trust-region", "anderson", "broyden", "newton-krylov"})
    EXPECT_THROW(make_inner_solver<Vec>(inner, problem), InvalidInput) << inner;
  p.held.lower.resize(3);
  auto wrong = make_problem(functions(p));
  EXPECT_THROW(make_inner_solver<Vec>("newton", wrong), InvalidInput);
  p.held = PhiConstraints::simplex(4, -1);  // nothing satisfies it
  auto empty = make_problem(functions(p));
  const auto inner = make_inner_solver<Vec>("newton", empty);
  EXPECT_THROW(inner->solve(p.theta, 0, Vec::Zero(4)), InvalidInput);
}

TEST(Constraints, TheOuterLoopLearnsUnderThem) {
  Bowl p = bowl(5, 6, 3);
  p.held = PhiConstraints::simplex(6);
  auto problem = make_problem(functions(p));
  const Summary s = minimise(static_cast<Problem<Vec>&>(problem));
  EXPECT_NEAR(s.phi.sum(), 1, 1e-9);
  EXPECT_GE(s.phi.minCoeff(), 0);
  EXPECT_LE(s.outer_value, value(p, p.theta));
}

}  // namespace constraints_test
}  // namespace bilevel
