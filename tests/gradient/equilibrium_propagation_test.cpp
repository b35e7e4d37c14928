// What equilibrium propagation must give where the answer is known: closed forms, orders in β, the theorem
// itself.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/quadratic.hpp>

#include <gradient/propagation_names.hpp>
#include "settling.hpp"

namespace bilevel {
namespace equilibrium_propagation_test {

using namespace nudged_tests;
using problems::LogCosh;
using problems::Quadratic;

Settling exact_phases(const Quadratic& problem) {
  return Settling(
      [&problem](const Vec& theta, double beta, const Vec&) { return problem.settled(theta, beta); });
}

Vec some_theta(Index size, std::uint64_t seed) {
  Vec theta(size);
  Space<Vec>::random(seed, theta);
  return theta;
}

/// Least-squares slope of log error over log β.
double slope(const std::vector<double>& betas, const std::function<double(double)>& error) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0, n = 0;
  for (const double beta : betas) {
    const double x = std::log(beta), y = std::log(error(beta));
    sx += x;
    sy += y;
    sxx += x * x;
    sxy += x * y;
    ++n;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

struct Order {
  const char* name;
  double order, largest;  ///< the largest β of the fit: small enough for the first term, large for rounding
};

class Orders : public ::testing::TestWithParam<Order> {};
INSTANTIATE_TEST_SUITE_P(, Orders,
                         ::testing::Values(Order{"ep-forward-2", 1, 1e-3}, Order{"ep-forward-3", 2, 4e-3},
                                           Order{"ep-forward-4", 3, 1e-2}, Order{"ep-forward-5", 4, 1e-2},
                                           Order{"ep-central", 2, 1e-2}, Order{"ep-random-sign", 1, 1e-3}));

TEST_P(Orders, BiasFallsWithTheStencilsOrder) {
  const auto [name, order, largest] = GetParam();
  std::vector<double> betas;
  for (int k = 0; k < 5; ++k) betas.push_back(largest * std::pow(0.7, k));
  auto quadratic = Quadratic::random({.phi = 6, .theta = 3, .condition = 4, .seed = 3});
  auto log_cosh = LogCosh::random({.phi = 6, .theta = 3, .condition = 4, .epsilon = 0.7, .seed = 4});
  const Vec theta = some_theta(3, 5);
  Settling phases = exact_phases(quadratic);
  const Vec truth = *quadratic.outer_gradient(theta);
  const double on_quadratic = slope(betas, [&](double beta) {
    return (propagation(name, quadratic, phases, beta).estimate(theta, {}).gradient - truth).norm();
  });
  EXPECT_NEAR(on_quadratic, order, 0.05 * order);
  const auto newton = solver("newton", log_cosh, 1e-14);
  const Vec log_cosh_truth = reference(log_cosh, theta).gradient;
  const double on_log_cosh = slope(betas, [&](double beta) {
    return (propagation(name, log_cosh, *newton, beta).estimate(theta, {}).gradient - log_cosh_truth).norm();
  });
  EXPECT_NEAR(on_log_cosh, order, 0.05 * order);
  std::printf("%s: slope %.3f on the quadratic, %.3f on log-cosh\n", name, on_quadratic, on_log_cosh);
}

TEST(EquilibriumPropagation, TwoPointsOnAQuadraticAreTheClosedForm) {
  auto problem = Quadratic::random({.phi = 8, .theta = 4, .condition = 50, .seed = 7});
  const Vec theta = some_theta(4, 8);
  Settling phases = exact_phases(problem);
  const Vec force = [&] {
    Vec g(8);
    problem.outer(problem.settled(theta, 0), theta, {.phi = &g});
    return g;
  }();
  for (const double beta : {1e-3, 0.1, 1.0, 20.0, -1e-3, -0.02}) {
    const Vec pi = (problem.hessian() + beta * problem.outer_hessian()).llt().solve(force);
    const auto e = propagation("ep-forward-2", problem, phases, beta).estimate(theta, {});
    EXPECT_LE((e.gradient - problem.coupling().transpose() * pi).norm(), 1e-13 / std::abs(beta)) << beta;
    EXPECT_LE((e.pi - pi).norm(), 1e-12 / std::abs(beta)) << beta;  // −dφ/dβ, not +
    EXPECT_NEAR(e.outer_value, problem.outer(problem.settled(theta, 0), theta, {}), 1e-13);
    EXPECT_NEAR(e.corrected_value, e.outer_value, 1e-11);
  }
}

// H = G = 1: error(β) = Cβ/(1+β) + a/β with C = ‖Jᵀ(φ_0 − y)‖ and a = ‖J‖(δ + δ′).
TEST(EquilibriumPropagation, BiasAndNoiseTradeOffAsTheTheoremSays) {
  const double j = 0.8, b = 0.3, y = 2.0, theta_value = 0.5;
  const auto one = [](double x) { return Eigen::MatrixXd::Constant(1, 1, x); };
  Quadratic problem(one(1), one(j), Vec::Constant(1, b), one(1), Vec::Constant(1, y));
  const Vec theta = Vec::Constant(1, theta_value);
  const double phi0 = j * theta_value + b, c = std::abs(j * (phi0 - y)), truth = j * (phi0 - y);
  Settling exact = exact_phases(problem);
  for (const double beta : {1e-4, 0.01, 0.3, 1.0, 5.0}) {
    const auto e = propagation("ep-forward-2", problem, exact, beta).estimate(theta, {});
    EXPECT_NEAR(std::abs(e.gradient[0] - truth), beta / (1 + beta) * c, 1e-14 / beta);
  }
  std::vector<double> sizes, lowest;
  for (const double delta : {1e-8, 1e-6, 1e-4}) {
    const double delta_prime = 2 * delta, a = j * (delta + delta_prime);
    // Both errors push where the bias pushes: towards zero, since ∇ < 0 here and ∇̂ = −j(φ̂_β − φ̂_0)/β.
    Settling adversary([&](const Vec& t, double beta, const Vec&) {
      Vec phi = problem.settled(t, beta);
      phi[0] += beta == 0 ? delta : -delta_prime;
      return phi;
    });
    const auto error = [&](double beta) {
      return std::abs(propagation("ep-forward-2", problem, adversary, beta).estimate(theta, {}).gradient[0] -
                      truth);
    };
    const double best = std::sqrt(a) / (std::sqrt(c) - std::sqrt(a)), least = 2 * std::sqrt(c * a) - a;
    EXPECT_NEAR(error(best), least, 1e-6 * least);
    for (const double factor : {0.01, 0.3, 0.9, 1.1, 3.0, 100.0})
      EXPECT_GT(error(factor * best), least) << factor;
    EXPECT_NEAR(error(0.01 * best), a / (0.01 * best) + c * 0.01 * best / (1 + 0.01 * best),
                1e-6 * error(0.01 * best));
    sizes.push_back(delta);
    lowest.push_back(error(best));
  }
  EXPECT_NEAR(std::log(lowest[2] / lowest[0]) / std::log(sizes[2] / sizes[0]), 0.5, 0.01);
}

// d/dθ [∂βL at φ_β] = d/dβ [∂θL at φ_β]: the equilibrium propagation theorem, at β ≠ 0 too.
TEST(EquilibriumPropagation, TheoremHoldsAtEveryBeta) {
  auto problem = LogCosh::random({.phi = 5, .theta = 3, .condition = 10, .epsilon = 0.8, .seed = 12});
  const Vec theta = some_theta(3, 13);
  const auto newton = solver("newton", problem, 1e-14);
  const auto settle = [&](const Vec& t, double beta) {
    return newton->solve(t, beta, problem.initial_phi()).phi;
  };
  const auto sixth_order = [](auto f, double h) {
    return ((f(3 * h) - f(-3 * h)) / 60 - 3 * (f(2 * h) - f(-2 * h)) / 20 + 3 * (f(h) - f(-h)) / 4) / h;
  };
  for (const double beta : {-0.05, 0.2, 1.0, 3.0}) {
    for (Index i = 0; i < 3; ++i) {
      const auto by_theta = [&](double step) {
        Vec moved = theta;
        moved[i] += step;
        return problem.outer(settle(moved, beta), moved, {});
      };
      const auto by_beta = [&](double step) {
        const Vec phi = settle(theta, beta + step);
        Vec inner(3), outer(3);
        problem.inner(phi, theta, {.theta = &inner});
        problem.outer(phi, theta, {.theta = &outer});
        return inner[i] + (beta + step) * outer[i];
      };
      EXPECT_NEAR(sixth_order(by_theta, 1e-2), sixth_order(by_beta, 5e-3), 2e-10) << "beta " << beta;
    }
  }
}

// Gradient descent of the nudged system from the free state, and recurrent backpropagation from π_0 = 0.
TEST(EquilibriumPropagation, NudgedTrajectoryIsTheAdjointsTrajectory) {
  const auto worst = [](Problem<Vec>& problem, const Vec& theta, double beta, long steps) {
    const Vec phi0 = solver("newton", problem, 1e-14)->solve(theta, 0, problem.initial_phi()).phi;
    Vec g(phi0.size()), product(phi0.size()), pi = Vec::Zero(phi0.size());
    problem.outer(phi0, theta, {.phi = &g});
    std::unique_ptr<Curvature<Vec>> curvature;
    problem.linearise(phi0, theta, 0, curvature);
    const double step = 0.05;
    double largest = 0;
    for (long k = 0; k <= steps; ++k) {
      MinimiserOptions options;
      options.gradient_tolerance = 0;
      options.max_iterations = k;
      Minimiser<Vec> descent(
          problem, std::make_unique<GradientDescent<Vec>>(GradientDescentOptions{.step = step}), options);
      const Vec secant = -(descent.solve(theta, beta, phi0).phi - phi0) / beta;
      largest = std::max(largest, (secant - pi).norm());
      curvature->times(pi, product);
      pi -= step * (product - g);
    }
    return largest;
  };
  auto bent = LogCosh::random({.phi = 5, .theta = 3, .condition = 10, .epsilon = 0.8, .seed = 21});
  const Vec theta = some_theta(3, 22);
  const double at = worst(bent, theta, 1e-3, 25), at_half = worst(bent, theta, 5e-4, 25);
  EXPECT_GT(at, 1e-6);
  EXPECT_NEAR(at / at_half, 2, 0.02);

  // L_in quadratic, L_out linear: exact for every β.
  const auto quadratic = Quadratic::random({.phi = 5, .theta = 3, .condition = 10, .seed = 23});
  const Vec direction = some_theta(5, 24);
  Functions<Vec> functions;
  auto base = std::make_shared<Quadratic>(quadratic);
  functions.initial_phi = [base] { return base->initial_phi(); };
  functions.initial_theta = [base] { return base->initial_theta(); };
  functions.inner = [base](const Vec& p, const Vec& t, Wanted<Vec> w) { return base->inner(p, t, w); };
  functions.outer = [direction](const Vec& p, const Vec&, Wanted<Vec> w) {
    if (w.phi) *w.phi = direction;
    if (w.theta) w.theta->setZero();
    return direction.dot(p);
  };
  functions.hessian_times = [base](const Vec&, const Vec&, double, const Vec& v, Vec& out) {
    out = base->hessian() * v;
  };
  functions.cross_times = [base](const Vec&, const Vec&, double, const Vec& v, Vec& out) {
    out = -base->coupling().transpose() * v;
  };
  functions.cross_apply = [base](const Vec&, const Vec&, double, const Vec& u, Vec& out) {
    out = -base->coupling() * u;
  };
  auto linear = make_problem<Vec>(functions);
  for (const double beta : {1e-2, 1.0, 30.0})
    EXPECT_LE(worst(linear, theta, beta, 25), 1e-12 / std::min(beta, 1.0));
}

TEST(EquilibriumPropagation, OnlyFirstDerivativesAreAskedFor) {
  auto original = LogCosh::random({.phi = 6, .theta = 3, .condition = 10, .seed = 31});
  FirstOrder problem(original);  // its linearise throws
  const Vec theta = some_theta(3, 32), truth = reference(original, theta).gradient;
  const auto lbfgs = solver("lbfgs", problem, 1e-11);
  for (const std::string& name : equilibrium_propagation_names()) {
    auto estimator = propagation(name, problem, *lbfgs, 0);
    const auto e = estimator.estimate(theta, {});
    EXPECT_EQ(e.cost.linearisations + e.cost.hessian_products + e.cost.cross_products + e.cost.dense_hessians,
              0);
    EXPECT_EQ(e.certificate.kind, Kind::estimated) << e.certificate.reason;
    const double error = (e.gradient - truth).norm();
    EXPECT_LE(error, e.certificate.bound);
    EXPECT_LE(error, 1e-4 * truth.norm()) << name << ": " << e.message;
    EXPECT_EQ(estimator.name(), name);
  }
  // The ledger of the estimator alone, with a solver that asks nothing: one look at each state.
  auto quadratic = Quadratic::random({.phi = 6, .theta = 3, .condition = 10, .seed = 33});
  Settling phases = exact_phases(quadratic);
  const auto e = propagation("ep-forward-4", quadratic, phases, 1e-5).estimate(theta, {});
  EXPECT_EQ(e.certificate.kind, Kind::rigorous);
  EXPECT_EQ(e.cost.linearisations + e.cost.hessian_products + e.cost.cross_products, 0);
  EXPECT_EQ(e.cost.outer_gradients, 4);
  EXPECT_EQ(e.cost.inner_gradients, 5);  // the free state twice: ∂φ to see that it settled, then ∂θ
  // An estimated bound looks in three more directions.
  const auto estimated = propagation("ep-forward-4", quadratic, phases, 0.05).estimate(theta, {});
  EXPECT_EQ(estimated.certificate.kind, Kind::estimated);
  EXPECT_EQ(estimated.cost.outer_gradients, 5);
  EXPECT_EQ(estimated.cost.inner_gradients, 8);
  EXPECT_GT(e.cost.bytes, 0U);
}

TEST(EquilibriumPropagation, AgreesWithClosedFormsAtTheDefaults) {
  for (const char* family : {"quadratic", "ridge", "duopoly", "pitchfork", "log-cosh", "logistic"}) {
    const auto problem = problems::make(family, {.seed = 2});
    const Vec theta = problem->initial_theta();
    const Vec truth = problem->outer_gradient(theta) ? *problem->outer_gradient(theta)
                                                     : reference(*problem, theta).gradient;
    for (const std::string& name : equilibrium_propagation_names()) {
      const auto newton = solver("newton", *problem, 1e-12);
      auto estimator = propagation(name, *problem, *newton, 0);
      const auto e = estimator.estimate(theta, {});
      const double error = (e.gradient - truth).norm() / std::max(truth.norm(), 1e-3);
      std::printf("%-10s %-15s relative error %.1e, bound %.1e (%s, %s), beta %.1e\n", family, name.c_str(),
                  error, e.certificate.bound / std::max(truth.norm(), 1e-3),
                  std::string(bilevel::name(e.certificate.kind)).c_str(),
                  std::string(bilevel::name(e.certificate.verdict)).c_str(), estimator.used_beta());
      // Two points reach √(noise·bias), about 1e-6; the others more.
      const bool two = name == "ep-forward-2" || name == "ep-random-sign";
      EXPECT_LE(error, two ? 3e-6 : 1e-7) << e.message;
      EXPECT_LE((e.gradient - truth).norm(), 1e-6 * std::max(truth.norm(), 1.0));
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason << e.message;
      EXPECT_LE((e.gradient - truth).norm(), e.certificate.bound + 1e-14);
    }
  }
}

}  // namespace equilibrium_propagation_test
}  // namespace bilevel
