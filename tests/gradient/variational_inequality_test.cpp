// Equilibria under constraints: games whose players have limits, and programmes whose limits move.
#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/inner/variational_inequality.hpp>
#include <random_matrix.hpp>

#include "held_states.hpp"

namespace bilevel {
namespace variational_inequality_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// F = Mφ + εφ³ − Bθ, M not symmetric; L_out = ½‖φ − t‖² + ½·0.1‖θ‖².
struct Game {
  Mat m, b;
  Vec target, theta;
  PhiConstraints held;
  double epsilon = 0;

  Vec initial_phi() const { return Vec::Zero(m.rows()); }
  Vec initial_theta() const { return theta; }
  PhiConstraints phi_constraints() const { return held; }
  void residual(const Vec& phi, const Vec& at, Vec& out) const {
    out = m * phi - b * at + epsilon * phi.array().cube().matrix();
  }
  double outer(const Vec& phi, const Vec& at, Wanted<Vec> wanted) const {
    return held_states::outer(target, phi, at, wanted);
  }
  Vec bend(const Vec& phi, double beta) const { return 3 * epsilon * phi.array().square() + beta; }
  void hessian_times(const Vec& phi, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = m * v + bend(phi, beta).cwiseProduct(v);
  }
  void hessian_transpose_times(const Vec& phi, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = m.transpose() * v + bend(phi, beta).cwiseProduct(v);
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = -(b.transpose() * v);
  }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const { out = -(b * u); }
};

/// Monotone: the symmetric part is positive definite, the rest as large as it.
Game game(std::uint64_t seed, Index n, Index m) {
  const Mat a = random_matrix(seed, n, n), turn = random_matrix(seed + 50, n, n);
  return {a * a.transpose() / static_cast<double>(n) + 0.3 * Mat::Identity(n, n) +
              0.5 * (turn - turn.transpose()),
          random_matrix(seed + 100, n, m),
          random_matrix(seed + 200, n, 1),
          random_matrix(seed + 300, m, 1),
          {}};
}

std::vector<PhiConstraints> kinds(std::uint64_t seed, Index n) {
  return {PhiConstraints::box(Vec::Constant(n, -0.4), Vec::Constant(n, 0.3)),
          PhiConstraints::box(Vec::Zero(n), Vec()), PhiConstraints::simplex(n), held_states::mixed(seed, n)};
}

/// The state of a game whose constraints are held, and the gradient.
Estimate<Vec> estimate(const Game& g, const char* method = "implicit-direct") {
  auto free = make_problem(g);
  VariationalInequality held(free);
  const auto inner = held.solver(NewtonKrylovOptions{}, {.gradient_tolerance = 1e-12});
  return make_estimator<Vec>(method, static_cast<Equilibrium<Vec>&>(held), *inner)->estimate(g.theta, {});
}

Vec differences(const Game& g) {
  Vec out(g.theta.size());
  for (Index j = 0; j < out.size(); ++j) {
    const auto at = [&](double h) {
      Game moved = g;
      moved.theta[j] += h;
      return estimate(moved).outer_value;
    };
    constexpr double h = 1e-4;
    out[j] = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  }
  return out;
}

TEST(VariationalInequality, NobodyGainsByMovingAndGradientsAreThoseOfTheWholeSolve) {
  int all = 0, trusted = 0, held = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    int kind = 0;
    for (const PhiConstraints& constraints : kinds(seed, 6))
      for (const double epsilon : {0.0, 0.5}) {
        Game g = game(seed, 6, 3);
        g.held = constraints;
        g.epsilon = epsilon;
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << ", kind " << kind++ / 2 << ", epsilon " << epsilon);
        const Estimate<Vec> e = estimate(g);
        ASSERT_EQ(e.inner_status, Status::converged) << e.message;
        // Its own projection on the set along −F, found by the solver of minima.
        Vec force(6);
        g.residual(e.phi, g.theta, force);
        const QuadraticProgramSolution step = nearest_step(rows_of(constraints, 6), e.phi, force, nullptr);
        EXPECT_LE(step.x.norm(), 1e-10);
        held += !step.active.empty();
        ++all;
        if (e.certificate.verdict != Verdict::trusted) continue;
        ++trusted;
        EXPECT_LE((e.gradient - differences(g)).norm(), 1e-7 * (1 + e.gradient.norm())) << e.message;
      }
  }
  EXPECT_GE(trusted, all * 9 / 10);
  EXPECT_GE(held, all / 2);
}

TEST(VariationalInequality, AGameWithAPotentialIsItsMinimum) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const PhiConstraints& constraints : kinds(seed, 6)) {
      SCOPED_TRACE(seed);
      Game g = game(seed, 6, 3);
      g.m = 0.5 * (g.m + g.m.transpose()).eval();
      g.held = constraints;
      Functions<Vec> f;
      f.initial_phi = [&] { return g.initial_phi(); };
      f.initial_theta = [&] { return g.theta; };
      f.inner = [&](const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
        Vec force(6);
        g.residual(phi, theta, force);
        if (wanted.phi) *wanted.phi = force;
        if (wanted.theta) *wanted.theta = -(g.b.transpose() * phi);
        return 0.5 * phi.dot(force - g.b * theta);
      };
      f.outer = [&](const Vec& phi, const Vec& theta, Wanted<Vec> wanted) {
        return g.outer(phi, theta, wanted);
      };
      f.hessian_times = [&](const Vec& p, const Vec& t, double beta, const Vec& v, Vec& out) {
        g.hessian_times(p, t, beta, v, out);
      };
      f.cross_times = [&](const Vec& p, const Vec& t, double beta, const Vec& v, Vec& out) {
        g.cross_times(p, t, beta, v, out);
      };
      f.cross_apply = [&](const Vec& p, const Vec& t, double beta, const Vec& u, Vec& out) {
        g.cross_apply(p, t, beta, u, out);
      };
      f.phi_constraints = [&] { return g.held; };
      auto problem = make_problem(f);
      const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-12});
      const Estimate<Vec> minimum =
          make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(g.theta, {});
      const Estimate<Vec> settled = estimate(g);
      EXPECT_LE((minimum.phi - settled.phi).norm(), 1e-10);
      if (minimum.certificate.verdict == Verdict::trusted &&
          settled.certificate.verdict == Verdict::trusted) {
        EXPECT_LE((minimum.gradient - settled.gradient).norm(), 1e-9 * (1 + minimum.gradient.norm()));
      }
    }
}

/// min ½φᵀQ(θ)φ − c(θ)·φ over A(θ)φ ≤ b(θ), everything affine in θ, as the KKT conditions of (φ, λ).
struct Programme {
  Mat q, q1, a, a1, c1, b1;
  Vec c, b, target, theta;
  Index n() const { return q.rows(); }
  Index rows() const { return a.rows(); }

  Vec initial_phi() const { return Vec::Zero(n() + rows()); }
  Vec initial_theta() const { return theta; }
  PhiConstraints phi_constraints() const {
    Vec lower = Vec::Constant(n() + rows(), -everywhere);
    lower.tail(rows()).setZero();
    return PhiConstraints::box(lower, {});
  }
  Mat q_at(const Vec& at) const { return q + at[0] * q1; }
  Mat a_at(const Vec& at) const { return a + at[1] * a1; }
  void residual(const Vec& s, const Vec& at, Vec& out) const {
    const Mat a_now = a_at(at);
    out.resize(s.size());
    out << q_at(at) * s.head(n()) - c - c1 * at + a_now.transpose() * s.tail(rows()),
        b + b1 * at - a_now * s.head(n());
  }
  double outer(const Vec& s, const Vec& at, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi << s.head(n()) - target, Vec::Zero(rows());
    if (wanted.theta) *wanted.theta = 0.1 * at;
    return 0.5 * (s.head(n()) - target).squaredNorm() + 0.05 * at.squaredNorm();
  }
  Mat jacobian(const Vec& at) const {
    Mat j = Mat::Zero(n() + rows(), n() + rows());
    j.topLeftCorner(n(), n()) = q_at(at);
    j.topRightCorner(n(), rows()) = a_at(at).transpose();
    j.bottomLeftCorner(rows(), n()) = -a_at(at);
    return j;
  }
  Mat cross(const Vec& s) const {
    Mat x(n() + rows(), 3);
    x << -c1, b1;
    x.col(0).head(n()) += q1 * s.head(n());
    x.col(1).head(n()) += a1.transpose() * s.tail(rows());
    x.col(1).tail(rows()) -= a1 * s.head(n());
    return x;
  }
  Vec nudge(double beta, const Vec& v) const {
    Vec out = Vec::Zero(v.size());
    out.head(n()) = beta * v.head(n());
    return out;
  }
  void hessian_times(const Vec&, const Vec& at, double beta, const Vec& v, Vec& out) const {
    out = jacobian(at) * v + nudge(beta, v);
  }
  void hessian_transpose_times(const Vec&, const Vec& at, double beta, const Vec& v, Vec& out) const {
    out = jacobian(at).transpose() * v + nudge(beta, v);
  }
  void cross_times(const Vec& s, const Vec&, double, const Vec& v, Vec& out) const {
    out = cross(s).transpose() * v;
  }
  void cross_apply(const Vec& s, const Vec&, double, const Vec& u, Vec& out) const { out = cross(s) * u; }
};

Programme programme(std::uint64_t seed, Index n, Index rows) {
  const Mat r = random_matrix(seed, n, n), s = random_matrix(seed + 1000, n, n);
  return {.q = r * r.transpose() / static_cast<double>(n) + 0.5 * Mat::Identity(n, n),
          .q1 = 0.05 * (s + s.transpose()),
          .a = random_matrix(seed + 2000, rows, n),
          .a1 = 0.1 * random_matrix(seed + 3000, rows, n),
          .c1 = random_matrix(seed + 4000, n, 3),
          .b1 = 0.3 * random_matrix(seed + 5000, rows, 3),
          .c = 2 * random_matrix(seed + 6000, n, 1),
          .b = random_matrix(seed + 7000, rows, 1).cwiseAbs(),
          .target = random_matrix(seed + 8000, n, 1),
          .theta = 0.3 * random_matrix(seed + 9000, 3, 1)};
}

TEST(VariationalInequality, LimitsThatMoveHaveTheGradientOfTheActiveSet) {
  int all = 0, trusted = 0, active = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Index rows =
        seed % 2 ? 4 : 12;  // with more rows than elements there are singular Jacobians on the way
    const Programme p = programme(seed, 5, rows);
    auto free = make_problem(p);
    VariationalInequality held(free);
    const auto inner = held.solver(NewtonKrylovOptions{}, {.gradient_tolerance = 1e-12});
    const Estimate<Vec> e =
        make_estimator<Vec>("implicit-direct", static_cast<Equilibrium<Vec>&>(held), *inner)
            ->estimate(p.theta, {});
    ASSERT_EQ(e.inner_status, Status::converged) << e.message;
    // The solver of quadratic programmes, with its own factor and constraints.
    Mat inverse;
    ASSERT_TRUE(inverse_transposed_factor(p.q_at(p.theta), inverse));
    const QuadraticProgramSolution qp =
        solve_quadratic_program(inverse, -(p.c + p.c1 * p.theta),
                                {.normals = -p.a_at(p.theta).transpose(), .limits = -(p.b + p.b1 * p.theta)});
    ASSERT_TRUE(qp.feasible);
    EXPECT_LE((e.phi.head(5) - qp.x).norm(), 1e-9 * (1 + qp.x.norm()));
    EXPECT_LE((e.phi.tail(rows) - qp.multipliers).norm(), 1e-8 * (1 + qp.multipliers.norm()));
    // With the inactive rows taken out of the KKT system.
    Mat kkt = p.jacobian(p.theta), right = p.cross(e.phi);
    for (Index i = 0; i < rows; ++i) {
      if (std::find(qp.active.begin(), qp.active.end(), i) != qp.active.end()) {
        ++active;
        continue;
      }
      kkt.row(5 + i) = Vec::Unit(5 + rows, 5 + i).transpose();
      right.row(5 + i).setZero();
    }
    const Mat response = -kkt.fullPivLu().solve(right);
    const Vec truth = 0.1 * p.theta + response.topRows(5).transpose() * (qp.x - p.target);
    EXPECT_LE((e.gradient - truth).norm(), 1e-8 * (1 + truth.norm())) << e.message;
    ++all;
    trusted += e.certificate.verdict == Verdict::trusted;
  }
  EXPECT_GE(trusted, all * 9 / 10) << trusted << " of " << all;
  EXPECT_GE(active, all);
}

TEST(VariationalInequality, ItsProductsAreThoseOfItsResidual) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    for (const PhiConstraints& constraints : kinds(seed, 6)) {
      SCOPED_TRACE(seed);
      Game g = game(seed, 6, 3);
      g.held = constraints;
      g.epsilon = 0.3;
      auto free = make_problem(g);
      VariationalInequality held(free);
      const Vec phi = held.solver()->solve(g.theta, 0, held.initial_phi()).phi;
      for (const double beta : {0.0, 0.7}) {
        std::unique_ptr<Curvature<Vec>> here;
        held.linearise(phi, g.theta, beta, here);
        const Vec v = random_matrix(seed + 1, 6, 1), w = random_matrix(seed + 2, 6, 1),
                  u = random_matrix(seed + 3, 3, 1);
        Vec jv(6), jtw(6), xu(6), xtw(3);
        here->times(v, jv), here->transpose_times(w, jtw), here->cross_apply(u, xu),
            here->cross_times(w, xtw);
        EXPECT_NEAR(w.dot(jv), jtw.dot(v), 1e-12 * (1 + w.norm() * jv.norm()));
        EXPECT_NEAR(w.dot(xu), xtw.dot(u), 1e-12 * (1 + w.norm() * xu.norm()));
        const auto at = [&](double h, double k) {
          Vec out(6), outer(6);
          held.residual(phi + h * v, g.theta + k * u, out);
          held.outer(phi + h * v, g.theta + k * u, {.phi = &outer});
          return Vec(out + beta * outer);
        };
        EXPECT_LE(((at(1e-5, 0) - at(-1e-5, 0)) / 2e-5 - jv).norm(), 1e-7 * (1 + jv.norm()));
        EXPECT_LE(((at(0, 1e-5) - at(0, -1e-5)) / 2e-5 - xu).norm(), 1e-7 * (1 + xu.norm()));
      }
    }
}

TEST(VariationalInequality, WhereALimitIsJustReachedNoGradientIsTrusted) {
  for (const double excess : {-1e-9, 0.0, 1e-9, 1e-3, -1e-3}) {
    SCOPED_TRACE(excess);
    Game g{Mat::Identity(2, 2), Mat::Identity(2, 2), Vec::Ones(2), (Vec(2) << 1 + excess, 0.5).finished(),
           PhiConstraints::box(Vec::Constant(2, -1), Vec::Ones(2))};
    const Estimate<Vec> e = estimate(g);
    const bool near = std::abs(excess) < 1e-6;
    EXPECT_EQ(e.certificate.verdict, near ? Verdict::untrusted : Verdict::trusted) << e.certificate.reason;
    EXPECT_EQ(e.certificate.reason.find("upper bound of element 0") != std::string::npos, near)
        << e.certificate.reason;
  }
}

TEST(VariationalInequality, MinimiseTakesAGameWithLimitsAsItIs) {
  // φ = min(θ, 1)/2 and L_out = ½(φ − 0.3)²: θ = 0.6; from beyond the limit there is no way, and it says so.
  struct Follower {
    Vec initial_phi() const { return Vec::Zero(1); }
    Vec initial_theta() const { return Vec::Zero(1); }
    PhiConstraints phi_constraints() const { return PhiConstraints::box(Vec(), Vec::Constant(1, 0.5)); }
    void residual(const Vec& phi, const Vec& theta, Vec& out) const { out = 2 * phi - theta; }
    double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) const {
      if (wanted.phi) *wanted.phi = phi.array() - 0.3;
      if (wanted.theta) wanted.theta->setZero();
      return 0.5 * (phi.array() - 0.3).square().sum();
    }
    void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
      out = (2 + beta) * v;
    }
    void hessian_transpose_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
      out = (2 + beta) * v;
    }
    void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const { out = -v; }
    void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const { out = -u; }
  };
  const Summary s = minimise(Follower{});
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_NEAR(s.theta[0], 0.6, 1e-6);
  const Summary held = minimise(Follower{}, {.start = Vec::Constant(1, 2)});
  EXPECT_EQ(held.theta[0], 2);
  EXPECT_NEAR(held.phi[0], 0.5, 1e-12);
}

TEST(VariationalInequality, RefusesWhatNothingSatisfies) {
  Game g = game(1, 4, 2);
  g.held = PhiConstraints::simplex(4, -1);
  auto impossible = make_problem(g);
  EXPECT_THROW(VariationalInequality{impossible}, InvalidInput);
  g.held = PhiConstraints::box(Vec::Zero(3), Vec());
  auto wrong = make_problem(g);
  EXPECT_THROW(VariationalInequality{wrong}, InvalidInput);
}

TEST(VariationalInequality, AnInterruptionIsOne) {
  // With more limits than elements proximal points are needed, and they hear of it too.
  const Programme p = programme(4, 5, 40);
  for (const int most : {0, 3, 10, 30, 100}) {
    SCOPED_TRACE(most);
    int looks = 0;
    const StopToken stop([&] { return ++looks > most; });
    auto free = make_problem(p);
    VariationalInequality held(free);
    held.obey(&stop);
    const Solution<Vec> s = held.solver(NewtonKrylovOptions{}, {.gradient_tolerance = 1e-12})
                                ->solve(p.theta, 0, held.initial_phi());
    EXPECT_EQ(s.status, Status::interrupted) << s.message;
    EXPECT_TRUE(s.phi.allFinite());
  }
}

TEST(VariationalInequality, NamesNaN) {
  Game g = game(1, 4, 2);
  g.held = PhiConstraints::box(Vec::Zero(4), Vec());
  g.theta[0] = 0;
  g.b(0, 0) = std::numeric_limits<double>::quiet_NaN();
  const Estimate<Vec> e = estimate(g);
  EXPECT_EQ(e.inner_status, Status::not_finite) << e.message;
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
}

}  // namespace variational_inequality_test
}  // namespace bilevel
