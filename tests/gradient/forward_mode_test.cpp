// Forward mode: closed form, memory that is stated before it is taken, faults; and the certificates of runs,
// backwards and forwards, over random draws.

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/gradient/forward_mode.hpp>
#include <bilevel/gradient/unrolled.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/problems/registry.hpp>

#include "gradient/differentiable_steps.hpp"
#include "gradient/extended_truth.hpp"
#include "inner/test_problems.hpp"

namespace bilevel {
namespace forward_mode_test {

using Vec = Eigen::VectorXd;
using unrolled_tests::make_step;
using unrolled_tests::step_names;

TEST(ForwardMode, ASettledRunHasTheGradientOfItsSettledState) {
  for (const std::string family : {"quadratic", "ridge"})
    for (const std::string_view step : step_names) {
      SCOPED_TRACE(::testing::Message() << family << ", " << step);
      const auto problem =
          problems::make(family, {.phi = 20, .condition = family == "ridge" ? 0 : 20., .seed = 8});
      const Vec theta = problem->initial_theta() + Vec::Constant(problem->initial_theta().size(), 0.2);
      const Vec expected = *problem->outer_gradient(theta);
      ForwardMode<Vec> forward(*problem, make_step<Vec>(step),
                               {.run = {.max_steps = 100000, .tolerance = 1e-12}});
      const Estimate<Vec> e = forward.estimate(theta, {});
      EXPECT_EQ(e.status, Status::converged) << e.message;
      EXPECT_LE((e.gradient - expected).norm(), 1e-8 * expected.norm()) << e.message;
      EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
    }
}

TEST(ForwardMode, StatesItsMemoryBeforeItTakesIt) {
  const auto problem = problems::make("quadratic", {.phi = 40, .theta = 30, .seed = 6});
  for (const std::string_view step : step_names) {
    SCOPED_TRACE(step);
    const std::size_t needed = ForwardMode<Vec>::bytes_needed(
        problem->initial_phi(), problem->initial_theta(), *make_step<Vec>(step));
    EXPECT_GE(needed, make_step<Vec>(step)->footprint().memory * 40 * 30 * sizeof(double));
    ForwardMode<Vec> forward(*problem, make_step<Vec>(step), {.run = {.steps = 5}, .memory_limit = needed});
    const Estimate<Vec> e = forward.estimate(problem->initial_theta(), {});
    EXPECT_LE(e.cost.bytes, needed);
    EXPECT_GE(e.cost.bytes + 12 * 40 * sizeof(double), needed);
    EXPECT_GE(e.cost.hessian_products, 5 * 30);
    try {
      ForwardMode<Vec> refused(*problem, make_step<Vec>(step), {.memory_limit = needed - 1});
      ADD_FAILURE() << "accepted";
    } catch (const InvalidInput& error) {
      const std::string text = error.what();
      for (const std::string& number : {std::to_string(needed), std::string("30"), std::string("40")})
        EXPECT_NE(text.find(number), std::string::npos) << text;
    }
  }
}

TEST(ForwardMode, RefusesBeforeItWorks) {
  const auto problem = problems::make("quadratic", {.phi = 5, .theta = 3, .seed = 6});
  EXPECT_THROW(ForwardMode<Vec>(*problem, std::make_unique<Lbfgs<Vec>>()), InvalidInput);
  EXPECT_THROW(ForwardMode<Vec>(*problem, nullptr), InvalidInput);
  auto flat = inner_tests::rosenbrock(1, false);
  EXPECT_THROW(ForwardMode<Vec>(flat, make_step<Vec>("adam")), InvalidInput);
  try {
    ForwardMode<Vec> refused(
        *problem, make_step<Vec>("adam"),
        {.run = {.steps = -1}, .memory_limit = 0, .adjoint_tolerance = 0, .outer_tolerance = -1});
    ADD_FAILURE() << "accepted";
  } catch (const InvalidInput& error) {
    for (const std::string field : {"steps", "memory_limit", "adjoint_tolerance", "outer_tolerance"})
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
  }
}

TEST(ForwardMode, NamesTheIterationThatGaveNaN) {
  auto problem = inner_tests::double_well(3);
  ForwardMode<Vec> forward(problem, make_step<Vec>("gradient-descent", 0.05), {.run = {.steps = 8}});
  problem.failing_product = 4;
  const Estimate<Vec> e = forward.estimate(Vec::Ones(1), {});
  EXPECT_EQ(e.status, Status::not_finite);
  EXPECT_NE(e.message.find("at iteration 3"), std::string::npos) << e.message;
  EXPECT_TRUE(std::isnan(e.gradient[0]));
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
}

// Runs of few or many steps, settled or not, whole or cut short: where constants are known the bound is never
// below the true error.
TEST(RunCertificates, RigorousBoundsHoldOverRandomDraws) {
  std::vector<double> ratios[2];
  for (std::uint64_t seed = 1; seed <= 900; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    const extended::Draw draw = extended::draw(seed, engine);
    const std::string_view step = step_names[engine() % 4];
    RunOptions run{.steps = static_cast<long>(std::pow(10.0, 2.8 * uniform(engine)))};
    if (seed % 5 == 0) run = {.max_steps = 3000, .tolerance = std::pow(10.0, -14 + 14 * uniform(engine))};
    const long truncate = engine() % 3 == 0 ? 1 + static_cast<long>(engine() % 50) : 0;
    Unrolled<Vec> unrolled(*draw.problem, make_step<Vec>(step), {.run = run, .truncate = truncate});
    ForwardMode<Vec> forward(*draw.problem, make_step<Vec>(step), {.run = run});
    int which = 0;
    for (Estimator<Vec>* estimator :
         {static_cast<Estimator<Vec>*>(&unrolled), static_cast<Estimator<Vec>*>(&forward)}) {
      const Estimate<Vec> e = estimator->estimate(draw.theta, {});
      ASSERT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason << e.message;
      const double error = static_cast<double>((draw.gradient - e.gradient.cast<extended::Long>()).norm());
      ASSERT_LE(error, e.certificate.bound) << estimator->name() << ": " << e.message;
      ASSERT_LE((draw.phi - e.phi.cast<extended::Long>()).norm(), e.certificate.delta);
      if (!std::isnan(e.certificate.theorem_bound)) {
        ASSERT_LE(error, e.certificate.theorem_bound);
      }
      if (e.certificate.verdict == Verdict::trusted) {
        ASSERT_EQ(e.status, Status::converged);
      }
      ratios[which++].push_back(e.certificate.bound / std::max(error, 1e-300));
    }
  }
  for (auto& each : ratios) {
    std::sort(each.begin(), each.end());
    std::printf("bound / true error over %zu draws: median %.3g, least %.8f, worst %.3g\n", each.size(),
                each[each.size() / 2], each.front(), each.back());
  }
  // Were the distance to the adjoint's gradient left out, the least would fall below 1.
  EXPECT_LT(ratios[0].front(), 10);
}

}  // namespace forward_mode_test
}  // namespace bilevel
