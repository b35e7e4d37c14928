#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/outer/search.hpp>
#include <bilevel/problems/ridge.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/translated.hpp>

namespace bilevel {
namespace search_test {

using Vec = Eigen::VectorXd;

Box cube(Index size, double low, double high) {
  return {Vec::Constant(size, low), Vec::Constant(size, high)};
}

/// A search of a ready-made problem, made anew as a new process would.
Summary run(const std::string& name, Problem<Vec>& problem, const Vec& start, const SearchOptions& options) {
  MinimiserOptions tight;
  tight.gradient_tolerance = 1e-12;
  const auto inner = make_inner_solver<Vec>("newton", problem, tight);
  SettledValue<Vec> value(problem, *inner);
  return search<Vec>(name, value, start, options);
}

/// A search of a plain function; each value costs one gradient equivalent.
Summary run(const std::string& name, const std::function<double(const Vec&)>& f, const Vec& start,
            const SearchOptions& options) {
  return detail::search(
      name,
      [&](const Vec& theta) {
        detail::Evaluation e;
        e.value = f(theta);
        e.phi = [theta] { return theta; };
        e.status = Status::converged;
        e.cost.inner_gradients = 1;
        return e;
      },
      start, options);
}

/// By bisection of the closed form.
double best_penalty(const problems::Ridge& ridge, double low, double high) {
  auto& problem = const_cast<problems::Ridge&>(ridge);
  const auto slope = [&](double theta) { return (*problem.outer_gradient(Vec::Constant(1, theta)))[0]; };
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (slope(middle) > 0 ? high : low) = middle;
  }
  return low;
}

// Accuracy by method: what its budget can give, in units of the box.
TEST(Search, FindsTheKnownOptimum) {
  const std::map<std::string, double> accuracy{
      {"random-search", 2e-2}, {"grid-search", 2e-2}, {"nlopt-bobyqa", 1e-6}, {"nlopt-direct", 2e-3}};
  for (const std::string& name : search_names()) {
    SCOPED_TRACE(name);
    const double allowed = accuracy.at(name);
    SearchOptions options;
    options.max_evaluations = 401;

    const auto duopoly = problems::make("duopoly");
    options.box = cube(1, 0, 10);
    const Summary leader = run(name, *duopoly, duopoly->initial_theta(), options);
    EXPECT_LE(std::abs(leader.theta[0] - (*duopoly->best_theta())[0]), 10 * allowed) << leader.message;

    for (const Index size : {1, 2}) {
      const auto quadratic =
          problems::make("quadratic", {.phi = 6, .theta = size, .condition = 10, .seed = 4});
      const Vec best = *quadratic->best_theta();
      options.box = {best.array() - 1.3, best.array() + 1.7};
      options.max_evaluations = size == 1 ? 201 : 4001;
      const Summary s = run(name, *quadratic, best.array() + 1, options);
      EXPECT_LE((s.theta - best).cwiseAbs().maxCoeff(), 3 * allowed) << s.message;
      EXPECT_EQ(s.history.size(), static_cast<std::size_t>(s.evaluations));
      EXPECT_EQ(s.phi.size(), 6);
      EXPECT_GT(s.cost.inner_gradients, s.evaluations);
      EXPECT_EQ(s.certificate.kind, Kind::none);
      EXPECT_EQ(s.certificate.verdict, Verdict::untrusted);
      EXPECT_EQ(s.certificate.reason, "a search of values has no gradient");
      EXPECT_EQ(s.optimizer, name);
      EXPECT_EQ(s.status, name == "nlopt-bobyqa" ? Status::converged : Status::iteration_limit) << s.message;
      double lowest = everywhere;
      for (const HistoryEntry& h : s.history) {
        EXPECT_EQ(h.accepted, h.outer_value < lowest);
        lowest = std::min(lowest, h.outer_value);
      }
      EXPECT_EQ(s.outer_value, lowest);
      EXPECT_NEAR(s.outer_value, quadratic->outer(*quadratic->settled(s.theta), s.theta, {}), 1e-10);
    }

    problems::LinearModelOptions data;
    data.penalty = problems::Penalty::global;
    data.noise = 3;
    auto ridge = problems::Ridge::random(data);
    options.box = cube(1, -10, 10);
    options.max_evaluations = 401;
    const double penalty = best_penalty(ridge, -10, 10);
    ASSERT_LT(std::abs(penalty), 9.9) << "the best penalty lies within the box";
    const Summary s = run(name, ridge, ridge.initial_theta(), options);
    EXPECT_LE(std::abs(s.theta[0] - penalty), std::max(20 * allowed, 1e-5)) << s.message;
  }
}

TEST(Search, BudgetsAreKeptExactly) {
  const auto f = [](const Vec& theta) {
    return (theta.array() - 0.3).square().sum() + std::cos(9 * theta[0]);
  };
  for (const std::string& name : search_names())
    for (const long budget : {1, 2, 5, 9, 17, 100}) {
      SCOPED_TRACE(::testing::Message() << name << ", budget " << budget);
      SearchOptions options;
      options.box = cube(2, -1, 1);
      options.theta_tolerance = 0;
      long calls = 0;
      const auto counted = [&](const Vec& theta) {
        ++calls;
        return f(theta);
      };
      options.max_evaluations = budget;
      if (name == "grid-search" && budget < 5) {
        EXPECT_THROW(run(name, counted, Vec::Zero(2), options), InvalidInput);
        EXPECT_EQ(calls, 0);
        continue;
      }
      const Summary s = run(name, counted, Vec::Zero(2), options);
      EXPECT_EQ(s.evaluations, calls);
      const long levels = static_cast<long>(std::floor(std::sqrt(static_cast<double>(budget - 1)) + 1e-9));
      if (name == "grid-search") {
        EXPECT_EQ(calls, 1 + levels * levels);
      } else if (s.status == Status::iteration_limit) {
        EXPECT_EQ(calls, budget);
      } else {
        EXPECT_EQ(name, "nlopt-bobyqa") << s.message;
        EXPECT_LT(calls, budget);
      }
      // The same budget in the other currency.
      calls = 0;
      options.max_evaluations = 1000000;
      options.max_gradient_equivalents = static_cast<double>(budget);
      const Summary other = run(name, counted, Vec::Zero(2), options);
      EXPECT_EQ(other.theta, s.theta);
      EXPECT_EQ(calls, s.evaluations);
      EXPECT_EQ(other.cost.gradient_equivalents(), static_cast<double>(calls));
    }
}

TEST(Search, TheGridHoldsItsCornersAndEveryPointOnce) {
  std::vector<std::vector<double>> points;
  SearchOptions options;
  options.box = {Vec::Constant(3, -1), Vec::Constant(3, 2)};
  options.box.lower[1] = options.box.upper[1] = 0.7;  // held: one level is enough
  options.max_evaluations = 1 + 16 + 3;
  const Summary s = run(
      "grid-search",
      [&](const Vec& theta) {
        points.emplace_back(theta.data(), theta.data() + 3);
        return theta.sum();
      },
      Vec::Zero(3), options);
  ASSERT_EQ(points.size(), 17U) << s.message;
  EXPECT_EQ(points[0], (std::vector<double>{0, 0.7, 0})) << "the start, projected";
  for (std::size_t i = 2; i < points.size(); ++i)
    EXPECT_NEAR(std::abs(points[i][0] - points[i - 1][0]) + std::abs(points[i][2] - points[i - 1][2]), 1,
                1e-12)
        << "neighbours follow each other";
  std::sort(points.begin() + 1, points.end());
  EXPECT_EQ(std::unique(points.begin() + 1, points.end()), points.end());
  for (const double x : {-1, 2})
    for (const double z : {-1, 2})
      EXPECT_TRUE(std::binary_search(points.begin() + 1, points.end(), std::vector<double>{x, 0.7, z}));
  EXPECT_EQ(s.theta, options.box.lower);
}

TEST(Search, TheGridRefusesWithNumbers) {
  SearchOptions options;
  options.box = cube(20, -1, 1);
  options.max_evaluations = 1000;
  try {
    run(
        "grid-search", [](const Vec&) { return 0.0; }, Vec::Zero(20), options);
    FAIL();
  } catch (const InvalidInput& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("20 dimensions"), std::string::npos) << text;
    EXPECT_NE(text.find("1.04858e+06"), std::string::npos) << text;
    EXPECT_NE(text.find("allows 1000"), std::string::npos) << text;
  }
}

TEST(Search, EvaluatesTheStartFirstAndNeverReturnsWorse) {
  for (const std::string& name : search_names()) {
    SearchOptions options;
    options.box = cube(1, -1, 1);
    options.max_evaluations = 30;
    Vec first;
    const Summary s = run(
        name,
        [&](const Vec& theta) {
          if (first.size() == 0) first = theta;
          return theta[0] == 0.123 ? -5.0 : 1.0;  // nobody else will find it
        },
        Vec::Constant(1, 0.123), options);
    EXPECT_EQ(first, Vec::Constant(1, 0.123)) << name;
    EXPECT_EQ(s.theta, first) << name;
    EXPECT_EQ(s.outer_value, -5) << name;
    EXPECT_EQ(run(
                  name, [](const Vec& t) { return t[0]; }, Vec::Constant(1, 9), options)
                  .history[0]
                  .outer_value,
              1)
        << "projected onto the box";
  }
}

TEST(Search, RegionsWithoutAValueAreAvoided) {
  const auto f = [](const Vec& theta) {
    return theta[0] > 0.5 ? (theta[1] > 0 ? unknown : everywhere) : (theta.array() - 0.4).square().sum();
  };
  for (const std::string& name : search_names()) {
    SearchOptions options;
    options.box = cube(2, -1, 1);
    options.max_evaluations = name == "random-search" || name == "grid-search" ? 3000 : 400;
    for (const double start : {-0.9, 0.9}) {
      const Summary s = run(name, f, Vec::Constant(2, start), options);
      if (start > 0 && name == "nlopt-bobyqa") {  // a local search sees nothing but the plateau
        EXPECT_EQ(s.status, Status::not_finite) << s.message;
        continue;
      }
      EXPECT_LE((s.theta.array() - 0.4).abs().maxCoeff(), 0.05) << name << ": " << s.message;
      EXPECT_LE(s.theta[0], 0.5);
    }
    const Summary nothing = run(
        name, [](const Vec&) { return unknown; }, Vec::Zero(2), options);
    EXPECT_EQ(nothing.status, Status::not_finite) << name;
    EXPECT_TRUE(std::isnan(nothing.outer_value));
    EXPECT_EQ(nothing.theta, Vec::Zero(2));
  }
}

TEST(Search, CallbackInterruptsAndExceptionsPass) {
  const auto f = [](const Vec& theta) { return theta.squaredNorm(); };
  for (const std::string& name : search_names()) {
    SearchOptions options;
    options.box = cube(2, -1, 1.5);
    int calls = 0;
    options.callback = [&](const HistoryEntry&) { return ++calls < 7; };
    const Summary s = run(name, f, Vec::Ones(2), options);
    EXPECT_EQ(s.status, Status::interrupted) << name;
    EXPECT_EQ(s.evaluations, 7) << name;
    options.callback = nullptr;
    int left = 5;
    const auto throwing = [&](const Vec& theta) {
      if (--left == 0) throw std::runtime_error("the simulator is gone");
      return theta.squaredNorm();
    };
    EXPECT_THROW(run(name, throwing, Vec::Ones(2), options), std::runtime_error) << name;
  }
}

TEST(Search, RepeatsItselfAndDependsOnItsSeed) {
  const auto problem = problems::make("log-cosh", {.phi = 5, .theta = 2, .seed = 6});
  for (const std::string& name : search_names()) {
    SearchOptions options;
    options.box = cube(2, -2, 2);
    options.max_evaluations = 60;
    const Summary a = run(name, *problem, problem->initial_theta(), options),
                  b = run(name, *problem, problem->initial_theta(), options);
    EXPECT_EQ(a.theta, b.theta) << name;
    EXPECT_EQ(a.outer_value, b.outer_value) << name;
    options.seed = 2;
    const Summary c = run(name, *problem, problem->initial_theta(), options);
    EXPECT_EQ(c.theta != a.theta, name == "random-search") << name;
  }
}

TEST(Search, BobyqaNeedsNoBoundsAndOthersDo) {
  const auto problem = problems::make("quadratic", {.phi = 6, .theta = 3, .condition = 10, .seed = 4});
  SearchOptions options;
  const Summary s = run("nlopt-bobyqa", *problem, problem->initial_theta(), options);
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE((s.theta - *problem->best_theta()).norm(), 1e-4);
  for (const std::string& name : search_names()) {
    if (name == "nlopt-bobyqa") continue;
    for (const Box& box :
         {Box{}, Box{Vec::Zero(3), Vec()}, Box{Vec::Zero(3), Vec::Constant(3, everywhere)}}) {
      options.box = box;
      try {
        run(name, *problem, problem->initial_theta(), options);
        FAIL() << name;
      } catch (const InvalidInput& error) {
        EXPECT_NE(std::string_view(error.what()).find("bounds"), std::string_view::npos) << error.what();
      }
    }
  }
}

TEST(Search, HeldElementsStayWhereTheyAre) {
  for (const std::string& name : search_names()) {
    SearchOptions options;
    options.box = cube(3, -1, 1);
    options.box.lower[0] = options.box.upper[0] = 0.25;
    options.max_evaluations = 200;
    const Summary s = run(
        name, [](const Vec& t) { return (t.array() - 0.4).square().sum(); }, Vec::Zero(3), options);
    EXPECT_EQ(s.theta[0], 0.25) << name << ": " << s.message;
    EXPECT_LE(s.outer_value, 0.15 * 0.15 + 0.1) << name;
    options.box = cube(3, 0.25, 0.25);
    const Summary nowhere = run(
        name, [](const Vec& t) { return t.sum(); }, Vec::Zero(3), options);
    EXPECT_EQ(nowhere.outer_value, 0.75) << name << ": " << nowhere.message;
  }
}

TEST(Search, BadOptionsAreNamed) {
  const auto f = [](const Vec& theta) { return theta.squaredNorm(); };
  const auto says = [&](SearchOptions options, const std::string& name, std::string_view part) {
    try {
      run(name, f, Vec::Zero(2), options);
      ADD_FAILURE() << part;
    } catch (const InvalidInput& error) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  };
  SearchOptions good;
  good.box = cube(2, -1, 1);
  SearchOptions o = good;
  o.max_evaluations = 0;
  o.max_gradient_equivalents = -1;
  says(o, "random-search", "search.max_evaluations = 0");
  says(o, "random-search", "search.max_gradient_equivalents = -1");
  o = good;
  o.theta_tolerance = unknown;
  says(o, "nlopt-bobyqa", "search.theta_tolerance");
  o = good;
  o.max_seconds = 0;
  says(o, "grid-search", "search.max_seconds");
  o = good;
  o.box.upper[1] = -2;
  says(o, "nlopt-direct", "box.lower[1]");
  says(good, "magic", "nlopt-bobyqa");
  const auto problem = problems::make("quadratic");
  const auto inner = make_inner_solver<Vec>("newton", *problem);
  SettledValue<Vec> value(*problem, *inner);
  EXPECT_THROW(search<Vec>("nlopt-bobyqa", value, Vec::Zero(2), {}), InvalidInput);
  EXPECT_THROW(search<Vec>("nlopt-bobyqa", value, Vec::Constant(5, unknown), {}), InvalidInput);
}

template <class V>
class SearchVectors : public ::testing::Test {};
using VectorTypes = ::testing::Types<conformance::BlockVector, Eigen::VectorXf>;
TYPED_TEST_SUITE(SearchVectors, VectorTypes);

TYPED_TEST(SearchVectors, OtherVectorsFindTheSameParameters) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  const auto original = problems::make("quadratic", {.phi = 8, .theta = 3, .condition = 10, .seed = 9});
  conformance::Translated<V> problem(*original);
  MinimiserOptions inner_options;
  inner_options.gradient_tolerance = single ? 1e-4 : 1e-11;
  const auto inner = make_inner_solver<V>("newton", problem, inner_options);
  SettledValue<V> value(problem, *inner);
  const Summary s = search<V>("nlopt-bobyqa", value, problem.initial_theta(), {});
  EXPECT_LE((s.theta - *original->best_theta()).norm(), (single ? 5e-2 : 1e-4) * (1 + s.theta.norm()))
      << s.message;
}

}  // namespace search_test
}  // namespace bilevel
