// What is refused before any work starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/quadratic.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace input_test {

using inner_tests::double_well;
using inner_tests::MadeD;
using inner_tests::Recurrent;
using inner_tests::Vec;
using testing::AllOf;
using testing::HasSubstr;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const InvalidInput& refused) {
    return refused.what();
  }
  return "accepted";
}

TEST(Input, ShapesAndNumbersAreCheckedByEverySolver) {
  auto problem = double_well(3);
  const Vec theta = problem.initial_theta(), phi = problem.initial_phi();
  for (const std::string_view name : inner_solver_names()) {
    SCOPED_TRACE(name);
    auto solver = make_inner_solver(name, problem);
    EXPECT_THAT(refusal([&] { solver->solve(theta, 0, Vec::Zero(4)); }),
                AllOf(HasSubstr(std::string(name)), HasSubstr("phi has 4 elements, the problem wants 3")));
    EXPECT_THAT(refusal([&] { solver->solve(Vec::Zero(2), 0, phi); }), HasSubstr("theta has 2 elements"));
    EXPECT_THAT(refusal([&] { solver->solve(theta, 0, Vec::Constant(3, unknown)); }),
                HasSubstr("the start phi holds NaN"));
    EXPECT_THAT(refusal([&] { solver->solve(Vec::Constant(1, unknown), 0, phi); }),
                HasSubstr("theta holds NaN"));
    EXPECT_THAT(refusal([&] { solver->solve(theta, unknown, phi); }), HasSubstr("beta = nan must be finite"));
    EXPECT_THAT(refusal([&] { solver->set_tolerance(-1); }), HasSubstr("gradient_tolerance = -1"));
    EXPECT_EQ(problem.values, 0) << "an oracle was called";

    MadeD no_phi(Vec(0), Vec::Zero(1), [](const Vec&, const Vec&, Vec*) { return 0.0; });
    EXPECT_THAT(refusal([&] { make_inner_solver(name, no_phi)->solve(Vec::Zero(1), 0, Vec(0)); }),
                HasSubstr("phi has dimension 0"));
    MadeD no_theta(Vec::Zero(1), Vec(0), [](const Vec&, const Vec&, Vec*) { return 0.0; });
    EXPECT_THAT(refusal([&] { make_inner_solver(name, no_theta)->solve(Vec(0), 0, Vec::Zero(1)); }),
                HasSubstr("theta has dimension 0"));
  }
}

TEST(Input, EveryViolatedOptionIsNamedWithItsValue) {
  auto problem = double_well(3);
  const MinimiserOptions bad{.gradient_tolerance = -1,
                             .relative_decrease = 1,
                             .max_iterations = -2,
                             .max_seconds = unknown,
                             .divergence = 0.5};
  for (const std::string_view name : inner_solver_names())
    EXPECT_THAT(refusal([&] { make_inner_solver(name, problem, bad); }),
                AllOf(HasSubstr("minimiser.gradient_tolerance = -1"), HasSubstr("relative_decrease = 1 "),
                      HasSubstr("max_iterations = -2"), HasSubstr("max_seconds = nan"),
                      HasSubstr("divergence = 0.5")));

  EXPECT_THAT(refusal([] { GradientDescent<Vec>({.step = -1}); }), HasSubstr("gradient-descent.step = -1"));
  EXPECT_THAT(refusal([] { BacktrackingDescent<Vec>({.first_step = 0, .sufficient_decrease = 1}); }),
              AllOf(HasSubstr("first_step = 0"), HasSubstr("sufficient_decrease = 1")));
  EXPECT_THAT(refusal([] { HeavyBall<Vec>({.step = unknown, .momentum = 1}); }),
              AllOf(HasSubstr("step = nan"), HasSubstr("momentum = 1")));
  EXPECT_THAT(refusal([] { Nesterov<Vec>({.step = -2, .momentum = -0.5}); }),
              AllOf(HasSubstr("step = -2"), HasSubstr("momentum = -0.5")));
  EXPECT_THAT(refusal([] { Adam<Vec>({.step = 0, .first_decay = 1, .second_decay = -1, .floor = 0}); }),
              AllOf(HasSubstr("step = 0"), HasSubstr("first_decay = 1"), HasSubstr("second_decay = -1"),
                    HasSubstr("floor = 0")));
  EXPECT_THAT(refusal([] { Lbfgs<Vec>({.memory = 0}); }), HasSubstr("lbfgs.memory = 0"));
  EXPECT_THAT(refusal([] { Newton<Vec>({.max_assembled = 0}); }), HasSubstr("max_assembled = 0"));
  EXPECT_THAT(refusal([] { TrustRegion<Vec>({.first_radius = 0, .max_products = -1}); }),
              AllOf(HasSubstr("first_radius = 0"), HasSubstr("max_products = -1")));
  EXPECT_THAT(refusal([&] { FixedPoint<Vec>(problem, {}, {.step = -1, .memory = 33, .growth = 0.5}); }),
              AllOf(HasSubstr("step = -1"), HasSubstr("memory = 33"), HasSubstr("growth = 0.5")));
  FixedPointOptions broyden = FixedPointOptions::broyden();
  for (const long memory : {-1, 33}) {
    broyden.memory = memory;
    EXPECT_THAT(refusal([&] { make_inner_solver(broyden, problem); }),
                HasSubstr(fmt::format("memory = {} must lie in [0, 32]", memory)));
  }
  EXPECT_THAT(refusal([&] { Minimiser<Vec>(problem, nullptr); }), HasSubstr("step is null"));
}

TEST(Input, AnUnknownNameListsTheKnownOnes) {
  auto problem = double_well(3);
  const std::string text = refusal([&] { make_inner_solver("simplex", problem); });
  EXPECT_THAT(text, HasSubstr("\"simplex\""));
  for (const std::string_view name : inner_solver_names()) EXPECT_THAT(text, HasSubstr(std::string(name)));
}

TEST(Input, AnEquilibriumWithoutALossIsOnlyForThoseThatSeekAZero) {
  Recurrent problem(5, 0.5, 1);
  EXPECT_THAT(refusal([&] { make_inner_solver("lbfgs", problem); }),
              AllOf(HasSubstr("lbfgs"), HasSubstr("use anderson or broyden")));
  EXPECT_THAT(refusal([&] { make_inner_solver("simplex", problem); }), HasSubstr("choose one of"));
}

TEST(Input, FirstOrderProblemsAreServedOrToldWhatToDo) {
  auto problem = double_well(3, false);
  const Vec theta = problem.initial_theta(), phi = problem.initial_phi();
  for (const std::string_view name : {"newton", "trust-region"}) {
    auto solver = make_inner_solver(name, problem);
    EXPECT_THAT(refusal([&] { solver->solve(theta, 0, phi); }),
                AllOf(HasSubstr(name.data()), HasSubstr("use lbfgs")));
  }
  for (const std::string_view name : {"gradient-descent", "heavy-ball", "nesterov"}) {
    auto solver = make_inner_solver(name, problem);
    EXPECT_THAT(refusal([&] { solver->solve(theta, 0, phi); }),
                AllOf(HasSubstr(name.data()), HasSubstr("set step")));
  }
  EXPECT_EQ(problem.values, 0);
  for (const std::string_view name :
       {"gradient-descent-backtracking", "adam", "lbfgs", "anderson", "broyden"}) {
    SCOPED_TRACE(name);
    const auto s = make_inner_solver(name, problem, {.max_iterations = 100000})->solve(theta, 0, 0.9 * phi);
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE((s.phi.cwiseAbs() - Vec::Constant(3, std::sqrt(0.5))).norm(), 1e-9);
  }
  Minimiser<Vec> told(problem, std::make_unique<GradientDescent<Vec>>(GradientDescentOptions{.step = 0.05}));
  EXPECT_EQ(told.solve(theta, 0, phi).status, Status::converged);
}

TEST(Input, NewtonRefusesToAssembleALargeMatrix) {
  auto problem = double_well(12);
  Minimiser<Vec> solver(problem, std::make_unique<Newton<Vec>>(NewtonOptions{.max_assembled = 10}));
  EXPECT_THAT(refusal([&] { solver.solve(problem.initial_theta(), 0, problem.initial_phi()); }),
              AllOf(HasSubstr("|phi| = 12 exceeds max_assembled = 10"), HasSubstr("use trust-region")));
}

}  // namespace input_test
}  // namespace bilevel
