// Large problems whose couplings are local, and residuals that minimise nothing.

#include <chrono>
#include <random>

#include <gtest/gtest.h>
#include <Eigen/LU>

#include <bilevel/adolc/differentiate.hpp>
#include <bilevel/bilevel.hpp>

namespace bilevel {
namespace taped_sparse_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// A chain of springs in a quartic bed, pulled at by a wave: θ is the log of the springs' stiffness and of
/// the bed's.
struct Chain {
  std::size_t size = 0;
  static double pull(std::size_t i) { return std::sin(0.3 * static_cast<double>(i)); }
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    const T stiffness = exp(theta[0]), bed = exp(theta[1]);
    T sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      sum += bed * (0.5 * phi[i] * phi[i] + 0.25 * phi[i] * phi[i] * phi[i] * phi[i]) - pull(i) * phi[i];
      if (i + 1 < size) sum += 0.5 * stiffness * (phi[i + 1] - phi[i]) * (phi[i + 1] - phi[i]);
    }
    return sum;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    T sum = 0;
    for (std::size_t i = 0; i < size; ++i) sum += 0.5 * (phi[i] - 0.5 * pull(i)) * (phi[i] - 0.5 * pull(i));
    return sum / static_cast<double>(size);
  }
};

Mat hessian_of_chain(const Vec& phi, const Vec& theta, double beta) {
  const Index n = phi.size();
  const double k = std::exp(theta[0]), bed = std::exp(theta[1]);
  Mat h = Mat::Zero(n, n);
  for (Index i = 0; i < n; ++i) {
    h(i, i) += bed * (1 + 3 * phi[i] * phi[i]) + beta / static_cast<double>(n);
    if (i + 1 == n) break;
    h(i, i) += k;
    h(i + 1, i + 1) += k;
    h(i, i + 1) -= k;
    h(i + 1, i) -= k;
  }
  return h;
}

TEST(TapedSparse, TheHessianOfAChainIsFormedByThreeProducts) {
  for (const std::size_t size : {std::size_t{20}, std::size_t{150}}) {
    auto problem = differentiate(Chain{size}, {.phi = static_cast<Index>(size), .theta = 2});
    const auto n = static_cast<Index>(size);
    std::mt19937_64 engine(size);
    std::normal_distribution<double> normal;
    const Vec phi = Vec::NullaryExpr(n, [&] { return normal(engine); }), theta{{0.4, -0.3}};
    std::unique_ptr<Curvature<Vec>> curvature;
    for (const double beta : {0.0, 0.5, 0.0}) {
      problem.linearise(phi, theta, beta, curvature);
      const Mat expected = hessian_of_chain(phi, theta, beta);
      Mat dense;
      ASSERT_TRUE(curvature->dense(dense));
      EXPECT_LE((dense - expected).norm(), 1e-13 * expected.norm());
      SparseMatrix sparse;
      EXPECT_EQ(curvature->sparse(sparse), size < 100 ? 0 : 3);
      if (size >= 100) {
        EXPECT_EQ(sparse.values.size(), 3 * size - 2);
      }
      Vec r = Vec::Ones(n), x(n);
      ASSERT_TRUE(curvature->precondition(r, x));
      EXPECT_LE((expected * x - r).norm(), 1e-12);
    }
    EXPECT_EQ(problem.capabilities().sparse, size >= 100);
    EXPECT_TRUE(check_derivatives<Vec>(problem, phi, theta).passed());
  }
}

TEST(TapedSparse, ATightLoopOfTenThousandNeverFormsTheDenseHessian) {
  constexpr Index n = 10000;
  auto problem = differentiate(Chain{n}, {.phi = n, .theta = 2, .sparse = true});
  ASSERT_TRUE(problem.capabilities().sparse);
  const Vec theta{{1, 0.2}};
  const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
  const auto begun = std::chrono::steady_clock::now();
  const Solution<Vec> settled = inner->solve(theta, 0, problem.initial_phi());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_EQ(settled.status, Status::converged) << settled.message;
  EXPECT_LE(settled.iterations, 12);
  EXPECT_EQ(settled.cost.dense_hessians, 0);
  EXPECT_LE(settled.cost.hessian_products, 3 * settled.iterations);
  RecordProperty("milliseconds_an_iteration",
                 std::to_string(1e3 * seconds / static_cast<double>(settled.iterations)));

  // The gradient by Thomas' algorithm on the closed form.
  const double k = std::exp(theta[0]), bed = std::exp(theta[1]);
  const Vec& phi = settled.phi;
  Vec diagonal(n), right(n), pi(n);
  for (Index i = 0; i < n; ++i) {
    diagonal[i] = bed * (1 + 3 * phi[i] * phi[i]) + (i == 0 || i + 1 == n ? k : 2 * k);
    right[i] = (phi[i] - 0.5 * Chain::pull(static_cast<std::size_t>(i))) / n;
  }
  for (Index i = 1; i < n; ++i) {
    const double factor = -k / diagonal[i - 1];
    diagonal[i] -= factor * -k;
    right[i] -= factor * right[i - 1];
  }
  for (Index i = n; i-- > 0;) pi[i] = (right[i] + (i + 1 < n ? k * pi[i + 1] : 0)) / diagonal[i];
  Vec expected = Vec::Zero(2);
  for (Index i = 0; i < n; ++i) {
    expected[1] -= pi[i] * bed * (phi[i] + phi[i] * phi[i] * phi[i]);
    if (i + 1 < n) expected[0] -= (pi[i + 1] - pi[i]) * k * (phi[i + 1] - phi[i]);
  }
  for (const char* method : {"implicit-direct", "implicit-cg-preconditioned", "auto"}) {
    const auto e = make_estimator<Vec>(method, problem, *inner)->estimate(theta, {.phi = phi, .pi = {}});
    EXPECT_LE((e.gradient - expected).norm(), 1e-8 * expected.norm()) << method << ": " << e.message;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << method << ": " << e.certificate.reason;
    EXPECT_EQ(e.certificate.mu_source, "a sparse factor of the shifted Hessian") << method;
    EXPECT_LE((e.gradient - expected).norm(), e.certificate.bound) << method;
    EXPECT_EQ(e.cost.dense_hessians, 0) << method;
  }
}

/// Springs that push apart as well: H is not positive definite at the start.
struct Buckling {
  std::size_t size = 0;
  template <class T>
  T inner(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const T square = phi[i] * phi[i];
      sum += 0.25 * square * square - 0.5 * square - theta[0] * phi[i];
      if (i + 1 < size) sum += 0.05 * (phi[i + 1] - phi[i]) * (phi[i + 1] - phi[i]);
    }
    return sum;
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>&) const {
    return phi[0];
  }
};

TEST(TapedSparse, AnIndefiniteSparseHessianIsShifted) {
  auto problem = differentiate(Buckling{200}, {.phi = 200, .theta = 1});
  const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-10});
  // Near the ridge at 0, pushed towards +1: all reach (φ³ − φ = θ).
  const Solution<Vec> s = inner->solve(Vec::Constant(1, 0.1), 0, Vec::Constant(200, 0.05));
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_NE(s.message.find("not positive definite"), std::string::npos) << s.message;
  for (const double phi : s.phi) EXPECT_NEAR(phi * phi * phi - phi, 0.1, 1e-9);
}

/// x′ = x settled: φ = tanh(W φ + θ) with a W that is not symmetric.
struct Recurrent {
  Mat w = (Mat(3, 3) << 0.2, -0.5, 0.1, 0.3, 0.1, -0.2, -0.4, 0.2, 0.3).finished();
  template <class T>
  void residual(const Span<T>& phi, const Span<T>& theta, std::span<T> out) const {
    for (Index i = 0; i < 3; ++i) {
      T sum = theta[static_cast<std::size_t>(i)];
      for (Index j = 0; j < 3; ++j) sum += w(i, j) * phi[static_cast<std::size_t>(j)];
      out[static_cast<std::size_t>(i)] = phi[static_cast<std::size_t>(i)] - tanh(sum);
    }
  }
  template <class T>
  T outer(const Span<T>& phi, const Span<T>& theta) const {
    T sum = 0.05 * theta[1] * phi[2];
    for (std::size_t i = 0; i < 3; ++i) sum += 0.5 * (phi[i] - 0.3) * (phi[i] - 0.3);
    return sum;
  }
};

TEST(TapedResidual, TheEquilibriumOfANetAndItsGradient) {
  auto net = differentiate(Recurrent{}, {.phi = 3, .theta = Vec{{0.1, -0.2, 0.4}}});
  EXPECT_FALSE(net.capabilities().symmetric);
  EXPECT_TRUE(check_derivatives<Vec>(net, Vec{{0.1, 0.5, -0.3}}, net.initial_theta()).passed())
      << check_derivatives<Vec>(net, Vec{{0.1, 0.5, -0.3}}, net.initial_theta()).table();
  const auto inner = make_inner_solver<Vec>("anderson", net, {.gradient_tolerance = 1e-13});
  const Vec theta = net.initial_theta();
  const auto e = make_estimator<Vec>("implicit-direct", net, *inner)->estimate(theta, {});
  // J = I − D W, χ = −D with D = 1 − φ².
  const Vec d = 1 - e.phi.array().square();
  const Mat j = Mat::Identity(3, 3) - d.asDiagonal() * Recurrent{}.w;
  Vec g = e.phi.array() - 0.3, partial = Vec::Zero(3);
  g[2] += 0.05 * theta[1];
  partial[1] = 0.05 * e.phi[2];
  const Vec expected = partial + d.asDiagonal() * j.transpose().partialPivLu().solve(g);
  EXPECT_LE((e.gradient - expected).norm(), 1e-12);
  EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
  const Summary s = minimise(net, {.outer = {.max_iterations = 100}});
  EXPECT_TRUE(succeeded(s.status)) << s.message;
}

}  // namespace taped_sparse_test
}  // namespace bilevel
