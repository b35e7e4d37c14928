// Gradients from whole solves: finite differences, evolution strategies and SPSA against closed forms, and
// their certificates against the error that was made.

#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/finite_difference.hpp>
#include <bilevel/gradient/random_difference.hpp>
#include <bilevel/problems/logistic.hpp>
#include <bilevel/problems/ridge.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/recurrent_net.hpp>
#include <conformance/translated.hpp>

namespace bilevel {
namespace black_box_test {

using Vec = Eigen::VectorXd;
using conformance::BlockVector;
using conformance::Translated;

MinimiserOptions tolerance(double value) {
  MinimiserOptions options;
  options.gradient_tolerance = value;
  options.max_iterations = 200000;
  return options;
}

/// The closed form, or implicit differentiation with everything at the level of rounding.
Vec truth(problems::ReferenceProblem& problem, const Vec& theta) {
  if (const auto known = problem.outer_gradient(theta)) return *known;
  const auto inner = make_inner_solver<Vec>("newton", problem, tolerance(1e-13));
  const Estimate<Vec> e = make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(theta, {});
  EXPECT_LE(e.certificate.bound, 1e-7) << e.certificate.reason;
  return e.gradient;
}

Vec moved(const problems::ReferenceProblem& problem, std::uint64_t seed) {
  Vec noise = problem.initial_theta();
  Space<Vec>::random(seed, noise);
  return problem.initial_theta() + 0.3 * noise;
}

TEST(SettledValue, IsTheOuterLossAtTheSettledStateWithItsCost) {
  const auto problem = problems::make("quadratic", {.seed = 3});
  const auto inner = make_inner_solver<Vec>("lbfgs", *problem, tolerance(1e-12));
  SettledValue<Vec> value(*problem, *inner);
  const Vec theta = Vec::Constant(5, 0.3);
  const Settled<Vec> cold = value.at(theta);
  EXPECT_EQ(cold.status, Status::converged) << cold.message;
  EXPECT_NEAR(cold.value, problem->outer(*problem->settled(theta), theta, {}), 1e-11 * (1 + cold.value));
  EXPECT_LE(cold.residual_norm, 1e-12);
  EXPECT_EQ(cold.tolerance, 1e-12);
  EXPECT_EQ(cold.cost.outer_values, 1);
  EXPECT_EQ(cold.cost.outer_gradients, 0);
  EXPECT_GT(cold.cost.inner_gradients, 3);

  const Settled<Vec> warm = value.at(theta);
  EXPECT_EQ(warm.iterations, 0) << "the last state is where this solve starts";
  const Settled<Vec> elsewhere = value.from(problem->initial_phi(), theta);
  EXPECT_EQ(elsewhere.iterations, cold.iterations);
  EXPECT_EQ(elsewhere.value, cold.value);
  SettledValue<Vec> always_cold(*problem, *inner, false);
  always_cold.at(theta);
  EXPECT_EQ(always_cold.at(theta).iterations, cold.iterations);
  EXPECT_THROW(value.at(Vec::Zero(4)), InvalidInput);
  EXPECT_THROW(value.at(Vec::Constant(5, unknown)), InvalidInput);
}

TEST(SettledValue, NeverStartsFromTheWorseOfTwoStates) {
  // φ* = θ: after a far θ, the start 0 is nearer to a θ of 0.1 than the last state 1000.
  Functions<Vec> f;
  f.initial_phi = f.initial_theta = [] { return Vec(Vec::Zero(1)); };
  f.inner = [](const Vec& phi, const Vec& theta, Wanted<Vec> w) {
    if (w.phi) *w.phi = phi - theta;
    if (w.theta) *w.theta = theta - phi;
    return 0.5 * (phi - theta).squaredNorm();
  };
  f.outer = [](const Vec& phi, const Vec&, Wanted<Vec>) { return phi[0]; };
  struct Recording final : InnerSolver<Vec> {
    std::string_view name() const override { return "recording"; }
    Solution<Vec> solve(const Vec& theta, double, const Vec& start) override {
      begun = start[0];
      return {.phi = theta, .status = Status::converged, .message = {}, .cost = {}};
    }
    double begun = unknown;
  } solver;
  auto problem = make_problem<Vec>(f);
  SettledValue<Vec> value(problem, solver);
  value.at(Vec::Constant(1, 1000));
  value.at(Vec::Constant(1, 0.1));
  EXPECT_EQ(solver.begun, 0);
  value.at(Vec::Constant(1, 0.11));
  EXPECT_EQ(solver.begun, 0.1);
}

TEST(SettledValue, NamesWhatIsNotFinite) {
  struct Broken final : InnerSolver<Vec> {
    std::string_view name() const override { return "broken"; }
    Solution<Vec> solve(const Vec&, double, const Vec& start) override {
      return {.phi = Vec::Constant(start.size(), unknown),
              .status = Status::converged,
              .message = {},
              .cost = {}};
    }
  } broken;
  const auto problem = problems::make("quadratic");
  const Settled<Vec> s = SettledValue<Vec>(*problem, broken).at(problem->initial_theta());
  EXPECT_EQ(s.status, Status::not_finite);
  EXPECT_TRUE(std::isnan(s.value));
  EXPECT_NE(s.message.find("the state itself is not finite"), std::string::npos) << s.message;

  const Estimate<Vec> e = FiniteDifference<Vec>(*problem, broken).estimate(problem->initial_theta(), {});
  EXPECT_EQ(e.status, Status::not_finite);
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
  EXPECT_NE(e.certificate.reason.find("not finite"), std::string::npos) << e.certificate.reason;
}

TEST(FiniteDifference, AgreesWithTheClosedForm) {
  for (const std::string family : {"quadratic", "log-cosh", "ridge", "logistic", "duopoly", "pitchfork"})
    for (const int order : {2, 4})
      for (const char* solver : {"newton", "lbfgs"})
        for (std::uint64_t seed : {1, 2}) {
          problems::Settings settings;
          if (family != "duopoly" && family != "pitchfork") settings.seed = seed;
          const auto problem = problems::make(family, settings);
          const Vec theta = family == "pitchfork" ? problem->initial_theta() : moved(*problem, 70 + seed);
          SCOPED_TRACE(::testing::Message()
                       << family << " " << solver << ", order " << order << ", seed " << seed);
          const Vec expected = truth(*problem, theta);
          const auto inner = make_inner_solver<Vec>(solver, *problem, tolerance(1e-13));
          FiniteDifference<Vec> estimator(*problem, *inner, {.order = order});
          const Estimate<Vec> e = estimator.estimate(theta, {});
          // From φ = 1 the first step of L-BFGS lands on the saddle; the value does not change there.
          if (family == "pitchfork" && std::abs(e.phi[0]) < 0.1) {
            EXPECT_EQ(e.certificate.kind, Kind::none);
            EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
            EXPECT_NE(e.certificate.reason.find("not a stable"), std::string::npos) << e.certificate.reason;
            continue;
          }
          const double error = (e.gradient - expected).norm();
          EXPECT_LE(error, (family == "quadratic" ? 1e-8 : 1e-6) * expected.norm()) << e.message;
          EXPECT_LE(error, e.certificate.bound) << e.certificate.reason;
          EXPECT_EQ(e.certificate.kind, Kind::estimated);
          EXPECT_EQ(e.corrected_value, e.outer_value);
          EXPECT_EQ(e.pi, Vec::Zero(e.phi.size()));
          EXPECT_EQ(e.cost.outer_gradients, 0);
          EXPECT_EQ(e.cost.cross_products, 0);
          const Estimate<Vec> again = estimator.estimate(theta, {});
          EXPECT_EQ(again.gradient, e.gradient);
          EXPECT_EQ(again.certificate.bound, e.certificate.bound);
        }
}

TEST(FiniteDifference, ErrorFallsWithThePowerOfItsOrder) {
  const auto problem = problems::make("log-cosh", {.phi = 6, .theta = 3, .condition = 10, .seed = 4});
  const Vec theta = moved(*problem, 8), expected = truth(*problem, theta);
  const auto inner = make_inner_solver<Vec>("newton", *problem, tolerance(1e-13));
  for (const int order : {2, 4}) {
    const auto error = [&](double step) {
      FiniteDifference<Vec> estimator(*problem, *inner, {.order = order, .step = step});
      return (estimator.estimate(theta, {}).gradient - expected).norm();
    };
    EXPECT_NEAR(std::log2(error(0.04) / error(0.02)), order, 0.2);
  }
}

TEST(FiniteDifference, ServesAnEquilibriumThatMinimisesNothing) {
  std::srand(5);
  Eigen::MatrixXd w = 0.2 * Eigen::MatrixXd::Random(6, 6), u = Eigen::MatrixXd::Random(6, 2);
  conformance::RecurrentNet net(w, u, Vec::Constant(6, 0.3));
  Equilibrium<Vec>& problem = net;
  const auto inner = make_inner_solver<Vec>("anderson", problem, tolerance(1e-13));
  const Vec theta = net.initial_theta();
  const Vec expected = make_estimator<Vec>("implicit-direct", problem, *inner)->estimate(theta, {}).gradient;
  const Estimate<Vec> e = FiniteDifference<Vec>(problem, *inner).estimate(theta, {});
  EXPECT_LE((e.gradient - expected).norm(), 1e-7 * expected.norm()) << e.message;
}

TEST(FiniteDifference, MakesAsManySolvesAsItSays) {
  const auto problem = problems::make("quadratic", {.seed = 2});
  struct Counting final : InnerSolver<Vec> {
    explicit Counting(InnerSolver<Vec>& solver) : wrapped(solver) {}
    std::string_view name() const override { return wrapped.name(); }
    Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
      ++calls;
      return wrapped.solve(theta, beta, start);
    }
    void set_tolerance(double value) override { wrapped.set_tolerance(set = value); }
    InnerSolver<Vec>& wrapped;
    long calls = 0;
    double set = 0;
  };
  const auto inner = make_inner_solver<Vec>("newton", *problem, tolerance(1e-9));
  for (const auto& [order, probes, expected] :
       {std::array{2, 3, 16}, std::array{2, 99, 20}, std::array{4, 3, 20}}) {
    Counting counting(*inner);
    FiniteDifference<Vec> estimator(*problem, counting, {.order = order, .probes = probes});
    const Estimate<Vec> e = estimator.estimate(problem->initial_theta(), {});
    EXPECT_EQ(counting.calls, 3 + expected)
        << "the free solve, its loose twin, the push, and the differences";
    EXPECT_NE(e.message.find(fmt::format("{} solves for 5 parameters", expected)), std::string::npos)
        << e.message;
    EXPECT_EQ(counting.set, 1e-9) << "the tolerance is put back";
  }
}

// What the certificate promises, at inner tolerances from loose to tight.
TEST(FiniteDifference, BoundHoldsInNinetyNineOfAHundredDraws) {
  for (const int order : {2, 4}) {
    int draws = 0, held = 0;
    std::vector<double> ratios;
    for (std::uint64_t seed = 1; seed <= 400; ++seed) {
      std::mt19937_64 engine(seed);
      std::uniform_real_distribution<double> uniform(0, 1);
      const std::string family = std::array{"quadratic", "log-cosh", "ridge", "logistic"}[seed % 4];
      const bool shaped = family == "quadratic" || family == "log-cosh";
      const Index phis = 1 + static_cast<Index>(10 * uniform(engine));
      const double kappa = phis == 1 ? 1 : std::pow(10, 4 * uniform(engine));
      std::unique_ptr<problems::ReferenceProblem> problem;
      if (shaped) {
        const Index thetas = 1 + static_cast<Index>(6 * uniform(engine));
        problem = problems::make(family, {.phi = phis, .theta = thetas, .condition = kappa, .seed = seed});
      } else {
        const problems::LinearModelOptions data{
            .rows = 60,
            .validation_rows = 30,
            .features = 2 + phis,
            .strong = 1,
            .group = 2,
            .penalty = uniform(engine) < 0.5 ? problems::Penalty::global : problems::Penalty::per_feature,
            .seed = seed};
        if (family == "ridge")
          problem = std::make_unique<problems::Ridge>(problems::Ridge::random(data));
        else
          problem = std::make_unique<problems::Logistic>(problems::Logistic::random(data));
      }
      Vec theta = moved(*problem, seed);
      if (!shaped) theta.array() -= 3 * uniform(engine);
      const double inner_tolerance = std::pow(10, -4 - 9 * uniform(engine));
      const std::string solver =
          std::array{"newton", "lbfgs", "nesterov", "gradient-descent-backtracking"}[(seed / 4) % 4];
      const auto inner = make_inner_solver<Vec>(solver, *problem, tolerance(inner_tolerance));
      const Estimate<Vec> e = FiniteDifference<Vec>(*problem, *inner, {.order = order}).estimate(theta, {});
      const double error = (e.gradient - truth(*problem, theta)).norm();
      ++draws;
      held += error <= e.certificate.bound;
      ratios.push_back(e.certificate.bound / std::max(error, 1e-300));
      if (!(error <= e.certificate.bound))
        std::printf("order %d seed %d %s %s κ %g tolerance %.1e: error %.3g bound %.3g %s | %s\n", order,
                    int(seed), family.c_str(), solver.c_str(), kappa, inner_tolerance, error,
                    e.certificate.bound, e.certificate.reason.c_str(), e.message.c_str());
    }
    std::sort(ratios.begin(), ratios.end());
    std::printf("order %d: the bound held in %d of %d draws; bound/error: 1%% %.2g, median %.2g, 99%% %.2g\n",
                order, held, draws, ratios[ratios.size() / 100], ratios[ratios.size() / 2],
                ratios[ratios.size() - ratios.size() / 100]);
    EXPECT_GE(held, 0.99 * draws);
  }
}

class Random : public ::testing::TestWithParam<Directions> {};
INSTANTIATE_TEST_SUITE_P(, Random, ::testing::Values(Directions::gaussian, Directions::rademacher),
                         [](const auto& which) {
                           return which.param == Directions::gaussian ? "gaussian" : "spsa";
                         });

// On a quadratic the estimate is unbiased whatever σ is. Each component's mean over seeds must lie within 4.5
// of its standard errors of the truth (7·10⁻⁶ for one component of a normal variable), and 4.5 standard
// errors must be far less than the component: else a wrong sign would pass.
TEST_P(Random, IsUnbiasedAndItsVarianceIsTheFormula) {
  const auto problem = problems::make("quadratic", {.phi = 6, .theta = 4, .condition = 10, .seed = 8});
  const Vec theta = moved(*problem, 3), expected = *problem->outer_gradient(theta);
  const auto inner = make_inner_solver<Vec>("newton", *problem, tolerance(1e-12));
  const int seeds = 4000;
  double variance[2];
  for (const long pairs : {2, 8}) {
    Vec sum = Vec::Zero(4), squares = Vec::Zero(4);
    double total = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      RandomDifference<Vec> estimator(*problem, *inner,
                                      {.pairs = pairs,
                                       .sigma = 0.01,
                                       .seed = static_cast<std::uint64_t>(seed),
                                       .directions = GetParam()});
      const Vec g = estimator.estimate(theta, {}).gradient;
      sum += g;
      squares += g.cwiseAbs2();
      total += (g - expected).squaredNorm();
    }
    const Vec mean = sum / seeds, deviation = ((squares / seeds - mean.cwiseAbs2()) / seeds).cwiseSqrt();
    for (Index i = 0; i < 4; ++i)
      EXPECT_LE(std::abs(mean[i] - expected[i]), 4.5 * deviation[i]) << pairs << " " << i;
    EXPECT_LE(4.5 * deviation.norm(), 0.3 * expected.norm());
    const double formula =
        (4 + (GetParam() == Directions::gaussian ? 1 : -1)) * expected.squaredNorm() / double(pairs);
    EXPECT_NEAR(total / seeds, formula, 0.1 * formula);
    variance[pairs == 8] = total / seeds;
  }
  EXPECT_NEAR(variance[0] / variance[1], 4, 0.5) << "the error falls like 1/√m";
}

TEST_P(Random, IsTheFormulaWrittenOut) {
  // One Gaussian pair on one parameter: D·ε with D the derivative itself; for Rademacher ε² = 1, so it is
  // exact.
  const auto problem = problems::make("duopoly");
  const Vec theta = Vec::Constant(1, 1.5), expected = *problem->outer_gradient(theta);
  const auto inner = make_inner_solver<Vec>("newton", *problem, tolerance(1e-13));
  const Estimate<Vec> e =
      RandomDifference<Vec>(*problem, *inner, {.pairs = 64, .sigma = 0.1, .directions = GetParam()})
          .estimate(theta, {});
  if (GetParam() == Directions::rademacher) {
    EXPECT_NEAR(e.gradient[0], expected[0], 1e-10);
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
  } else {
    EXPECT_EQ(std::signbit(e.gradient[0]), std::signbit(expected[0]));
    EXPECT_LE(std::abs(e.gradient[0] - expected[0]), e.certificate.bound);
  }
}

TEST_P(Random, DependsOnSeedAndThetaAndNothingElse) {
  const auto problem = problems::make("log-cosh", {.seed = 4});
  const auto inner = make_inner_solver<Vec>("newton", *problem, tolerance(1e-11));
  const auto gradient = [&](std::uint64_t seed) {
    return RandomDifference<Vec>(*problem, *inner, {.seed = seed, .directions = GetParam()})
        .estimate(problem->initial_theta(), {})
        .gradient;
  };
  RandomDifference<Vec> used(*problem, *inner, {.seed = 9, .directions = GetParam()});
  used.estimate(moved(*problem, 5), {});
  EXPECT_EQ(used.estimate(problem->initial_theta(), {}).gradient, gradient(9));
  EXPECT_NE(gradient(9), gradient(10));
}

TEST_P(Random, BoundHoldsInNinetyNineOfAHundredDrawsAndIsRarelyTrusted) {
  int held = 0, trusted = 0;
  const int draws = 1000;
  for (int seed = 1; seed <= draws; ++seed) {
    std::mt19937_64 engine(static_cast<std::uint64_t>(seed));
    std::uniform_real_distribution<double> uniform(0, 1);
    problems::Settings settings{.seed = static_cast<std::uint64_t>(seed)};
    settings.phi = 2 + static_cast<Index>(6 * uniform(engine));
    settings.theta = 1 + static_cast<Index>(6 * uniform(engine));
    settings.condition = std::pow(10, 2 * uniform(engine));
    const auto problem = problems::make(seed % 2 ? "quadratic" : "log-cosh", settings);
    const Vec theta = moved(*problem, static_cast<std::uint64_t>(seed));
    const auto inner = make_inner_solver<Vec>(seed % 3 ? "newton" : "lbfgs", *problem,
                                              tolerance(std::pow(10, -5 - 6 * uniform(engine))));
    RandomDifferenceOptions options{.seed = static_cast<std::uint64_t>(seed), .directions = GetParam()};
    if (seed % 5 == 0) options.pairs = 8;
    if (seed % 7 == 0) options.sigma = 0.3;
    const Estimate<Vec> e = RandomDifference<Vec>(*problem, *inner, options).estimate(theta, {});
    held += (e.gradient - truth(*problem, theta)).norm() <= e.certificate.bound;
    trusted += e.certificate.verdict == Verdict::trusted && settings.theta > 1;
  }
  std::printf("the bound held in %d of %d draws; %d with several parameters were trusted\n", held, draws,
              trusted);
  EXPECT_GE(held, 0.99 * draws);
  EXPECT_LE(trusted, 0.02 * draws);
}

TEST(RandomDifference, FewPairsAreNoCertificate) {
  const auto problem = problems::make("quadratic");
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  const Estimate<Vec> e =
      RandomDifference<Vec>(*problem, *inner, {.pairs = 3}).estimate(problem->initial_theta(), {});
  EXPECT_EQ(e.certificate.kind, Kind::none);
  EXPECT_EQ(e.certificate.verdict, Verdict::untrusted);
}

TEST(BlackBox, BadOptionsAreNamed) {
  const auto problem = problems::make("quadratic");
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  const auto says = [](const auto& make, std::string_view part) {
    try {
      make();
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
      return;
    }
    ADD_FAILURE() << "accepted: " << part;
  };
  const auto fd = [&](FiniteDifferenceOptions o) {
    return [&, o] { FiniteDifference<Vec>(*problem, *inner, o); };
  };
  const auto es = [&](RandomDifferenceOptions o) {
    return [&, o] { RandomDifference<Vec>(*problem, *inner, o); };
  };
  says(fd({.step = unknown}), "finite_difference.step");
  says(fd({.step = -1}), "finite_difference.step");
  says(fd({.order = 3}), "finite_difference.order");
  says(fd({.probes = 0}), "finite_difference.probes");
  says(es({.pairs = -1}), "random_difference.pairs");
  says(es({.sigma = -0.1}), "random_difference.sigma");
  says(es({.sigma = unknown}), "random_difference.sigma");
  says([&] { FiniteDifference<Vec>(*problem, *inner).estimate(Vec::Zero(2), {}); }, "theta has 2 elements");
  says([&] { FiniteDifference<Vec>(*problem, *inner).estimate(Vec::Constant(5, unknown), {}); }, "NaN");
}

template <class V>
class BlackBoxVectors : public ::testing::Test {};
using VectorTypes = ::testing::Types<BlockVector, Eigen::VectorXf>;
TYPED_TEST_SUITE(BlackBoxVectors, VectorTypes);

TYPED_TEST(BlackBoxVectors, OtherVectorsGiveTheSameGradient) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  for (const std::string family : {"quadratic", "log-cosh"}) {
    SCOPED_TRACE(family);
    const auto original = problems::make(family, {.phi = 8, .theta = 5, .condition = 10, .seed = 5});
    Translated<V> problem(*original);
    const V theta = Translated<V>::translate(moved(*original, 2), problem.initial_theta());
    const Vec expected = truth(*original, Translated<V>::host(theta));
    const auto inner = make_inner_solver<V>("newton", problem, tolerance(single ? 2e-5 : 1e-12));
    for (const int order : {2, 4}) {
      const Estimate<V> e = FiniteDifference<V>(problem, *inner, {.order = order}).estimate(theta, {});
      const double error = (Translated<V>::host(e.gradient) - expected).norm();
      EXPECT_LE(error, (single ? 1e-2 : 1e-6) * expected.norm()) << e.message;
      EXPECT_LE(error, e.certificate.bound) << e.certificate.reason;
    }
    for (const Directions directions : {Directions::gaussian, Directions::rademacher}) {
      const Estimate<V> e =
          RandomDifference<V>(problem, *inner, {.pairs = 2000, .directions = directions}).estimate(theta, {});
      EXPECT_LE((Translated<V>::host(e.gradient) - expected).norm(), 0.2 * expected.norm()) << e.message;
    }
  }
}

TEST(BlackBox, LearnsInsideTheOuterLoop) {
  for (const char* family : {"quadratic", "duopoly"}) {
    const auto problem = problems::make(family);
    const auto inner = make_inner_solver<Vec>("newton", *problem);
    FiniteDifference<Vec> estimator(*problem, *inner, {.order = 4});
    const auto optimizer = make_optimizer("lbfgs");
    SolveOptions options;
    options.gradient_tolerance = 1e-6;
    const Summary s = solve<Vec>(estimator, *optimizer, problem->initial_theta(), options);
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.theta - *problem->best_theta()).norm(), 1e-4);
  }
  const auto problem = problems::make("quadratic", {.phi = 6, .theta = 3, .condition = 4, .seed = 2});
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  for (const Directions directions : {Directions::gaussian, Directions::rademacher}) {
    RandomDifference<Vec> estimator(*problem, *inner, {.directions = directions});
    const auto optimizer = make_optimizer("adam", 0.05);
    SolveOptions options;
    options.max_iterations = 400;
    options.gradient_tolerance = 1e-12;
    options.tolerances = ToleranceSchedule::fixed(1e-8, 1e-8);
    const Summary s = solve<Vec>(estimator, *optimizer, problem->initial_theta(), options);
    const auto gap = [&](const Vec& theta) {
      const Vec best = *problem->best_theta();
      return problem->outer(*problem->settled(theta), theta, {}) -
             problem->outer(*problem->settled(best), best, {});
    };
    EXPECT_LE(gap(s.theta), 0.01 * gap(problem->initial_theta())) << s.message;
  }
}

}  // namespace black_box_test
}  // namespace bilevel
