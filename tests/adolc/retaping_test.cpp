// Losses with comparisons, kinks, rows of several branches; copies, and threads.

#include <thread>

#include <gtest/gtest.h>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

namespace bilevel {
namespace taped_retaping_test {

using Vec = Eigen::VectorXd;

/// A spring that is three times as stiff when pressed: two derivatives on either side, one of them at 0.
struct Spring {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    const T r = phi[0] - theta[0];
    if (r < 0) return 1.5 * r * r;
    return 0.5 * r * r + 0.1 * phi[0] * phi[0] * phi[0] * phi[0];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * (phi[0] - 1) * (phi[0] - 1);
  }
};

TEST(Retaping, AComparisonThatFallsTheOtherWayIsSeen) {
  auto problem = differentiate(Spring{}, {.phi = 1, .theta = 1});
  std::unique_ptr<Curvature<Vec>> curvature;
  Vec g(1), h(1);
  const Vec theta = Vec::Constant(1, 0.5);
  const auto at = [&](double x) {
    const Vec phi = Vec::Constant(1, x);
    const double value = problem.inner(phi, theta, {.phi = &g});
    problem.linearise(phi, theta, 0, curvature);
    curvature->times(Vec::Ones(1), h);
    return value;
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_NEAR(at(-0.5), 1.5, 1e-15);
    EXPECT_NEAR(g[0], -3, 1e-15);
    EXPECT_NEAR(h[0], 3, 1e-15);
    EXPECT_NEAR(at(1.5), 0.5 + 0.1 * 5.0625, 1e-15);
    EXPECT_NEAR(g[0], 1 + 0.4 * 3.375, 1e-14);
    EXPECT_NEAR(h[0], 1 + 1.2 * 2.25, 1e-14);
  }
  EXPECT_EQ(problem.tapes().rerecorded, 5);
  EXPECT_EQ(problem.tapes().recordings, 6);
  EXPECT_EQ(problem.tapes().kinks, 0);
  at(0.5);                              // r = 0: the comparison ties
  EXPECT_EQ(problem.tapes().kinks, 3);  // the gradient, the linearisation and the product
}

TEST(Retaping, ASolveAcrossTheBranchesConverges) {
  // φ* < θ and > 0 on the stiff side: 0 = 3(φ − θ) has no root but θ, so the settled state is at the branch
  // where the quartic pushes below θ: 0 = (φ − θ) + 0.4φ³ has its root at φ < θ, where the other branch
  // rules.
  auto problem = differentiate(Spring{}, {.phi = 1, .theta = Vec::Constant(1, -1)});
  const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-12});
  // θ = −1: (φ + 1) + 0.4φ³ = 0 at φ ≈ −0.8062 > θ.
  const auto e =
      make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(Vec::Constant(1, -1.0), {});
  const double phi = e.phi[0];
  EXPECT_NEAR(phi + 1 + 0.4 * phi * phi * phi, 0, 1e-12);
  EXPECT_NEAR(e.gradient[0], (phi - 1) / (1 + 1.2 * phi * phi), 1e-12);
}

/// Huber's loss of rows: some of them on the quadratic, some on the linear branch.
struct Huber {
  std::vector<double> y{0.1, -0.2, 5, 0.3, -7, 0.05, 0.4};
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * exp(theta[0]) * phi[0] * phi[0];
  }
  Rows inner_rows() const { return {y.data(), static_cast<Index>(y.size()), 1}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>&, const Row& row) const {
    const T r = phi[0] - row[0];
    if (r > 1) return r - 0.5;
    if (r < -1) return -r - 0.5;
    return 0.5 * r * r;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * phi[0] * phi[0];
  }
};

TEST(Retaping, RowsOfSeveralBranchesShareOneTape) {
  auto problem = differentiate(Huber{}, {.phi = 1, .theta = 1});
  Vec g(1), h(1);
  const auto expect_right = [&](double phi) {
    double slope = phi, bend = 1;
    for (const double y : Huber{}.y) {
      slope += std::clamp(phi - y, -1.0, 1.0);
      bend += std::abs(phi - y) <= 1;
    }
    problem.inner(Vec::Constant(1, phi), Vec::Zero(1), {.phi = &g});
    EXPECT_NEAR(g[0], slope, 1e-14);
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(Vec::Constant(1, phi), Vec::Zero(1), 0, curvature);
    curvature->times(Vec::Ones(1), h);
    EXPECT_NEAR(h[0], bend, 1e-14);
  };
  for (int round = 0; round < 3; ++round) expect_right(0.02);
  EXPECT_TRUE(problem.tapes().rows_fixed);
  EXPECT_EQ(problem.tapes().recordings, 1);
  expect_right(2.5);
  EXPECT_EQ(problem.tapes().rerecorded, 1);
}

/// A value that cancels to rounding at its minimum is not taken for another function.
struct Cancels {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    const T a = 1e4 * cos(phi[0] - theta[0]);
    return 1e4 - a / 3 - 2 * a / 3;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(Retaping, ValuesThatCancelAreNotRecordedForever) {
  auto problem = differentiate(Cancels{}, {.phi = 1, .theta = 1});
  Vec g(1);
  for (int k = 1; k <= 50; ++k) {
    problem.inner(Vec::Constant(1, 1e-9 * k), Vec::Zero(1), {.phi = &g});
    EXPECT_NEAR(g[0], 1e-5 * k, 1e-12);
  }
  EXPECT_LE(problem.tapes().rerecorded, 5);
}

/// What has changed behind a pointer shows in no value at φ = 0.
struct Pulled {
  const double* weight;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * *weight * phi[0] * phi[0] - theta[0] * phi[0];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * (phi[0] - 3) * (phi[0] - 3);
  }
};

TEST(Retaping, AMemberThatChangedWhereTheStateDoesNotShowItIsNotTrusted) {
  for (const char* method : {"implicit-direct", "implicit-cg", "exact", "auto"}) {
    SCOPED_TRACE(method);
    double weight = 5;
    auto problem = differentiate(Pulled{&weight}, {.phi = 1, .theta = 1});
    const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
    const auto estimator = make_estimator<Vec>(method, problem, *inner);
    auto e = estimator->estimate(Vec::Zero(1), {});
    EXPECT_NEAR(e.gradient[0], -0.6, 1e-12);
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
    weight = 8;
    e = estimator->estimate(Vec::Zero(1), {});
    EXPECT_NE(e.certificate.verdict, Verdict::trusted) << e.gradient[0] << "; " << e.certificate.reason;
    // The look itself has met the change.
    e = estimator->estimate(Vec::Zero(1), {});
    EXPECT_NEAR(e.gradient[0], -0.375, 1e-12);
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
  }
}

/// Cancels to rounding errors of 10¹⁶ far from zero.
struct CancelsFarAway {
  const double* weight;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    const T far = exp(phi[0]);
    return far / 3 + 2 * far / 3 - far + 0.5 * *weight * (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(Retaping, WhatCancelledFarAwayHidesNothingHere) {
  double weight = 1;
  auto problem = differentiate(CancelsFarAway{&weight}, {.phi = 1, .theta = 1});
  Vec g(1);
  for (int k = 0; k < 10; ++k) problem.inner(Vec::Constant(1, 60 + 0.3 * k), Vec::Zero(1), {.phi = &g});
  for (int k = 0; k < 60; ++k) problem.inner(Vec::Constant(1, 1 + 0.01 * k), Vec::Zero(1), {.phi = &g});
  weight = 3;
  problem.inner(Vec::Constant(1, 2.0), Vec::Zero(1), {.phi = &g});
  EXPECT_NEAR(g[0], 6, 1e-12);
}

double number(double x) {
  return x;
}
double number(const adouble& x) {
  return x.value();
}
/// A stiffness looked up by a number that no comparison shows.
struct Stairs {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * (1 + std::floor(number(phi[0]))) * (phi[0] - theta[0]) * (phi[0] - theta[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(Retaping, CurvaturesOfTwoRecordingsDoNotMeetWithoutComparisons) {
  auto problem = differentiate(Stairs{}, {.phi = 1, .theta = 1});
  std::unique_ptr<Curvature<Vec>> low, high;
  problem.linearise(Vec::Constant(1, 1.5), Vec::Zero(1), 0, low);
  problem.linearise(Vec::Constant(1, 4.5), Vec::Zero(1), 0, high);
  Vec h(1);
  for (int round = 0; round < 2; ++round) {
    low->times(Vec::Ones(1), h);
    EXPECT_NEAR(h[0], 2, 1e-14);
    high->times(Vec::Constant(1, 1), h);
    EXPECT_NEAR(h[0], 5, 1e-14);
    low->cross_times(Vec::Constant(1, 2 + round), h);
    EXPECT_NEAR(h[0], -2 * (2 + round), 1e-13);
  }
}

/// A chain whose links harden: comparisons, and few entries.
struct Chain {
  int links;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0;
    for (int i = 0; i < links; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const T r = phi[at] - theta[0];
      sum += 0.5 * r * r;
      if (i == 0) continue;
      const T d = phi[at] - phi[at - 1];
      if (d > 0.1)
        sum += 0.2 * d - 0.01;
      else
        sum += d * d;
    }
    return sum;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * (phi[0] - 3) * (phi[0] - 3);
  }
};

TEST(Retaping, WhatAProblemCanDoIsAskedOfItsTapeOnce) {
  auto problem = differentiate(Chain{150}, {.phi = 150, .theta = 1});
  EXPECT_TRUE(problem.capabilities().sparse);
  const Vec phi = Vec::LinSpaced(150, 0, 100);
  std::unique_ptr<Curvature<Vec>> curvature;
  problem.linearise(phi, Vec::Ones(1), 0, curvature);
  const long recorded = problem.tapes().recordings;
  for (int k = 0; k < 3; ++k) {
    EXPECT_TRUE(problem.capabilities().sparse);
    problem.linearise(phi, Vec::Ones(1), 0, curvature);
  }
  EXPECT_EQ(problem.tapes().recordings, recorded);
}

TEST(Retaping, CopiesHaveTapesOfTheirOwn) {
  auto problem = differentiate(Spring{}, {.phi = 1, .theta = 1});
  Vec g(1);
  const Vec theta = Vec::Zero(1);
  problem.inner(Vec::Constant(1, -1), theta, {.phi = &g});
  auto copy = problem;
  EXPECT_EQ(copy.tapes().recordings, 0);
  copy.inner(Vec::Constant(1, 1), theta, {.phi = &g});
  EXPECT_NEAR(g[0], 1.4, 1e-15);
  problem.inner(Vec::Constant(1, -2), theta, {.phi = &g});
  EXPECT_NEAR(g[0], -6, 1e-15);
  EXPECT_EQ(problem.tapes().rerecorded + copy.tapes().rerecorded, 0);

  std::unique_ptr<Curvature<Vec>> curvature;
  copy.linearise(Vec::Constant(1, 1), theta, 0, curvature);
  auto moved = std::move(copy);
  copy = problem;  // the curvature belongs to what has moved, and is as good as before
  curvature->times(Vec::Ones(1), g);
  EXPECT_NEAR(g[0], 2.2, 1e-14);
  moved.inner(Vec::Constant(1, 1), theta, {.phi = &g});
  EXPECT_NEAR(g[0], 1.4, 1e-15);
}

TEST(Retaping, CurvaturesAtTwoPointsDoNotMeet) {
  auto problem = differentiate(Spring{}, {.phi = 1, .theta = 1});
  const Vec theta = Vec::Zero(1);
  std::unique_ptr<Curvature<Vec>> stiff, soft;
  problem.linearise(Vec::Constant(1, -1), theta, 0, stiff);
  problem.linearise(Vec::Constant(1, 1), theta, 0, soft);
  Vec h(1);
  // The tape is that of the other branch by now.
  stiff->times(Vec::Ones(1), h);
  EXPECT_NEAR(h[0], 3, 1e-15);
  soft->times(Vec::Ones(1), h);
  EXPECT_NEAR(h[0], 2.2, 1e-14);
}

TEST(Retaping, TwoObjectsInTwoThreads) {
  const auto learn = [](Summary& s) {
    s = minimise(differentiate(Huber{}, {.phi = 1, .theta = 1}), {.start = Vec::Constant(1, 0.5)});
  };
  Summary alone, one, two;
  learn(alone);
  auto shared = differentiate(Spring{}, {.phi = 1, .theta = 1});
  std::thread first([&] { learn(one); }), second([&] { learn(two); });
  for (int k = 0; k < 20; ++k) {
    auto copy = shared;
    Vec g(1);
    copy.inner(Vec::Constant(1, k % 2 ? -1 : 1), Vec::Zero(1), {.phi = &g});
    EXPECT_NEAR(g[0], k % 2 ? -3 : 1.4, 1e-15);
  }
  first.join();
  second.join();
  EXPECT_EQ(one.theta, alone.theta);
  EXPECT_EQ(two.theta, alone.theta);
  EXPECT_EQ(one.status, alone.status);
}

}  // namespace taped_retaping_test
}  // namespace bilevel
