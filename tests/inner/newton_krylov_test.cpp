#include <bilevel/inner/newton_krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/recurrent_net.hpp>

namespace bilevel {
namespace newton_krylov_test {

using testing::HasSubstr;
using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// A chain in which every unit drives the next one, strongly: the eigenvalues of its Jacobian are all one and
/// its powers grow before they vanish.
conformance::RecurrentNet chain(Index units, double drive) {
  Mat w = Mat::Zero(units, units);
  w.diagonal(-1).setConstant(drive);
  return {w, Mat::Ones(units, 1), Vec::Ones(units)};
}

/// Its rest, unit after unit.
Vec rest(const conformance::RecurrentNet& net, const Vec& theta) {
  Vec phi = Vec::Zero(net.w.rows());
  for (Index i = 0; i < phi.size(); ++i) phi[i] = std::tanh(net.drive(phi, theta)[i]);
  return phi;
}

TEST(NewtonKrylov, SettlesWhatIsFarFromNormal) {
  for (const double drive : {1.0, 0.7, -1.0}) {
    SCOPED_TRACE(drive);
    auto net = chain(40, drive);
    auto& settling = static_cast<Equilibrium<Vec>&>(net);
    Vec theta = net.initial_theta();
    theta.head(40) = 0.3 * Vec::LinSpaced(40, -1, 1);
    const auto s = make_inner_solver<Vec>("newton-krylov", settling, {.gradient_tolerance = 1e-12})
                       ->solve(theta, 0, net.initial_phi());
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.phi - rest(net, theta)).norm(), 1e-9) << s.message;
    EXPECT_LE(s.iterations, 40);
    EXPECT_TRUE(std::isnan(s.value));
  }
}

/// A linear one, F = A·φ − θ, with A = I + a strong shift: one solve for ten digits, where Anderson's five
/// differences go nowhere.
struct Shift final : Equilibrium<Vec> {
  Vec initial_phi() const override { return Vec::Zero(40); }
  Vec initial_theta() const override { return Vec::Ones(40); }
  void residual(const Vec& phi, const Vec& theta, Vec& out) override { out = a() * phi - theta; }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) override {
    if (wanted.phi) *wanted.phi = phi;
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * phi.squaredNorm();
  }
  Capabilities capabilities() const override { return {.symmetric = false}; }
  void linearise(const Vec&, const Vec&, double beta, std::unique_ptr<Curvature<Vec>>& reuse) override {
    struct Matrix final : Curvature<Vec> {
      void times(const Vec& v, Vec& out) override { out = m * v; }
      void transpose_times(const Vec& v, Vec& out) override { out = m.transpose() * v; }
      void cross_times(const Vec& v, Vec& out) override { out = -v; }
      void cross_apply(const Vec& u, Vec& out) override { out = -u; }
      Mat m;
    };
    auto made = std::make_unique<Matrix>();
    made->m = a() + beta * Mat::Identity(40, 40);
    reuse = std::move(made);
  }
  static Mat a() {
    Mat m = Mat::Identity(40, 40);
    m.diagonal(1).setConstant(1.3);
    m(39, 0) = 0.4;
    return m;
  }
};

TEST(NewtonKrylov, ReachesTheClosedFormWhereAndersonStalls) {
  Shift problem;
  for (const double beta : {0.0, 0.5}) {
    const Vec expected = (Shift::a() + beta * Mat::Identity(40, 40)).partialPivLu().solve(Vec::Ones(40));
    const auto s = make_inner_solver<Vec>("newton-krylov", static_cast<Equilibrium<Vec>&>(problem),
                                          {.gradient_tolerance = 1e-13})
                       ->solve(Vec::Ones(40), beta, problem.initial_phi());
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.phi - expected).norm(), 1e-8 * (1 + expected.norm()));
  }
  const auto stalls = make_inner_solver<Vec>("anderson", static_cast<Equilibrium<Vec>&>(problem))
                          ->solve(Vec::Ones(40), 0, problem.initial_phi());
  EXPECT_NE(stalls.status, Status::converged);
}

TEST(NewtonKrylov, IsShortenedWhereTheResidualWouldGrow) {
  // Newton's full steps on arctan leave for infinity from beyond 1.39.
  struct Bent final : Equilibrium<Vec> {
    Vec initial_phi() const override { return Vec::Constant(3, 20); }
    Vec initial_theta() const override { return Vec::Ones(1); }
    void residual(const Vec& phi, const Vec&, Vec& out) override { out = phi.array().atan(); }
    double outer(const Vec&, const Vec&, Wanted<Vec>) override { return 0; }
    Capabilities capabilities() const override { return {.symmetric = false}; }
    void linearise(const Vec& phi, const Vec&, double, std::unique_ptr<Curvature<Vec>>& reuse) override {
      struct Slope final : Curvature<Vec> {
        void times(const Vec& v, Vec& out) override { out = d.cwiseProduct(v); }
        void cross_times(const Vec&, Vec& out) override { out.setZero(); }
        void cross_apply(const Vec&, Vec& out) override { out.setZero(); }
        Vec d;
      };
      auto made = std::make_unique<Slope>();
      made->d = 1 / (1 + phi.array().square());
      reuse = std::move(made);
    }
  } problem;
  const auto s = make_inner_solver<Vec>("newton-krylov", static_cast<Equilibrium<Vec>&>(problem))
                     ->solve(Vec::Ones(1), 0, problem.initial_phi());
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE(s.phi.norm(), 1e-9);
}

TEST(NewtonKrylov, RefusesWhatItCannotServe) {
  conformance::RecurrentNet net = conformance::random_net(1);
  for (const NewtonKrylovOptions bad : {NewtonKrylovOptions{.length = 0}, NewtonKrylovOptions{.cycles = 0},
                                        NewtonKrylovOptions{.forcing = 1}})
    EXPECT_THROW(NewtonKrylov<Vec>(net, {}, bad), InvalidInput);
  struct FirstOrder final : Equilibrium<Vec> {
    Vec initial_phi() const override { return Vec::Zero(1); }
    Vec initial_theta() const override { return Vec::Ones(1); }
    void residual(const Vec& phi, const Vec&, Vec& out) override { out = phi; }
    double outer(const Vec&, const Vec&, Wanted<Vec>) override { return 0; }
    Capabilities capabilities() const override { return {.curvature = false}; }
  } problem;
  try {
    NewtonKrylov<Vec>(problem).solve(Vec::Ones(1), 0, Vec::Zero(1));
    ADD_FAILURE();
  } catch (const InvalidInput& refusal) {
    EXPECT_THAT(refusal.what(), HasSubstr("first derivatives only"));
  }
}

}  // namespace newton_krylov_test
}  // namespace bilevel
