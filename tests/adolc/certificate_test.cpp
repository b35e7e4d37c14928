// What certificates say of losses for which nobody gave constants, and of those for which somebody did.

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>

#include "taped_logistic.hpp"

namespace bilevel {
namespace taped_certificate_test {

using Vec = Eigen::VectorXd;

/// ½(φ − θ)² exp(θ)-weighted and linked in a chain of two: closed forms for everything.
struct Weighted {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return 0.5 * exp(theta[0]) * phi[0] * phi[0] + 0.5 * phi[0] * phi[0] - phi[0];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * (phi[0] - 0.25) * (phi[0] - 0.25);
  }
};

/// The same, of which a person knows: L_in is (1 + exp θ)-strongly convex and its second derivatives by φ do
/// not change with φ.
struct WeightedWithConstants : Weighted {
  Constants constants(const Vec& theta, const Vec& center, double radius) const {
    const double weight = std::exp(theta[0]);
    Constants c;
    c.mu = (1 + weight) * (1 - 1e-14);
    c.smoothness = (1 + weight) * (1 + 1e-14);
    c.hessian_lipschitz = 0;
    c.cross_lipschitz = weight * (1 + 1e-14);
    c.cross_norm = weight * (std::abs(center[0]) + radius) * (1 + 1e-14);
    c.outer_smoothness = 1;
    c.outer_cross_lipschitz = 0;
    return c;
  }
  /// Ten operations on numbers of these sizes, with room for the order in which ADOL-C takes them.
  Rounding rounding(const Vec& phi, const Vec& theta, const Vec& pi) const {
    const double weight = std::exp(theta[0]), u = 32 * 0x1p-53;
    const double size = (1 + weight) * std::abs(phi[0]) + 1;
    Rounding r;
    r.residual = u * size;
    r.adjoint = u * (std::abs(phi[0]) + 1 + (1 + weight) * std::abs(pi[0]));
    r.gradient = u * weight * std::abs(phi[0] * pi[0]);
    r.curvature = u * (1 + weight);
    return r;
  }
};

double slope(double theta) {
  return 1 / (1 + std::exp(theta));
}
double truth(double theta) {
  const double phi = slope(theta);
  return -(phi - 0.25) * std::exp(theta) * phi * phi;
}

template <class P>
Estimate<Vec> estimate(P& problem, double theta) {
  const auto inner = make_inner_solver<Vec>("newton", problem);
  return make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(Vec::Constant(1, theta), {});
}

TEST(TapedCertificate, WithoutConstantsItIsEstimatedAndSaysWhy) {
  auto problem = differentiate(Weighted{}, {.phi = 1, .theta = 1});
  const Estimate<Vec> e = estimate(problem, 0.3);
  EXPECT_EQ(e.certificate.kind, Kind::estimated);
  EXPECT_EQ(e.certificate.reason,
            "estimated: rounding errors, rounding errors of the Hessian, Lipschitz constants");
  EXPECT_EQ(e.certificate.verdict, Verdict::trusted);
  EXPECT_NEAR(e.gradient[0], truth(0.3), 1e-14);
}

TEST(TapedCertificate, WithConstantsItIsRigorousAndTheBoundHolds) {
  auto problem = differentiate(WeightedWithConstants{}, {.phi = 1, .theta = 1});
  for (const double theta : {-3.0, -1.0, 0.0, 0.3, 2.0, 4.0}) {
    const Estimate<Vec> e = estimate(problem, theta);
    EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted);
    EXPECT_LE(std::abs(e.gradient[0] - truth(theta)), e.certificate.bound);
    EXPECT_LE(e.certificate.bound, 1e-12);
  }
  EXPECT_TRUE(check_derivatives<Vec>(problem, Vec::Constant(1, 0.4), Vec::Constant(1, 0.3)).passed());
}

/// A μ alone is not all that a proof needs, and is used for what it is worth.
struct WeightedWithMu : Weighted {
  Constants constants(const Vec& theta, const Vec&, double) const {
    Constants c;
    c.mu = 1 + std::exp(theta[0]);
    return c;
  }
};

TEST(TapedCertificate, AMuAloneIsUsedAndTheRestIsEstimated) {
  auto problem = differentiate(WeightedWithMu{}, {.phi = 1, .theta = 1});
  const Estimate<Vec> e = estimate(problem, 0.3);
  EXPECT_EQ(e.certificate.mu_source, "the problem's constants");
  EXPECT_EQ(e.certificate.kind, Kind::estimated);
  EXPECT_EQ(e.certificate.reason, "estimated: rounding errors, Lipschitz constants");
}

/// min over φ of |φ − θ| + ½φ²: φ* = θ wherever |θ| < 1, at the kink.
struct Held {
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    using std::fabs;
    return fabs(phi[0] - theta[0]) + 0.5 * phi[0] * phi[0];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0] * phi[0];
  }
};

TEST(TapedCertificate, AStateAtAKinkIsNotTrusted) {
  auto problem = differentiate(Held{}, {.phi = Vec::Constant(1, 0.5), .theta = Vec::Constant(1, 0.5)});
  const auto inner = make_inner_solver<Vec>("newton", problem);
  const Estimate<Vec> e = make_estimator<Vec>("implicit-direct", problem, *inner)
                              ->estimate(Vec::Constant(1, 0.5), {.phi = Vec::Constant(1, 0.5), .pi = {}});
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
  EXPECT_EQ(e.certificate.kind, Kind::none);
  EXPECT_GT(problem.tapes().kinks, 0);
}

TEST(TapedCertificate, AKinkAtTheSettledStateIsNamed) {
  auto problem = differentiate(Held{}, {.phi = 1, .theta = 1});
  EXPECT_EQ(problem.kink(Vec::Constant(1, 0.25), Vec::Constant(1, 0.25)),
            "inner has a kink: a comparison ties, or |·|, min or max stands where it bends");
  EXPECT_EQ(problem.kink(Vec::Constant(1, 0.3), Vec::Constant(1, 0.25)), "");
}

}  // namespace taped_certificate_test
}  // namespace bilevel
