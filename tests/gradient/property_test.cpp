// Thousands of random log-cosh problems with errors injected into both phases: the true error of the outer
// gradient, known from extended precision, never exceeds the certificate's rigorous bound.

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>
#include <Eigen/LU>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/problems/ridge.hpp>

namespace bilevel {
namespace property_test {

using Vec = Eigen::VectorXd;
using Long = long double;
using LongVec = Eigen::Matrix<Long, Eigen::Dynamic, 1>;
using LongMat = Eigen::Matrix<Long, Eigen::Dynamic, Eigen::Dynamic>;

struct Truth {
  LongVec phi, pi, gradient;
};

LongVec sech2(const LongVec& x) {
  return x.unaryExpr([](Long e) {
    const Long c = std::cosh(e);
    return 1 / (c * c);
  });
}
LongVec tanh(const LongVec& x) {
  return x.unaryExpr([](Long e) { return std::tanh(e); });
}

/// Newton in extended precision until the step no longer changes anything.
Truth solve_exactly(const problems::LogCosh& p, const Vec& theta) {
  const LongMat h = p.hessian().cast<Long>(), j = p.coupling().cast<Long>(),
                k = p.outer_coupling().cast<Long>();
  const LongVec y = p.target().cast<Long>(), t = theta.cast<Long>();
  const Long epsilon = p.epsilon();
  const LongVec shift = j * t;
  Truth truth;
  truth.phi = LongVec::Zero(h.rows());
  const auto residual = [&](const LongVec& phi) { return LongVec(h * phi + epsilon * tanh(phi - shift)); };
  const auto hessian = [&](const LongVec& phi) {
    LongMat m = h;
    m.diagonal() += epsilon * sech2(phi - shift);
    return m;
  };
  for (int i = 0; i < 200; ++i) {
    const LongVec r = residual(truth.phi), step = hessian(truth.phi).partialPivLu().solve(r);
    Long length = 1;
    while (length > 1e-6L && residual(truth.phi - length * step).norm() > r.norm() * (1 - length / 4))
      length /= 2;
    truth.phi -= length * step;
    if (step.norm() <= 1e-19L * (1 + truth.phi.norm())) break;
  }
  const LongVec c = truth.phi - y - k * t;
  truth.pi = hessian(truth.phi).partialPivLu().solve(tanh(c));
  const LongMat chi = -epsilon * (sech2(truth.phi - shift).asDiagonal() * j);
  truth.gradient = -(k.transpose() * tanh(c)) - chi.transpose() * truth.pi;
  return truth;
}

struct Ratios {
  std::vector<double> bound, theorem;
  void print() const {
    auto sorted = bound;
    std::sort(sorted.begin(), sorted.end());
    auto theirs = theorem;
    std::sort(theirs.begin(), theirs.end());
    std::printf("a-posteriori bound / true error over %zu draws: median %.3g, least %.3g, worst %.3g\n",
                sorted.size(), sorted[sorted.size() / 2], sorted.front(), sorted.back());
    std::printf("theorem's bound / true error over %zu draws:      median %.3g, least %.3g, worst %.3g\n",
                theirs.size(), theirs[theirs.size() / 2], theirs.front(), theirs.back());
  }
};

TEST(Certificate, RigorousBoundHoldsOverRandomLogCoshProblems) {
  constexpr int draws = 2500;
  Ratios ratios;
  for (std::uint64_t seed = 1; seed <= draws; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform(0, 1);
    const auto gaussian = [&](Index n) { return Vec(Vec::NullaryExpr(n, [&] { return normal(engine); })); };
    problems::LogCoshOptions options;
    options.phi = 1 + static_cast<Index>(engine() % 8);
    options.theta = 1 + static_cast<Index>(engine() % 6);
    options.condition = std::pow(10.0, 4 * uniform(engine));
    options.epsilon = std::pow(10.0, -2 + 3 * uniform(engine));
    options.seed = seed;
    auto problem = problems::LogCosh::random(options);
    const Vec theta = 2 * gaussian(options.theta);
    const Truth truth = solve_exactly(problem, theta);

    // Errors of any size from none to large, in either phase or both.
    const auto size = [&] {
      return uniform(engine) < 0.15 ? 0.0 : std::pow(10.0, -15 + 15 * uniform(engine));
    };
    const Vec phi = truth.phi.cast<double>() + size() * gaussian(options.phi);
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(phi, theta, 0, curvature);
    Vec g(options.phi), outer_theta(options.theta), residual(options.phi), product(options.phi),
        cross(options.theta);
    problem.outer(phi, theta, {.phi = &g, .theta = &outer_theta});
    problem.residual(phi, theta, residual);
    Eigen::MatrixXd h;
    ASSERT_TRUE(curvature->dense(h));
    const Vec pi = h.partialPivLu().solve(g) + size() * gaussian(options.phi);
    curvature->times(pi, product);
    curvature->cross_times(pi, cross);
    const Vec gradient = outer_theta - cross;

    const Certificate c = certify<Vec>(problem, curvature.get(),
                                       {.theta = theta,
                                        .phi = phi,
                                        .pi = pi,
                                        .inner_residual = residual,
                                        .adjoint_residual = (g - product).norm(),
                                        .outer_phi = g,
                                        .outer_theta = outer_theta,
                                        .gradient = gradient},
                                       {});
    ASSERT_EQ(c.kind, Kind::rigorous) << c.reason;
    const double error = static_cast<double>((truth.gradient - gradient.cast<Long>()).norm());
    ASSERT_LE(error, c.bound) << "true error " << error << ", bound " << c.bound;
    const double delta = static_cast<double>((truth.phi - phi.cast<Long>()).norm());
    ASSERT_LE(delta, c.delta);
    if (!std::isnan(c.theorem_bound)) {
      ASSERT_LE(error, c.theorem_bound);
      ratios.theorem.push_back(c.theorem_bound / std::max(error, 1e-300));
    }
    ratios.bound.push_back(c.bound / std::max(error, 1e-300));
  }
  ratios.print();
}

/// certify() on what two phases of a one-dimensional problem left, with errors injected.
Certificate certify_scalar(Problem<Vec>& problem, double theta, double phi, double pi_error,
                           double& gradient) {
  const Vec t = Vec::Constant(1, theta), f = Vec::Constant(1, phi);
  std::unique_ptr<Curvature<Vec>> curvature;
  problem.linearise(f, t, 0, curvature);
  Vec g(1), outer_theta(1), residual(1), product(1), cross(1);
  problem.outer(f, t, {.phi = &g, .theta = &outer_theta});
  problem.residual(f, t, residual);
  curvature->times(Vec::Ones(1), product);
  const Vec pi = Vec::Constant(1, g[0] / product[0] + pi_error);
  curvature->times(pi, product);
  curvature->cross_times(pi, cross);
  const Vec estimate = outer_theta - cross;
  gradient = estimate[0];
  return certify<Vec>(problem, curvature.get(),
                      {.theta = t,
                       .phi = f,
                       .pi = pi,
                       .inner_residual = residual,
                       .adjoint_residual = std::abs(g[0] - product[0]),
                       .outer_phi = g,
                       .outer_theta = outer_theta,
                       .gradient = estimate},
                      {});
}

// In one dimension the bound is reached: a term that is missing or too small shows.
TEST(Certificate, RigorousBoundHoldsAndIsReachedInOneDimension) {
  double closest_ridge = 0, closest_pitchfork = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform(0, 1);
    const auto error = [&] {
      return uniform(engine) < 0.2 ? 0.0 : normal(engine) * std::pow(10.0, -14 + 14 * uniform(engine));
    };

    // Ridge with one sample: φ* = xt/(x² + λ), π = x_v(x_vφ − t_v)/(x² + λ), ∇ = −λφπ.
    const double x = normal(engine), target = normal(engine), xv = normal(engine), tv = normal(engine),
                 theta = 6 * uniform(engine) - 4;
    problems::Ridge ridge(Eigen::MatrixXd::Constant(1, 1, x), Vec::Constant(1, target),
                          Eigen::MatrixXd::Constant(1, 1, xv), Vec::Constant(1, tv));
    const Long lambda = std::exp(static_cast<Long>(theta)), h = static_cast<Long>(x) * x + lambda,
               phi = static_cast<Long>(x) * target / h;
    const Long pi = xv * (static_cast<Long>(xv) * phi - tv) / h;
    double gradient = 0;
    const Certificate r = certify_scalar(ridge, theta, static_cast<double>(phi) + error(), error(), gradient);
    ASSERT_EQ(r.kind, Kind::rigorous) << r.reason;
    const double ridge_error =
        static_cast<double>(std::abs(-lambda * phi * pi - static_cast<Long>(gradient)));
    ASSERT_LE(ridge_error, r.bound);
    closest_ridge = std::max(closest_ridge, ridge_error / r.bound);

    // Pitchfork: φ* = √(θ/2), ∇ = (φ* − y)/(4φ*); errors small enough to stay on its branch.
    problems::Pitchfork pitchfork;
    const double fork = 0.2 + 3 * uniform(engine);
    const Long settled = std::sqrt(static_cast<Long>(fork) / 2);
    const Certificate p = certify_scalar(
        pitchfork, fork, static_cast<double>(settled) * (1 + 0.05 * std::tanh(error())), error(), gradient);
    ASSERT_EQ(p.kind, Kind::rigorous) << p.reason;
    const double fork_error =
        static_cast<double>(std::abs((settled - 1) / (4 * settled) - static_cast<Long>(gradient)));
    ASSERT_LE(fork_error, p.bound);
    closest_pitchfork = std::max(closest_pitchfork, fork_error / p.bound);
  }
  std::printf("largest true error / bound: ridge %.4f, pitchfork %.4f\n", closest_ridge, closest_pitchfork);
  EXPECT_GT(closest_ridge, 0.9);
  EXPECT_GT(closest_pitchfork, 0.5);
}

// The theorem's constant, written out independently.
TEST(Certificate, TheoremsBoundIsThePapersFormula) {
  auto problem =
      problems::LogCosh::random({.phi = 6, .theta = 3, .condition = 20, .epsilon = 0.5, .seed = 11});
  const Vec theta = problem.initial_theta();
  const Vec phi = solve_exactly(problem, theta).phi.cast<double>() + Vec::Constant(6, 1e-6);
  std::unique_ptr<Curvature<Vec>> curvature;
  problem.linearise(phi, theta, 0, curvature);
  Vec g(6), outer_theta(3), residual(6), cross(3);
  problem.outer(phi, theta, {.phi = &g, .theta = &outer_theta});
  problem.residual(phi, theta, residual);
  const Vec pi = Vec::Zero(6);
  curvature->cross_times(pi, cross);
  const Vec gradient = outer_theta - cross;
  const Certificate c = certify<Vec>(problem, curvature.get(),
                                     {.theta = theta,
                                      .phi = phi,
                                      .pi = pi,
                                      .inner_residual = residual,
                                      .adjoint_residual = g.norm(),
                                      .outer_phi = g,
                                      .outer_theta = outer_theta,
                                      .gradient = gradient,
                                      .good_enough = 1e9},
                                     {});
  const Constants k = problem.constants(theta, phi, everywhere);
  const double mu = k.mu, rho = std::max(k.hessian_lipschitz, k.cross_lipschitz), b = k.outer_lipschitz,
               l = k.outer_smoothness;
  const double m = std::max(k.cross_norm, k.outer_cross_lipschitz);
  const double constant = m + (b * rho + 2 * m * l) / mu + 2 * m * b * rho / (mu * mu);
  EXPECT_NEAR(c.theorem_bound, constant * (c.delta + c.delta_prime), 1e-9 * c.theorem_bound);
  EXPECT_NEAR(c.delta_prime, g.norm() / mu, 1e-9 * c.delta_prime);
  EXPECT_NEAR(c.delta, residual.norm() / mu, 1e-6 * c.delta);
}

}  // namespace property_test
}  // namespace bilevel
