// Powers at zero, where ADOL-C's own second derivatives of whole ones are wrong.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

namespace bilevel {
namespace taped_powers_test {

using Vec = Eigen::VectorXd;

/// L_in = φ^k + ½(φ − θ)², L_out = ½(φ − 1)².
template <class Exponent>
struct Power {
  Exponent exponent;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    return pow(phi[0], exponent) + 0.5 * pow(phi[0] - theta[0], 2);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * pow(phi[0] - 1, 2.0f);
  }
};
/// The same by rows.
struct PowerOfRows {
  int exponent;
  double one = 1;
  Rows inner_rows() const { return {&one, 1, 1}; }
  template <class T, class Row>
  T inner_row(const Span<T>& phi, const Span<T>& theta, const Row& row) const {
    return pow(phi[0] * row[0], exponent) + 0.5 * pow(phi[0] - theta[0], 2);
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return 0.5 * pow(phi[0] - 1, 2);
  }
};

template <class Losses>
void expect_derivatives(const Losses& losses, double k) {
  auto problem = differentiate(losses, {.phi = 1, .theta = 1});
  Vec g(1), h(1);
  std::unique_ptr<Curvature<Vec>> curvature;
  for (const double x : {0.0, -1.5, 0.7, 3.0, 0.0}) {
    if (x < 0 && k != std::floor(k)) continue;
    SCOPED_TRACE(testing::Message() << x << "^" << k);
    const Vec phi = Vec::Constant(1, x);
    problem.inner(phi, Vec::Zero(1), {.phi = &g});
    problem.linearise(phi, Vec::Zero(1), 0, curvature);
    curvature->times(Vec::Ones(1), h);
    const double slope = k == 0 ? 0 : k * std::pow(x, k - 1),
                 bend = k == 0 || k == 1 ? 0 : k * (k - 1) * std::pow(x, k - 2);
    EXPECT_NEAR(g[0], slope + x, 1e-14 * (1 + std::abs(slope)));
    EXPECT_NEAR(h[0], bend + 1, 1e-13 * (1 + std::abs(bend)));
  }
}

TEST(TapedPowers, HaveTheirDerivativesAtZeroToo) {
  for (int k = 0; k <= 12; ++k) {
    expect_derivatives(Power<int>{k}, k);
    expect_derivatives(Power<double>{static_cast<double>(k)}, k);
    if (k >= 2) expect_derivatives(PowerOfRows{k}, k);
  }
  expect_derivatives(Power<unsigned>{5}, 5);
  expect_derivatives(Power<long>{32}, 32);
  for (const double k : {2.5, 3.5, 4.5}) expect_derivatives(Power<double>{k}, k);
}

TEST(TapedPowers, TheGradientAtZeroIsRight) {
  for (const int k : {3, 4, 5, 6, 8})
    for (const char* method :
         {"auto", "implicit-direct", "implicit-cg", "exact", "ep-central", "finite-difference"}) {
      auto problem = differentiate(Power<int>{k}, {.phi = 1, .theta = 1});
      const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
      const auto e = make_estimator<Vec>(method, problem, *inner)->estimate(Vec::Zero(1), {});
      // dφ/dθ = 1 at θ = 0.
      EXPECT_NEAR(e.gradient[0], -1, 1e-4) << method << ", " << k;
      EXPECT_LE(std::abs(e.gradient[0] + 1), e.certificate.bound) << method << ", " << k;
    }
}

struct Settling {
  template <class T>
  void residual(const Span<T>& phi, const Span<T>& theta, std::span<T> out) const {
    out[0] = pow(phi[0], 4) + phi[0] - theta[0];
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return pow(phi[0], 4) + phi[0];
  }
};

TEST(TapedPowers, InResidualsAndOuterLosses) {
  auto problem = differentiate(Settling{}, {.phi = 1, .theta = 1});
  std::unique_ptr<Curvature<Vec>> curvature;
  Vec h(1);
  for (const double beta : {0.0, 1.0}) {
    problem.linearise(Vec::Zero(1), Vec::Zero(1), beta, curvature);
    curvature->times(Vec::Ones(1), h);
    EXPECT_EQ(h[0], 1);
    curvature->transpose_times(Vec::Ones(1), h);
    EXPECT_EQ(h[0], 1);
  }
}

}  // namespace taped_powers_test
}  // namespace bilevel
