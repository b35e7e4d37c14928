#include <bilevel/problem/differenced.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <problem/planted.hpp>

namespace differenced_test {

using namespace bilevel;

template <class S>
class DifferencedOf : public testing::Test {};
using Scalars = testing::Types<double, float>;
TYPED_TEST_SUITE(DifferencedOf, Scalars);

TYPED_TEST(DifferencedOf, ProductsAgreeWithTheProblemsOwn) {
  using V = typename Planted<TypeParam>::V;
  // u^⅔ with room for the third derivatives and the norms of the random matrices.
  const double tolerance = 200 * std::pow(unit_roundoff<V>(), 2.0 / 3.0);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Planted<TypeParam> problem(seed);
    auto differenced = with_difference_products(problem);
    V phi = problem.initial_phi(), theta = problem.initial_theta(), v = phi, u = theta;
    Space<V>::random(seed, phi);
    Space<V>::random(seed + 100, theta);
    Space<V>::random(seed + 200, v);
    Space<V>::random(seed + 300, u);
    std::unique_ptr<Curvature<V>> exact, approximate;
    for (const double beta : {0.0, 0.7}) {
      problem.linearise(phi, theta, beta, exact);
      differenced.linearise(phi, theta, beta, approximate);
      V expected = phi, actual = phi;
      const auto agree = [&](const char* what) {
        EXPECT_LE((expected - actual).norm(), tolerance * expected.norm()) << what << " at beta " << beta;
      };
      // A product is linear in its direction whatever the size of that.
      for (const double size : {1e-6, 1.0, 1e6}) {
        const V direction = static_cast<TypeParam>(size) * v;
        exact->times(direction, expected), approximate->times(direction, actual);
        agree("times");
        exact->transpose_times(direction, expected), approximate->transpose_times(direction, actual);
        agree("transpose_times");
        exact->cross_times(direction, expected), approximate->cross_times(direction, actual);
        agree("cross_times");
      }
      exact->cross_apply(u, expected), approximate->cross_apply(u, actual);
      agree("cross_apply");
    }
  }
}

TEST(Differenced, SaysWhatItIsAndPromisesNothing) {
  Planted<double> problem(1);
  auto differenced = with_difference_products(problem);
  EXPECT_TRUE(differenced.capabilities().curvature);
  EXPECT_TRUE(differenced.capabilities().symmetric);
  EXPECT_TRUE(differenced.capabilities().differenced);
  const Eigen::VectorXd x = Eigen::VectorXd::Ones(6);
  EXPECT_FALSE(std::isnan(problem.constants(x, x, 1).mu));
  EXPECT_TRUE(std::isnan(differenced.constants(x, x, 1).mu));
  EXPECT_TRUE(std::isnan(differenced.rounding(x, x, x).residual));
  EXPECT_EQ(differenced.inner(x, x, {}), problem.inner(x, x, {}));
  EXPECT_EQ(differenced.outer(x, x, {}), problem.outer(x, x, {}));
}

TEST(Differenced, AZeroDirectionGivesZero) {
  Planted<double> problem(1);
  auto differenced = with_difference_products(problem);
  std::unique_ptr<Curvature<Eigen::VectorXd>> curvature;
  const Eigen::VectorXd x = Eigen::VectorXd::Ones(6), zero = Eigen::VectorXd::Zero(6);
  differenced.linearise(x, x, 1, curvature);
  Eigen::VectorXd out = Eigen::VectorXd::Constant(6, unknown);
  curvature->times(zero, out);
  EXPECT_EQ(out, zero);
  out.setConstant(unknown);
  curvature->cross_times(zero, out);
  EXPECT_EQ(out, zero);
  out.setConstant(unknown);
  curvature->cross_apply(zero, out);
  EXPECT_EQ(out, zero);
}

using Vec = Eigen::VectorXd;

/// A smooth problem in variables of natural size one, told in other units: φ = s·x and θ = t·y, with
///   L_in = Σ cosh(x_j − y_j/2) + ½(Σ x_j)² + ½ε‖x‖²,   L_out = ½‖x − 1‖² + Σ x_j sin y_j.
struct InUnits final : Problem<Vec> {
  InUnits(Vec phi_unit, Vec theta_unit) : s(std::move(phi_unit)), t(std::move(theta_unit)) {}
  Vec initial_phi() const override { return Vec::Zero(s.size()); }
  Vec initial_theta() const override { return t; }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    const Vec x = phi.cwiseQuotient(s), d = x - 0.5 * theta.cwiseQuotient(t);
    const Vec sinh = d.array().sinh();
    if (wanted.phi) *wanted.phi = (sinh.array() + x.sum() + 0.1 * x.array()) / s.array();
    if (wanted.theta) *wanted.theta = -0.5 * sinh.cwiseQuotient(t);
    return d.array().cosh().sum() + 0.5 * x.sum() * x.sum() + 0.05 * x.squaredNorm();
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    const Vec x = phi.cwiseQuotient(s), y = theta.cwiseQuotient(t);
    if (wanted.phi) *wanted.phi = (x.array() - 1 + y.array().sin()) / s.array();
    if (wanted.theta) *wanted.theta = x.array() * y.array().cos() / t.array();
    return 0.5 * (x.array() - 1).square().sum() + x.dot(y.array().sin().matrix());
  }
  Capabilities capabilities() const override { return {.curvature = false}; }
  /// In natural units.
  Eigen::MatrixXd hessian(const Vec& phi, const Vec& theta) const {
    const Vec d = phi.cwiseQuotient(s) - 0.5 * theta.cwiseQuotient(t);
    Eigen::MatrixXd h = Eigen::MatrixXd::Ones(s.size(), s.size());
    h.diagonal().array() += d.array().cosh() + 0.1;
    return h;
  }
  Vec cross(const Vec& phi, const Vec& theta) const {  // a diagonal
    const Vec d = phi.cwiseQuotient(s) - 0.5 * theta.cwiseQuotient(t);
    return -0.5 * d.array().cosh();
  }
  Vec s, t;
};

Vec random(std::uint64_t seed, Index size) {
  Vec x(size);
  Space<Vec>::random(seed, x);
  return x;
}

/// Units of 10^−8 … 10^8: the same for all elements, and another one for each.
std::vector<Vec> units(Index size) {
  std::vector<Vec> all;
  for (const double power : {-8, -6, -3, 0, 3, 6, 8}) all.push_back(Vec::Constant(size, std::pow(10, power)));
  Vec mixed = Vec::LinSpaced(size, -8, 8);
  all.push_back(mixed.unaryExpr([](double power) { return std::pow(10, power); }));
  all.push_back(all.back().reverse());
  return all;
}

TEST(Differenced, StepsInTheNaturalUnitsOfEveryElement) {
  constexpr Index n = 5;
  for (const bool at_zero : {true, false})
    for (const Vec& s : units(n))
      for (const Vec& t : units(n)) {
        SCOPED_TRACE(testing::Message() << "phi in " << s.transpose() << ", theta in " << t.transpose()
                                        << (at_zero ? ", from zero" : ""));
        InUnits problem(s, t);
        auto differenced = with_difference_products(problem);
        const Vec phi = at_zero ? Vec(Vec::Zero(n)) : s.cwiseProduct(random(3, n));
        const Vec theta = at_zero ? Vec(Vec::Zero(n)) : t.cwiseProduct(random(4, n));
        std::unique_ptr<Curvature<Vec>> curvature;
        differenced.linearise(phi, theta, 0, curvature);
        const Eigen::MatrixXd h = problem.hessian(phi, theta);
        const Vec chi = problem.cross(phi, theta);
        // What a product says in natural units: s∘(J·(s∘x)) = H·x.
        Vec out(n);
        for (Index j = 0; j <= n; ++j) {
          const Vec x = j < n ? Vec(Vec::Unit(n, j)) : random(5, n);
          curvature->times(s.cwiseProduct(x), out);
          EXPECT_LE((s.cwiseProduct(out) - h * x).norm(), 1e-7 * (h * x).norm()) << j;
          curvature->cross_times(s.cwiseProduct(x), out);
          EXPECT_LE((t.cwiseProduct(out) - chi.cwiseProduct(x)).norm(), 1e-7 * chi.norm() * x.norm()) << j;
          curvature->cross_apply(t.cwiseProduct(x), out);
          EXPECT_LE((s.cwiseProduct(out) - chi.cwiseProduct(x)).norm(), 1e-7 * chi.norm() * x.norm()) << j;
        }
      }
}

/// Where no step serves the estimate of the error says so: steps that were found where the loss bends slowly are
/// used where it bends a thousand times as fast.
TEST(Differenced, StatesErrorsThatHold) {
  constexpr Index n = 4;
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    const Vec s = (4 * random(seed, n)).unaryExpr([](double power) { return std::pow(10, power); });
    const Vec t = (4 * random(seed + 1000, n)).unaryExpr([](double power) { return std::pow(10, power); });
    InUnits problem(s, t);
    auto differenced = with_difference_products(problem);
    const Vec phi = s.cwiseProduct(random(seed + 2000, n)), theta = t.cwiseProduct(random(seed + 3000, n));
    std::unique_ptr<Curvature<Vec>> curvature;
    differenced.linearise(phi, theta, 0, curvature);
    // What is moved afterwards moves what the steps were found for, within what counts as near.
    const Vec shrunk = s * (seed % 2 ? 1.0 : 1e-3);
    problem.s = shrunk;
    const Vec x = random(seed + 4000, n), v = shrunk.cwiseProduct(x);
    const Vec here = shrunk.cwiseProduct(random(seed + 2000, n));
    differenced.linearise(here, theta, 0, curvature);
    Vec out(n);
    curvature->times(v, out);
    const Vec exact = (problem.hessian(here, theta) * x).cwiseQuotient(shrunk);
    EXPECT_LE((out - exact).norm(), curvature->times_error(v) + 1e-13 * exact.norm());
    curvature->cross_times(v, out);
    const Vec cross = problem.cross(here, theta).cwiseProduct(x).cwiseQuotient(t);
    EXPECT_LE((out - cross).norm(), curvature->cross_times_error(v) + 1e-13 * cross.norm());
    checked += curvature->times_error(v) < 1e-5 * exact.norm();
  }
  EXPECT_GE(checked, 1000);  // those whose units did not change are accurate, and said to be
}

}  // namespace differenced_test
