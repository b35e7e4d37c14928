// Derivatives by tapes, judged as those by hand are.

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <same_verdicts.hpp>

#include "taped_logistic.hpp"

namespace bilevel {
namespace taped_verdicts_test {

using Vec = Eigen::VectorXd;
using testing::same_verdicts::Counts;
using testing::same_verdicts::expect_same_verdicts;
using testing::same_verdicts::SoftByHand;

/// L_in = φ⁴ − θφ², L_out = ½(φ − 1)².
struct Fork {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return phi[0] * phi[0] * (phi[0] * phi[0] - theta[0]);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * (phi[0] - 1) * (phi[0] - 1);
  }
};

/// A soft direction of stiffness `soft` beside one of stiffness 1.
struct SoftTaped {
  double soft = 1;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * phi[0] * phi[0] + 0.5 * soft * phi[1] * phi[1] - phi[0] * theta[0] - phi[1] * theta[1];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] + 0.009 * phi[1];
  }
};
TEST(TapedVerdicts, AreThoseOfDerivativesByHand) {
  Counts counts;
  {
    problems::Pitchfork native;
    auto taped = differentiate(Fork{}, {.phi = Vec::Ones(1), .theta = Vec::Ones(1)});
    // A branch, near the fork, at it, and before it.
    for (const double theta : {2.0, 1e-2, 1e-5, 0.0, -1.0})
      expect_same_verdicts(taped, native, Vec::Constant(1, theta), counts);
    // From the saddle between the branches.
    auto saddle = differentiate(Fork{}, {.phi = Vec::Zero(1), .theta = Vec::Ones(1)});
    const auto inner = make_inner_solver<Vec>("newton", saddle);
    const auto e = make_estimator<Vec>("implicit-direct", saddle, *inner)->estimate(Vec::Ones(1), {});
    EXPECT_EQ(e.certificate.verdict, Verdict::untrusted) << e.certificate.reason;
  }
  for (const double soft : {1.0, 1e-3, 1e-6}) {
    auto native = make_problem(SoftByHand{soft});
    auto taped = differentiate(SoftTaped{soft}, {.phi = 2, .theta = 2});
    expect_same_verdicts(taped, native, Vec{{0.1, 0.2}}, counts);
  }
  problems::Logistic native =
      problems::Logistic::random({.rows = 60, .validation_rows = 30, .features = 5, .strong = 1, .seed = 2});
  native.keep_units_of_one();
  auto taped = differentiate(taped::LogisticRows(native), taped::sizes_of(native));
  expect_same_verdicts(taped, native, native.initial_theta(), counts);
  // None of the verdicts is the only one that was met.
  EXPECT_GT(counts.trusted, counts.compared / 10);
  EXPECT_GT(counts.untrusted, counts.compared / 10);
  EXPECT_EQ(counts.ended_differently, 0);
  RecordProperty("compared", counts.compared);
}

}  // namespace taped_verdicts_test
}  // namespace bilevel
