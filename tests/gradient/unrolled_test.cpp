// Backpropagation through the inner steps: against differences of the whole run, against the closed form,
// against the Neumann series, and against itself with fewer states held.

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/adjoint/neumann.hpp>
#include <bilevel/gradient/forward_mode.hpp>
#include <bilevel/gradient/unrolled.hpp>
#include <bilevel/inner/impl/revolve.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/minimiser.hpp>
#include <bilevel/problems/registry.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/translated.hpp>

#include "gradient/differentiable_steps.hpp"
#include "inner/test_problems.hpp"

namespace bilevel {
namespace unrolled_test {

using Vec = Eigen::VectorXd;
using conformance::BlockVector;
using conformance::Translated;
using problems::ReferenceProblem;
using unrolled_tests::make_step;
using unrolled_tests::step_names;

struct Case {
  std::string family;
  problems::Settings settings;
  double step;  ///< of gradient descent and momentum; stable on this family
};

const std::vector<Case> cases = {
    {"quadratic", {.phi = 8, .theta = 3, .condition = 30, .seed = 3}, 0.1},
    {"log-cosh", {.phi = 7, .theta = 4, .condition = 20, .seed = 4}, 0.15},
    {"logistic", {.phi = 20, .samples = 60, .penalty = "per-feature", .seed = 5}, 0.3},
    {"ridge", {.phi = 20, .samples = 60, .penalty = "per-feature", .seed = 6}, 0.2},
};

Vec shifted_theta(const ReferenceProblem& problem, std::uint64_t seed) {
  Vec theta = problem.initial_theta(), noise = theta;
  Space<Vec>::random(seed, noise);
  return theta + 0.3 * noise;
}

/// Sixth-order central differences of L_out after T steps of a minimiser that knows nothing of derivatives.
Vec differences(ReferenceProblem& problem, std::string_view step, double length, long steps, const Vec& theta,
                const Vec& start) {
  const auto value = [&](const Vec& at) {
    Minimiser<Vec> run(problem, make_step<Vec>(step, length),
                       {.gradient_tolerance = 0, .max_iterations = steps});
    const Solution<Vec> end = run.solve(at, 0, start);
    EXPECT_EQ(end.iterations, steps) << end.message;
    return problem.outer(end.phi, at, {});
  };
  // The first steps of Adam are nearly the gradient's sign: where an element of it is small, the run bends
  // sharply, and a longer difference would reach across.
  const double h = step == "adam" ? 2e-4 : 2e-3;
  Vec gradient(theta.size());
  for (Index i = 0; i < theta.size(); ++i) {
    const auto difference = [&](double distance) {
      Vec up = theta, down = theta;
      up[i] += distance * h;
      down[i] -= distance * h;
      return value(up) - value(down);
    };
    gradient[i] = (45 * difference(1) - 9 * difference(2) + difference(3)) / (60 * h);
  }
  return gradient;
}

TEST(Unrolled, IsTheDerivativeOfTheWholeRunForAnyNumberOfSteps) {
  double worst = 0;
  for (const Case& c : cases)
    for (const std::string_view step : step_names)
      for (const long steps : {1, 2, 7, 40}) {
        SCOPED_TRACE(::testing::Message() << c.family << ", " << step << ", " << steps << " steps");
        const auto problem = problems::make(c.family, c.settings);
        const Vec theta = shifted_theta(*problem, c.settings.seed);
        Vec start = problem->initial_phi();
        Space<Vec>::random(7, start);
        const double length = step == "adam" ? 0.05 : c.step;
        const Vec expected = differences(*problem, step, length, steps, theta, start);
        // The same problem from another start: as a warm one it would be taken only if it were better.
        struct From final : Problem<Vec> {
          From(ReferenceProblem& wrapped, Vec at) : problem(wrapped), start(std::move(at)) {}
          Vec initial_phi() const override { return start; }
          Vec initial_theta() const override { return problem.initial_theta(); }
          double inner(const Vec& p, const Vec& t, Wanted<Vec> w) override { return problem.inner(p, t, w); }
          double outer(const Vec& p, const Vec& t, Wanted<Vec> w) override { return problem.outer(p, t, w); }
          void linearise(const Vec& p, const Vec& t, double b, std::unique_ptr<Curvature<Vec>>& r) override {
            problem.linearise(p, t, b, r);
          }
          ReferenceProblem& problem;
          Vec start;
        } from(*problem, start);
        Unrolled<Vec> unrolled(from, make_step<Vec>(step, length), {.run = {.steps = steps}});
        const Estimate<Vec> e = unrolled.estimate(theta, {});
        EXPECT_EQ(e.inner_iterations, steps);
        // The first step of Adam is α in every element, whatever θ: its derivative is zero.
        const double scale = std::max(expected.norm(), 1e-2);
        const double error = (e.gradient - expected).norm() / scale;
        worst = std::max(worst, error);
        EXPECT_LE(error, 1e-8) << e.message;
        ForwardMode<Vec> forward(from, make_step<Vec>(step, length), {.run = {.steps = steps}});
        const Estimate<Vec> f = forward.estimate(theta, {});
        EXPECT_LE((f.gradient - e.gradient).norm(), 1e-10 * scale) << f.message;
        EXPECT_EQ(f.phi, e.phi);
      }
  std::printf("largest relative distance from differences of the run: %.2g\n", worst);
}

TEST(Unrolled, ASettledRunHasTheGradientOfItsSettledState) {
  for (const std::string family : {"quadratic", "ridge"})
    for (const std::string_view step : step_names) {
      SCOPED_TRACE(::testing::Message() << family << ", " << step);
      const auto problem =
          problems::make(family, {.phi = 20, .condition = family == "ridge" ? 0 : 20., .seed = 8});
      const Vec theta = shifted_theta(*problem, 9);
      const Vec expected = *problem->outer_gradient(theta);
      const RunOptions run{.max_steps = 100000, .tolerance = 1e-12};
      Unrolled<Vec> unrolled(*problem, make_step<Vec>(step), {.run = run});
      const Estimate<Vec> e = unrolled.estimate(theta, {});
      EXPECT_EQ(e.status, Status::converged) << e.message;
      EXPECT_LE((e.gradient - expected).norm(), 1e-8 * expected.norm()) << e.message;
      EXPECT_EQ(e.certificate.kind, Kind::rigorous) << e.certificate.reason;
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
      EXPECT_LE((e.gradient - expected).norm(), e.certificate.bound + 1e-13);
      EXPECT_EQ(e.adjoint_iterations, e.inner_iterations);
      EXPECT_NEAR(e.outer_value, problem->outer(e.phi, theta, {}), 1e-14 * (1 + std::abs(e.outer_value)));
    }
}

TEST(Unrolled, TruncatedAtAFixedPointIsTheNeumannSeries) {
  const auto problem = problems::make("log-cosh", {.phi = 9, .theta = 4, .condition = 15, .seed = 2});
  const Vec theta = shifted_theta(*problem, 3);
  Minimiser<Vec> tight(*problem, make_step<Vec>("gradient-descent"),
                       {.gradient_tolerance = 1e-15, .max_iterations = 20000});
  const Vec fixed = tight.solve(theta, 0, problem->initial_phi()).phi;
  Vec g(9);
  problem->outer(fixed, theta, {.phi = &g});
  const double alpha = 0.05;
  for (const long terms : {1, 2, 5, 30, 200}) {
    SCOPED_TRACE(terms);
    NeumannOptions options;
    options.step = alpha;
    options.terms = terms;
    Neumann<Vec> neumann(options);
    Sensitivity<Vec> sensitivity(*problem);
    sensitivity.move_to(fixed, theta);
    Vec series(4), outer_theta(4);
    const Vec pi = sensitivity.pullback(g, neumann, series).x;
    problem->outer(fixed, theta, {.theta = &outer_theta});
    series += outer_theta;
    for (const std::size_t budget : {0, 4000}) {
      Unrolled<Vec> unrolled(*problem, make_step<Vec>("gradient-descent", alpha),
                             {.run = {.steps = terms + 3}, .truncate = terms, .memory_budget = budget});
      EXPECT_EQ(unrolled.name(), "unrolled-truncated");
      const Estimate<Vec> e = unrolled.estimate(theta, {.phi = fixed, .pi = {}});
      EXPECT_LE((e.phi - fixed).norm(), 1e-13);
      EXPECT_LE((e.pi - pi).norm(), 1e-12 * pi.norm());
      EXPECT_LE((e.gradient - series).norm(), 1e-12 * series.norm());
      EXPECT_EQ(e.adjoint_status, Status::approximate);
      EXPECT_EQ(e.adjoint_iterations, terms);
      EXPECT_NE(e.certificate.verdict, Verdict::trusted);
    }
  }
}

template <Vector V>
std::size_t budget_for(Problem<V>& problem, std::string_view step, long snapshots) {
  return Unrolled<V>::bytes_for(problem.initial_phi(), problem.initial_theta(), *make_step<V>(step),
                                static_cast<std::size_t>(snapshots));
}

TEST(Unrolled, CheckpointedIsTheSameToTheLastBit) {
  const auto problem = problems::make("log-cosh", {.phi = 5, .theta = 3, .condition = 20, .seed = 6});
  const Vec theta = shifted_theta(*problem, 12);
  for (const std::string_view step : step_names)
    for (const long steps : {1, 2, 3, 4, 5, 8, 13, 36, 100})
      for (const long snapshots : {1, 2, 3, 5, 10, 99, 100, 500})
        for (const long truncate : {0, 1, 3, 20, 1000}) {
          SCOPED_TRACE(::testing::Message() << step << ", " << steps << " steps, " << snapshots
                                            << " snapshots, the last " << truncate);
          Unrolled<Vec> full(*problem, make_step<Vec>(step), {.run = {.steps = steps}, .truncate = truncate});
          UnrolledOptions options{.run = {.steps = steps}, .truncate = truncate};
          options.memory_budget = budget_for<Vec>(*problem, step, snapshots);
          Unrolled<Vec> checkpointed(*problem, make_step<Vec>(step), options);
          ASSERT_EQ(checkpointed.snapshots(), snapshots);
          const Estimate<Vec> a = full.estimate(theta, {}), b = checkpointed.estimate(theta, {});
          ASSERT_EQ(a.gradient, b.gradient);
          ASSERT_EQ(a.pi, b.pi);
          ASSERT_EQ(a.phi, b.phi);
          ASSERT_EQ(a.certificate.bound, b.certificate.bound);
          const long back = truncate > 0 ? std::min(truncate, steps) : steps;
          EXPECT_EQ(checkpointed.forward_steps(),
                    steps - back + Revolve(back, snapshots).forward_steps() + 1);
          EXPECT_EQ(full.forward_steps(), steps);
          EXPECT_LE(b.cost.bytes, options.memory_budget);
          EXPECT_EQ(b.cost.cross_products, a.cost.cross_products);
          // One gradient a forward step, and at the end, twice: by the run and by whoever measures it.
          // Adam's derivative takes one more a step unless it has been evaluated for the next sweep.
          if (step != "adam") {
            EXPECT_EQ(b.cost.inner_gradients, checkpointed.forward_steps() + 2);
          }
          // And again, from what the first estimate left.
          const Estimate<Vec> again = checkpointed.estimate(theta, {});
          ASSERT_EQ(a.gradient, again.gradient);
          EXPECT_EQ(b.cost.bytes, again.cost.bytes);
        }
}

TEST(Unrolled, CheckpointsARunWhoseLengthIsNotKnownInAdvance) {
  const auto problem = problems::make("quadratic", {.phi = 5, .theta = 3, .condition = 5, .seed = 6});
  const Vec theta = shifted_theta(*problem, 12);
  for (const std::string_view step : step_names)
    for (const long snapshots : {1, 2, 7, 1000})
      for (const long truncate : {0, 1, 9}) {
        SCOPED_TRACE(::testing::Message()
                     << step << ", " << snapshots << " snapshots, the last " << truncate);
        UnrolledOptions options{.run = {.max_steps = 400, .tolerance = 1e-3}, .truncate = truncate};
        Unrolled<Vec> full(*problem, make_step<Vec>(step), options);
        options.memory_budget = budget_for<Vec>(*problem, step, snapshots);
        Unrolled<Vec> checkpointed(*problem, make_step<Vec>(step), options);
        const Estimate<Vec> a = full.estimate(theta, {}), b = checkpointed.estimate(theta, {});
        EXPECT_EQ(a.inner_status, Status::converged) << a.message;
        EXPECT_GT(a.inner_iterations, 5);
        ASSERT_EQ(a.gradient, b.gradient);
        ASSERT_EQ(a.pi, b.pi);
        const long steps = a.inner_iterations, back = truncate > 0 ? std::min(truncate, steps) : steps;
        EXPECT_EQ(checkpointed.forward_steps(),
                  steps + (steps - back) + Revolve(back, snapshots).forward_steps());
        EXPECT_LE(b.cost.bytes, options.memory_budget);
      }
}

TEST(Unrolled, HoldsWhatItSays) {
  const auto problem = problems::make("quadratic", {.phi = 50, .theta = 3, .seed = 6});
  const Vec theta = problem->initial_theta();
  const auto bytes = [&](std::string_view step, long steps, long truncate) {
    Unrolled<Vec> unrolled(*problem, make_step<Vec>(step), {.run = {.steps = steps}, .truncate = truncate});
    return unrolled.estimate(theta, {}).cost.bytes;
  };
  for (const std::string_view step : step_names) {
    SCOPED_TRACE(step);
    // A linear step needs φ_k alone, Adam its three moments too.
    const std::size_t state = (step == "adam" ? 4 : 1) * 50 * sizeof(double);
    EXPECT_EQ(bytes(step, 300, 0) - bytes(step, 100, 0), 200 * state);
    EXPECT_EQ(bytes(step, 300, 10), bytes(step, 10, 0));
    EXPECT_EQ(bytes(step, 30, 0), bytes(step, 300, 30));
  }
  // Gradient descent in numbers: φ and gradient; λ, c, Hc; φ_0 and five of the estimate; the states.
  // Of θ: χᵀc, the gradient, ∂θ L_out, the gradient beside it.
  EXPECT_EQ(bytes("gradient-descent", 100, 0), sizeof(double) * ((2 + 3 + 6 + 100) * 50 + 4 * 3));
}

TEST(Unrolled, RefusesBeforeItWorks) {
  const auto problem = problems::make("quadratic", {.phi = 50, .theta = 3, .seed = 6});
  const auto refusal = [&](UnrolledOptions options, std::unique_ptr<Step<Vec>> step) -> std::string {
    try {
      Unrolled<Vec> unrolled(*problem, std::move(step), options);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "accepted";
  };
  const auto gradient_descent = [] { return make_step<Vec>("gradient-descent"); };
  EXPECT_NE(refusal({}, std::make_unique<Lbfgs<Vec>>()).find("lbfgs"), std::string::npos);
  EXPECT_NE(refusal({}, nullptr).find("null"), std::string::npos);
  const std::string everything = refusal({.run = {.steps = -1, .max_steps = 0, .tolerance = -1},
                                          .truncate = -1,
                                          .certificate = {.secant_safety = 0},
                                          .outer_tolerance = -1},
                                         gradient_descent());
  for (const std::string field :
       {"steps", "max_steps", "tolerance", "truncate", "outer_tolerance", "secant_safety"})
    EXPECT_NE(everything.find(field), std::string::npos) << everything;
  const std::size_t least = budget_for<Vec>(*problem, "gradient-descent", 1);
  EXPECT_NE(refusal({.memory_budget = least - 1}, gradient_descent()).find(std::to_string(least)),
            std::string::npos);
  EXPECT_EQ(refusal({.memory_budget = least}, gradient_descent()), "accepted");

  auto flat = inner_tests::rosenbrock(1, false);
  EXPECT_THROW(Unrolled<Vec>(flat, gradient_descent()), InvalidInput);
  Unrolled<Vec> unrolled(*problem, gradient_descent());
  EXPECT_THROW(unrolled.estimate(Vec::Zero(4), {}), InvalidInput);
  EXPECT_THROW(unrolled.estimate(Vec::Constant(3, NAN), {}), InvalidInput);
}

TEST(Unrolled, NamesTheOracleAndTheIterationThatGaveNaN) {
  for (const long snapshots : {0, 1, 2}) {
    SCOPED_TRACE(snapshots);
    const auto estimate = [&](auto&& plant) {
      auto problem = inner_tests::double_well(3);
      UnrolledOptions options{.run = {.steps = 8}};
      if (snapshots > 0) options.memory_budget = budget_for<Vec>(problem, "gradient-descent", snapshots);
      Unrolled<Vec> unrolled(problem, make_step<Vec>("gradient-descent", 0.05), options);
      plant(problem);
      return unrolled.estimate(Vec::Ones(1), {});
    };
    const auto holds = [](const Estimate<Vec>& e, const std::string& words) {
      EXPECT_EQ(e.status, Status::not_finite);
      EXPECT_NE(e.message.find(words), std::string::npos) << e.message;
      EXPECT_TRUE(std::isnan(e.gradient[0]));
      EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
      EXPECT_NE(e.certificate.reason.find(words), std::string::npos) << e.certificate.reason;
    };
    holds(estimate([](auto& p) { p.failing_gradient = 4; }), "the inner gradient is nan at iteration 3");
    holds(estimate([](auto& p) { p.failing_value = 6; }), "the inner value is nan at iteration 5");
    holds(estimate([](auto& p) { p.failing_product = 2; }), "the Hessian product is nan at iteration 6");
    holds(estimate([](auto& p) { p.failing_outer = 1; }), "outer loss");
    // An oracle that fails while states are computed again.
    if (snapshots == 1) holds(estimate([](auto& p) { p.failing_gradient = 13; }), "nan at iteration");
  }
}

TEST(Unrolled, DoesNotStartASettlingRunFromItsOwnSolution) {
  const auto problem = problems::make("quadratic", {.phi = 6, .theta = 3, .condition = 10, .seed = 6});
  const Vec theta = shifted_theta(*problem, 1);
  Unrolled<Vec> unrolled(*problem, make_step<Vec>("nesterov"));
  ForwardMode<Vec> forward(*problem, make_step<Vec>("nesterov"));
  for (Estimator<Vec>* estimator :
       {static_cast<Estimator<Vec>*>(&unrolled), static_cast<Estimator<Vec>*>(&forward)}) {
    const Estimate<Vec> cold = estimator->estimate(theta, {});
    EXPECT_GT(cold.inner_iterations, 10);
    const Estimate<Vec> warm = estimator->estimate(theta, {.phi = cold.phi, .pi = {}});
    EXPECT_EQ(warm.gradient, cold.gradient);
    EXPECT_EQ(warm.inner_iterations, cold.inner_iterations);
  }
  // A run of given length takes the warm start; after no steps at all nothing depends on θ, and it is seen.
  Unrolled<Vec> short_run(*problem, make_step<Vec>("nesterov"), {.run = {.steps = 1}});
  const Estimate<Vec> cold = unrolled.estimate(theta, {});
  const Estimate<Vec> one = short_run.estimate(theta, {.phi = cold.phi, .pi = {}});
  EXPECT_LE((one.phi - cold.phi).norm(), 1e-9);
  EXPECT_NE(one.certificate.verdict, Verdict::trusted);
  EXPECT_LE((*problem->outer_gradient(theta) - one.gradient).norm(), one.certificate.bound);
}

TEST(Unrolled, LetsGoOfCotangentsThatVanish) {
  const auto problem = problems::make("quadratic", {.phi = 4, .theta = 2, .condition = 3, .seed = 6});
  const Vec theta = shifted_theta(*problem, 1), expected = *problem->outer_gradient(theta);
  Unrolled<Vec> unrolled(*problem, make_step<Vec>("gradient-descent"), {.run = {.steps = 20000}});
  const Estimate<Vec> e = unrolled.estimate(theta, {});
  EXPECT_LE((e.gradient - expected).norm(), 1e-12 * expected.norm());
  EXPECT_LT(e.cost.hessian_products, 5000);
  EXPECT_LT(e.adjoint_iterations, 5000);
  EXPECT_EQ(e.adjoint_status, Status::converged);
  EXPECT_NE(e.message.find("vanished"), std::string::npos) << e.message;
}

template <class V>
class UnrolledOn : public ::testing::Test {};
using OtherTypes = ::testing::Types<BlockVector, Eigen::VectorXf>;
TYPED_TEST_SUITE(UnrolledOn, OtherTypes);

TYPED_TEST(UnrolledOn, OtherVectorsGivesTheSame) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  const auto original = problems::make("log-cosh", {.phi = 8, .theta = 3, .condition = 10, .seed = 5});
  Translated<V> problem(*original);
  const Vec theta = shifted_theta(*original, 2);
  const V translated = Translated<V>::translate(theta, problem.initial_theta());
  for (const std::string_view step : step_names) {
    SCOPED_TRACE(step);
    const double length = step == "adam" ? 0.03 : 0.2;
    const RunOptions run{.steps = 30};
    const Vec expected =
        Unrolled<Vec>(*original, make_step<Vec>(step, length), {.run = run}).estimate(theta, {}).gradient;
    Unrolled<V> unrolled(problem, make_step<V>(step, length), {.run = run});
    Unrolled<V> checkpointed(problem, make_step<V>(step, length),
                             {.run = run, .memory_budget = budget_for<V>(problem, step, 3)});
    ForwardMode<V> forward(problem, make_step<V>(step, length), {.run = run, .adjoint_tolerance = 1e-5});
    const Estimate<V> e = unrolled.estimate(translated, {}), c = checkpointed.estimate(translated, {}),
                      f = forward.estimate(translated, {});
    const auto host = &Translated<V>::host;
    EXPECT_LE((host(e.gradient) - expected).norm(), (single ? 1e-4 : 1e-13) * expected.norm()) << e.message;
    EXPECT_EQ(host(c.gradient), host(e.gradient));
    EXPECT_LE((host(f.gradient) - expected).norm(), (single ? 1e-4 : 1e-12) * expected.norm()) << f.message;
    EXPECT_EQ(e.certificate.kind, Kind::estimated);
  }
}

}  // namespace unrolled_test
}  // namespace bilevel
