// Constraints that a struct of templates states: the problem, the answer and the verdicts are those of the
// same losses with derivatives by hand.

#include <gtest/gtest.h>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

namespace bilevel {
namespace taped_constraints_test {

using Vec = Eigen::VectorXd;

/// Two springs in a box; the second is pulled out of it.
struct Box {
  PhiConstraints phi_constraints() const { return PhiConstraints::box(Vec::Zero(2), Vec::Ones(2)); }
};
struct Written : Box {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * pow(phi[0] - theta[0], 2) + 0.5 * pow(phi[1] + 1 + 0.5 * theta[0], 2) +
           0.1 * phi[0] * phi[1];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * pow(phi[0] - 2, 2) + phi[1];
  }
};
struct ByHand : Box {
  Vec initial_phi() const { return Vec::Zero(2); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) const {
    const double a = phi[0] - theta[0], b = phi[1] + 1 + 0.5 * theta[0];
    if (wanted.phi) *wanted.phi = Vec{{a + 0.1 * phi[1], b + 0.1 * phi[0]}};
    if (wanted.theta) *wanted.theta = Vec::Constant(1, -a + 0.5 * b);
    return 0.5 * a * a + 0.5 * b * b + 0.1 * phi[0] * phi[1];
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) const {
    if (wanted.phi) *wanted.phi = Vec{{phi[0] - 2, 1}};
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * (phi[0] - 2) * (phi[0] - 2) + phi[1];
  }
  void hessian_times(const Vec&, const Vec&, double beta, const Vec& v, Vec& out) const {
    out = Vec{{(1 + beta) * v[0] + 0.1 * v[1], v[1] + 0.1 * v[0]}};
  }
  void cross_times(const Vec&, const Vec&, double, const Vec& v, Vec& out) const {
    out = Vec::Constant(1, -v[0] + 0.5 * v[1]);
  }
  void cross_apply(const Vec&, const Vec&, double, const Vec& u, Vec& out) const {
    out = u[0] * Vec{{-1, 0.5}};
  }
};

TEST(TapedConstraints, EstimatesAreThoseOfTheSameProblemByHand) {
  auto taped = differentiate(Written{}, {.phi = 2, .theta = 1});
  auto by_hand = make_problem(ByHand{});
  ASSERT_EQ(taped.phi_constraints().lower, by_hand.phi_constraints().lower);
  // Inside of the box, and where the first variable's bound is hardly active.
  for (const double theta : {0.3, 0.7, 1.0})
    for (const char* method : {"auto", "implicit-direct", "implicit-cg", "exact"}) {
      SCOPED_TRACE(testing::Message() << method << " at " << theta);
      const auto by = [&](Problem<Vec>& problem) {
        const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
        return make_estimator<Vec>(method, problem, *inner)->estimate(Vec::Constant(1, theta), {});
      };
      const auto one = by(taped), other = by(by_hand);
      EXPECT_NEAR(one.phi[0], std::min(theta, 1.0), 1e-9);
      EXPECT_NEAR(one.phi[1], 0, 1e-12);
      EXPECT_NEAR(one.gradient[0], other.gradient[0], 1e-9);
      EXPECT_EQ(name(one.certificate.verdict), name(other.certificate.verdict))
          << one.certificate.reason << " / " << other.certificate.reason;
      if (theta < 1) {
        EXPECT_EQ(one.certificate.verdict, Verdict::trusted) << one.certificate.reason;
        EXPECT_NEAR(one.gradient[0], theta - 2, 1e-6);
      } else {
        EXPECT_NE(one.certificate.verdict, Verdict::trusted) << one.certificate.reason;
      }
    }
}

TEST(TapedConstraints, TheAnswerIsWithinThem) {
  const Summary s = minimise(differentiate(Written{}, {.phi = 2, .theta = 1})),
                by_hand = minimise(make_problem(ByHand{}));
  for (Index i = 0; i < 2; ++i) {
    EXPECT_GE(s.phi[i], 0);
    EXPECT_LE(s.phi[i], 1);
    EXPECT_NEAR(s.phi[i], by_hand.phi[i], 1e-6);
  }
  EXPECT_EQ(name(s.status), name(by_hand.status));
  EXPECT_EQ(name(s.certificate.verdict), name(by_hand.certificate.verdict)) << s.certificate.reason;
}

}  // namespace taped_constraints_test
}  // namespace bilevel
