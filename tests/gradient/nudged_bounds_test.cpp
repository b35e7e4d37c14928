// Over random problems, strengths and accuracies of the phases: rigorous bounds of equilibrium propagation
// are never below the true error, estimated ones almost never.

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/problems/log_cosh.hpp>
#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/pitchfork.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <bilevel/problems/ridge.hpp>

#include <gradient/propagation_names.hpp>
#include "settling.hpp"

namespace bilevel {
namespace nudged_bounds_test {

using namespace nudged_tests;

struct Ratios {
  std::vector<double> all;
  long below = 0;
  void add(double bound, double error) {
    all.push_back(bound / std::max(error, 1e-300));
    below += all.back() < 1;
  }
  void print(const char* what) {
    std::sort(all.begin(), all.end());
    if (all.empty()) return;
    const auto at = [&](double share) {
      return all[static_cast<std::size_t>(share * double(all.size() - 1))];
    };
    std::printf("%-22s %5zu draws, %ld below 1; least %.3g, 1%% %.3g, 10%% %.3g, median %.3g, 90%% %.3g\n",
                what, all.size(), below, all.front(), at(0.01), at(0.1), at(0.5), at(0.9));
  }
};

TEST(EquilibriumPropagationBounds, HoldOverRandomProblemsStrengthsAndAccuracies) {
  constexpr int draws = 2400;
  const char* families[] = {"quadratic", "log-cosh", "ridge", "logistic"};
  const auto names = equilibrium_propagation_names();
  Ratios rigorous, estimated, hidden;
  std::map<std::string, Ratios> by_family;
  long none = 0, trusted = 0;
  for (std::uint64_t seed = 1; seed <= draws; ++seed) {
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::normal_distribution<double> normal;
    const std::string family = families[engine() % 4], method = names[engine() % names.size()];
    const double condition = std::pow(10.0, 3 * uniform(engine));
    const Index size = 1 + static_cast<Index>(engine() % 8);
    const auto problem = [&]() -> std::unique_ptr<problems::ReferenceProblem> {
      if (family == "quadratic" || family == "log-cosh")
        return problems::make(family, {.phi = size,
                                       .theta = 1 + static_cast<Index>(engine() % 5),
                                       .condition = condition,
                                       .seed = seed});
      problems::LinearModelOptions options{
          .rows = 60, .validation_rows = 30, .features = 1 + size, .strong = 1, .group = 2, .seed = seed};
      options.penalty = engine() % 2 ? problems::Penalty::global : problems::Penalty::per_feature;
      if (family == "ridge") return std::make_unique<problems::Ridge>(problems::Ridge::random(options));
      return std::make_unique<problems::Logistic>(problems::Logistic::random(options));
    }();
    Vec theta = problem->initial_theta();
    for (double& each : theta) each += 0.5 * normal(engine);
    const Estimate<Vec> truth = reference(*problem, theta);

    const double beta = uniform(engine) < 0.2 ? 0 : std::pow(10.0, -9 + 9 * uniform(engine));
    const double error_size = std::pow(10.0, -13 + 10 * uniform(engine));
    const bool iterates = uniform(engine) < 0.4;
    const char* solvers[] = {"gradient-descent", "lbfgs", "nesterov"};
    const auto exact = solver("newton", *problem, 1e-13);
    const auto iterative = solver(solvers[engine() % 3], *problem, error_size);
    // Settles, and then misses by a random vector of a given size.
    Settling missing([&](const Vec& t, double b, const Vec& start) {
      Vec phi = exact->solve(t, b, start).phi;
      for (double& each : phi) each += error_size * normal(engine);
      return phi;
    });
    InnerSolver<Vec>& inner = iterates ? *iterative : static_cast<InnerSolver<Vec>&>(missing);
    const bool hide = uniform(engine) < 0.4;
    FirstOrder first_order(*problem);
    Problem<Vec>& shown = hide ? static_cast<Problem<Vec>&>(first_order) : *problem;
    auto estimator = propagation(method, shown, inner, beta);
    const Estimate<Vec> e = estimator.estimate(theta, {});
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ", " << family << ", " << method << ", beta " << beta << " used "
                 << estimator.used_beta() << ", phases " << error_size << ", " << inner.name()
                 << (hide ? ", hidden" : "") << ": " << e.certificate.reason << e.message);
    if (!all_finite(e.gradient)) {
      EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
      ++none;
      continue;
    }
    const double error = (e.gradient - truth.gradient).norm(), slack = truth.certificate.bound;
    if (!std::isnan(e.certificate.theorem_bound)) {
      EXPECT_FALSE(hide);
      EXPECT_LE(error, e.certificate.theorem_bound + slack);
      rigorous.add(e.certificate.theorem_bound + slack, error);
    }
    trusted += e.certificate.verdict == Verdict::trusted;
    if (e.certificate.kind == Kind::estimated) {
      (hide ? hidden : estimated).add(e.certificate.bound + slack, error);
      by_family[family].add(e.certificate.bound + slack, error);
    }
    none += e.certificate.kind == Kind::none;
  }
  rigorous.print("rigorous");
  estimated.print("estimated");
  hidden.print("estimated, hidden");
  for (auto& [family, ratios] : by_family) ratios.print(family.c_str());
  std::printf("no bound: %ld, trusted: %ld of %d\n", none, trusted, draws);
  EXPECT_EQ(rigorous.below, 0);
  EXPECT_GE(rigorous.all.size(), 800U);
  EXPECT_GE(estimated.all.size() + hidden.all.size(), 1000U);
  EXPECT_LE(double(estimated.below), 0.01 * double(estimated.all.size()));
  EXPECT_LE(double(hidden.below), 0.01 * double(hidden.all.size()));
}

// In one dimension each term of the rigorous bound is reached by some problem: a term that is missing or too
// small shows.
TEST(EquilibriumPropagationBounds, AreReachedInOneDimension) {
  double quadratic = 0, ridge = 0, fork = 0, log_cosh = 0, missed = 0, negative = 0, rounding = 0;
  const auto one = [](double x) { return Eigen::MatrixXd::Constant(1, 1, x); };
  const auto vec = [](double x) { return Vec::Constant(1, x); };
  for (std::uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::normal_distribution<double> normal;
    const auto closest = [&](Problem<Vec>& problem, const Vec& theta, double beta, double miss, double truth,
                             double& record) {
      const auto newton = solver("newton", problem, 0);
      Settling settling([&](const Vec& t, double b, const Vec& start) {
        Vec phi = newton->solve(t, b, start).phi;
        phi[0] += b == 0 ? miss : -miss;
        return phi;
      });
      const auto e = propagation("ep-forward-2", problem, settling, beta).estimate(theta, {});
      ASSERT_FALSE(std::isnan(e.certificate.theorem_bound)) << e.message;
      const double error = std::abs(e.gradient[0] - truth);
      ASSERT_LE(error, e.certificate.theorem_bound + 1e-15 * std::abs(truth));
      record = std::max(record, error / e.certificate.theorem_bound);
    };
    const double beta = std::pow(10.0, -4 + 3 * uniform(engine)), h = 0.5 + uniform(engine);
    problems::Quadratic q(one(h), one(normal(engine)), vec(normal(engine)), one(h * uniform(engine)),
                          vec(normal(engine)));
    const Vec theta = vec(normal(engine));
    closest(q, theta, beta, 0, (*q.outer_gradient(theta))[0], quadratic);
    closest(q, theta, beta, 1e-3, (*q.outer_gradient(theta))[0], missed);
    // On the negative side the nudged loss is flatter: μ − |β|·L_out.
    closest(q, theta, -0.6 * h / q.outer_hessian()(0, 0), 1, (*q.outer_gradient(theta))[0], negative);
    closest(q, theta, 1e-13, 0, (*q.outer_gradient(theta))[0], rounding);
    // Hardly any curvature of L_out: what is left is ρ_χ.
    const double x = normal(engine);
    problems::Ridge r(one(x), vec(normal(engine)), one(1e-3), vec(normal(engine) * 1e3));
    const Vec penalty = vec(2 * normal(engine));
    closest(r, penalty, beta, 0, (*r.outer_gradient(penalty))[0], ridge);
    problems::Pitchfork p({.target = 0.2 + 4 * uniform(engine)});
    const Vec at = vec(0.5 + 3 * uniform(engine));
    closest(p, at, 1e-2 * beta, 0, (*p.outer_gradient(at))[0], fork);
    // ε small: φ hardly depends on θ, so that M_out is what is left.
    problems::LogCosh l(one(h), one(normal(engine)), vec(0.1 * normal(engine)), one(normal(engine)), 1e-6);
    closest(l, theta, beta, 0, reference(l, theta).gradient[0], log_cosh);
  }
  std::printf(
      "largest true error / bound: L_out %.4f, rho_chi %.4f, rho_H %.4f, M_out %.4f, phases %.4f and %.4f, "
      "rounding "
      "%.4f\n",
      quadratic, ridge, fork, log_cosh, missed, negative, rounding);
  EXPECT_GT(quadratic, 0.99);
  EXPECT_GT(ridge, 0.9);
  EXPECT_GT(fork, 0.5);
  EXPECT_GT(log_cosh, 0.9);
  EXPECT_GT(missed, 0.9);
  EXPECT_GT(negative, 0.5);
  EXPECT_GT(rounding, 0.01);
}

}  // namespace nudged_bounds_test
}  // namespace bilevel
