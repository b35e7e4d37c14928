// Losses written as functions beside the same ones with derivatives by hand.

#include <random>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>

#include "taped_logistic.hpp"

namespace bilevel {
namespace taped_logistic_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;
using problems::Logistic;
using problems::Penalty;

Vec gaussian(Index size, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  return Vec::NullaryExpr(size, [&] { return normal(engine); });
}

Logistic native_of(std::uint64_t seed) {
  Logistic native = Logistic::random({.rows = 40 + static_cast<Index>(seed * 7 % 100),
                                      .validation_rows = 30,
                                      .features = 6 + static_cast<Index>(seed % 7),
                                      .strong = 2,
                                      .penalty = seed % 2 ? Penalty::per_feature : Penalty::global,
                                      .seed = seed});
  native.keep_units_of_one();
  return native;
}

/// At the accuracy that the two ways of summing allow.
void expect_equal(const Vec& taped, const Vec& native) {
  EXPECT_LE((taped - native).norm(), 1e-13 * (1 + native.norm()));
}

template <class P>
void expect_same_oracles(P& taped, Logistic& native, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const Index n = native.initial_phi().size(), m = native.initial_theta().size();
  const Vec phi = gaussian(n, engine), theta = gaussian(m, engine), v = gaussian(n, engine),
            u = gaussian(m, engine);
  Vec a(n), b(m), c(n), d(m);
  EXPECT_NEAR(taped.inner(phi, theta, {.phi = &a, .theta = &b}),
              native.inner(phi, theta, {.phi = &c, .theta = &d}), 1e-13);
  expect_equal(a, c);
  expect_equal(b, d);
  EXPECT_NEAR(taped.inner(phi, theta, {}), native.inner(phi, theta, {}), 1e-13);
  EXPECT_NEAR(taped.outer(phi, theta, {.phi = &a, .theta = &b}),
              native.outer(phi, theta, {.phi = &c, .theta = &d}), 1e-13);
  expect_equal(a, c);
  expect_equal(b, d);
  taped.residual(phi, theta, a);
  native.residual(phi, theta, c);
  expect_equal(a, c);
  std::unique_ptr<Curvature<Vec>> by_tape, by_hand;
  for (const double beta : {0.0, 0.4, -0.1}) {
    taped.linearise(phi, theta, beta, by_tape);
    native.linearise(phi, theta, beta, by_hand);
    by_tape->times(v, a);
    by_hand->times(v, c);
    expect_equal(a, c);
    by_tape->transpose_times(v, a);
    expect_equal(a, c);
    by_tape->cross_times(v, b);
    by_hand->cross_times(v, d);
    expect_equal(b, d);
    by_tape->cross_apply(u, a);
    by_hand->cross_apply(u, c);
    expect_equal(a, c);
    by_tape->cross_times(v, b);  // the sweep of v was another's meanwhile
    expect_equal(b, d);
  }
}

TEST(TapedLogistic, ValuesGradientsAndProductsAreThoseByHand) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Logistic native = native_of(seed);
    auto whole = differentiate(taped::LogisticLosses(native), taped::sizes_of(native));
    expect_same_oracles(whole, native, seed);
    auto rows = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
    expect_same_oracles(rows, native, seed);
    EXPECT_EQ(rows.tapes().rerecorded, 0);
    EXPECT_FALSE(rows.tapes().rows_fixed);
    EXPECT_LT(rows.tapes().operations, whole.tapes().operations / 4);
  }
}

TEST(TapedLogistic, HypergradientsAreThoseByHand) {
  for (const std::uint64_t seed : {1, 2}) {
    Logistic native = native_of(seed);
    auto whole = differentiate(taped::LogisticLosses(native), taped::sizes_of(native));
    auto rows = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
    const Vec theta = native.initial_theta();
    for (const char* method : {"implicit-direct", "implicit-cg", "implicit-minres", "exact", "ep-holomorphic",
                               "ep-central", "auto"}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << method);
      const auto by = [&](Problem<Vec>& problem) {
        const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-13});
        const auto estimator =
            make_estimator<Vec>(method, problem, *inner, {.adjoint = {.relative_tolerance = 1e-13}});
        return estimator->estimate(theta, {});
      };
      if (std::string_view(method) == "ep-holomorphic") {
        EXPECT_THROW(by(whole), InvalidInput) << "nothing continues a tape to complex numbers";
        continue;
      }
      const Estimate<Vec> expected = by(native);
      // Nudged phases are differences: their rounding is divided by β.
      const double accuracy = std::string_view(method) == "ep-central" ? 1e-7 : 1e-10;
      for (Problem<Vec>* taped : {static_cast<Problem<Vec>*>(&whole), static_cast<Problem<Vec>*>(&rows)}) {
        const Estimate<Vec> e = by(*taped);
        EXPECT_LE((e.gradient - expected.gradient).norm(), accuracy * expected.gradient.norm()) << e.message;
        EXPECT_NEAR(e.outer_value, expected.outer_value, 1e-12);
        EXPECT_NE(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
      }
    }
  }
}

TEST(TapedLogistic, EveryInnerSolverSettlesWhereItSettlesByHand) {
  Logistic native = native_of(3);
  auto taped = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
  const Vec theta = native.initial_theta();
  const Vec expected = make_inner_solver<Vec>("newton", native, {.gradient_tolerance = 1e-13})
                           ->solve(theta, 0, native.initial_phi())
                           .phi;
  for (const std::string_view name : inner_solver_names()) {
    const auto inner =
        make_inner_solver<Vec>(name, taped, {.gradient_tolerance = 1e-10, .max_iterations = 20000});
    const Solution<Vec> s = inner->solve(theta, 0, taped.initial_phi());
    EXPECT_TRUE(succeeded(s.status)) << name << ": " << s.message;
    EXPECT_LE((s.phi - expected).norm(), 1e-7) << name;
  }
}

TEST(TapedLogistic, EveryEstimatorAgreesOrSaysThatItDoesNot) {
  Logistic native = native_of(4);
  auto taped = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
  const Vec theta = native.initial_theta();
  const auto truth_inner = make_inner_solver<Vec>("newton", native, {.gradient_tolerance = 1e-13});
  const Vec truth = make_estimator<Vec>("exact", native, *truth_inner)->estimate(theta, {}).gradient;
  for (const std::string& method : estimator_names()) {
    if (method == "ep-holomorphic" || method == "implicit-cg-preconditioned" ||
        method == "implicit-cg-jacobi")
      continue;
    const auto inner = make_inner_solver<Vec>("newton", taped, {.gradient_tolerance = 1e-12});
    const auto e = make_estimator<Vec>(method, taped, *inner)->estimate(theta, {});
    const double error = (e.gradient - truth).norm();
    EXPECT_TRUE(e.certificate.verdict != Verdict::trusted || error <= e.certificate.bound)
        << method << ": error " << error << ", bound " << e.certificate.bound << ", " << e.certificate.reason;
    EXPECT_NE(e.certificate.kind, Kind::rigorous) << method << ": nobody gave constants";
  }
}

TEST(TapedLogistic, DerivativesPassTheCheck) {
  Logistic native = native_of(5);
  std::mt19937_64 engine(5);
  auto whole = differentiate(taped::LogisticLosses(native), taped::sizes_of(native));
  auto rows = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
  const Vec phi = gaussian(native.initial_phi().size(), engine), theta = native.initial_theta();
  for (Problem<Vec>* taped : {static_cast<Problem<Vec>*>(&whole), static_cast<Problem<Vec>*>(&rows)}) {
    const CheckReport report = check_derivatives<Vec>(*taped, phi, theta);
    EXPECT_TRUE(report.passed()) << report.table();
  }
}

TEST(TapedLogistic, TheOuterLoopLearnsTheSameParameters) {
  Logistic native = native_of(6);
  auto taped = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
  const SolveOptions outer{.box = {Vec::Constant(1, -10), Vec::Constant(1, 10)}};
  const Summary expected = minimise(native, {.outer = outer}), found = minimise(taped, {.outer = outer});
  EXPECT_EQ(found.status, expected.status) << found.message;
  EXPECT_NEAR(found.outer_value, expected.outer_value, 1e-9);
  EXPECT_LE((found.theta - expected.theta).norm(), 1e-4 * (1 + expected.theta.norm()));
}

}  // namespace taped_logistic_test
}  // namespace bilevel
