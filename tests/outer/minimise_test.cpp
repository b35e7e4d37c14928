// One call that owns problem, inner solver, estimator and optimiser.

#include <cmath>

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <conformance/block_vector.hpp>
#include <conformance/recurrent_net.hpp>
#include <conformance/translated.hpp>
#include <scratch.hpp>

namespace bilevel {
namespace minimise_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

/// Fit φ·x to y with penalty exp(θ), judged on points kept aside: the best slope for these is x·y/x·x =
/// 7.7/8.5, and the penalty that gives it exp θ = 15.2/slope − 14.
struct KeptLine {
  Eigen::Vector3d x{1, 2, 3}, y{1.2, 1.9, 3.4};
  Eigen::Vector2d x_kept{1.5, 2.5}, y_kept{1.3, 2.3};
  long* calls = nullptr;

  static double best_slope() { return 7.7 / 8.5; }
  static double best_theta() { return std::log(15.2 / best_slope() - 14); }

  Vec initial_phi() const { return Vec::Zero(1); }
  Vec initial_theta() const { return Vec::Zero(1); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) const {
    if (calls) ++*calls;
    const Eigen::Vector3d r = phi[0] * x - y;
    if (wanted.phi) *wanted.phi = Vec::Constant(1, x.dot(r) + std::exp(theta[0]) * phi[0]);
    if (wanted.theta) *wanted.theta = Vec::Constant(1, 0.5 * std::exp(theta[0]) * phi[0] * phi[0]);
    return 0.5 * r.squaredNorm() + 0.5 * std::exp(theta[0]) * phi[0] * phi[0];
  }
  double outer(const Vec& phi, const Vec&, Wanted<Vec> wanted) const {
    const Eigen::Vector2d r = phi[0] * x_kept - y_kept;
    if (wanted.phi) *wanted.phi = Vec::Constant(1, x_kept.dot(r));
    if (wanted.theta) wanted.theta->setZero();
    return 0.5 * r.squaredNorm();
  }
};

struct CurvedKeptLine : KeptLine {
  void hessian_times(const Vec&, const Vec& theta, double beta, const Vec& v, Vec& out) const {
    out = (x.squaredNorm() + std::exp(theta[0]) + beta * x_kept.squaredNorm()) * v;
  }
  void cross_times(const Vec& phi, const Vec& theta, double, const Vec& v, Vec& out) const {
    out = std::exp(theta[0]) * phi[0] * v;
  }
  void cross_apply(const Vec& phi, const Vec& theta, double, const Vec& u, Vec& out) const {
    out = std::exp(theta[0]) * phi[0] * u;
  }
};

std::string refusal_of(const MinimiseOptions& options) {
  long calls = 0;
  CurvedKeptLine line;
  line.calls = &calls;
  try {
    minimise(line, options);
  } catch (const InvalidInput& refusal) {
    EXPECT_EQ(calls, 0) << "work began";
    return refusal.what();
  }
  return "nothing was thrown";
}

void expect_parts(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(Minimise, OneCallReachesTheClosedForm) {
  const Summary s = minimise(CurvedKeptLine{}, {.outer = {.gradient_tolerance = 1e-10}});
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_EQ(s.certificate.verdict, Verdict::trusted);
  EXPECT_NEAR(s.theta[0], KeptLine::best_theta(), 1e-8);
  EXPECT_NEAR(s.phi[0], KeptLine::best_slope(), 1e-8);
  EXPECT_EQ(s.estimator, "auto");
  EXPECT_EQ(s.optimizer, "lbfgs");
  EXPECT_NE(s.choice.find("implicit-direct"), std::string::npos) << s.choice;
}

TEST(Minimise, TakesObjectsOrNamesToTheSameBits) {
  CurvedKeptLine line;
  const SolveOptions outer{.gradient_tolerance = 1e-10};
  const Summary by_name = minimise(
      line,
      {.inner = "newton", .estimator = "implicit-direct", .optimizer = "gradient-descent", .outer = outer});
  const Summary by_object = minimise(line, {.inner = NewtonOptions{},
                                            .estimator = ImplicitMethod{.adjoint = DirectOptions{}},
                                            .optimizer = DescentOptimizerOptions{},
                                            .outer = outer});
  EXPECT_EQ(by_name.theta, by_object.theta);
  EXPECT_EQ(by_name.evaluations, by_object.evaluations);
  EXPECT_EQ(by_object.estimator, "implicit-direct");
  EXPECT_EQ(by_object.optimizer, "gradient-descent");
  EXPECT_NEAR(by_object.theta[0], KeptLine::best_theta(), 1e-8);

  // As the four objects that it stands for.
  auto problem = make_problem(line);
  const auto inner = make_inner_solver<Vec>("newton", problem);
  const auto estimator = make_estimator<Vec>("implicit-direct", problem, *inner);
  const auto optimizer = make_optimizer("gradient-descent");
  EXPECT_EQ(solve<Vec>(*estimator, *optimizer, problem.initial_theta(), outer).theta, by_name.theta);
}

TEST(Minimise, EveryEstimatorIsAnOption) {
  for (const EstimatorChoice& choice : std::initializer_list<EstimatorChoice>{
           ExactMethod{}, ImplicitMethod{}, ImplicitMethod{.adjoint = GmresOptions{}},
           EquilibriumPropagationOptions{.nudge = Nudge::central}, UnrolledOptions{},
           UnrolledOptions{.step = GradientDescentOptions{}}, UnrolledOptions{.checkpointed = true},
           ForwardModeOptions{.step = HeavyBallOptions{}}, FiniteDifferenceOptions{.order = 4}}) {
    const Summary s = minimise(CurvedKeptLine{}, {.estimator = choice});
    EXPECT_EQ(s.estimator, name(choice));
    EXPECT_EQ(s.status, Status::converged) << s.estimator << ": " << s.message;
    EXPECT_NEAR(s.theta[0], KeptLine::best_theta(), 1e-4) << s.estimator;
  }
}

TEST(Minimise, ChoosesThePhasesByWhatTheLossesOffer) {
  // First derivatives only.
  const Summary plain = minimise(KeptLine{});
  EXPECT_EQ(plain.status, Status::converged) << plain.message;
  EXPECT_NEAR(plain.theta[0], KeptLine::best_theta(), 1e-4);
  EXPECT_EQ(plain.cost.linearisations, 0) << plain.choice;
  // A residual and no inner loss: φ = θ, L_out = ½(φ − 3)².
  const Summary settled = minimise(ResidualFunctions<Vec>{
      .initial_phi = [] { return Vec::Zero(1); },
      .initial_theta = [] { return Vec::Zero(1); },
      .residual = [](const Vec& phi, const Vec& theta, Vec& out) { out = phi - theta; },
      .outer =
          [](const Vec& phi, const Vec&, Wanted<Vec> wanted) {
            if (wanted.phi) *wanted.phi = phi.array() - 3;
            if (wanted.theta) wanted.theta->setZero();
            return 0.5 * (phi[0] - 3) * (phi[0] - 3);
          }});
  EXPECT_EQ(settled.status, Status::converged) << settled.message;
  EXPECT_NEAR(settled.theta[0], 3, 1e-6);
}

TEST(Minimise, ServesProblemsByReferenceWhereverTheyStart) {
  for (const char* family : {"quadratic", "duopoly", "pitchfork"}) {
    const auto problem = problems::make(family, {.seed = 2});
    const Vec start = problem->initial_theta() * 1.1;
    const Summary s = minimise(*problem, {.start = start, .outer = {.gradient_tolerance = 1e-8}});
    EXPECT_EQ(s.status, Status::converged) << family << ": " << s.message;
    EXPECT_LE((s.theta - *problem->best_theta()).norm(), 1e-6) << family;
  }
  // The struct itself, where it is handed over by reference.
  long calls = 0;
  CurvedKeptLine line;
  minimise(std::ref(line), {.outer = {.max_iterations = 1}});
  line.calls = &calls;
  minimise(std::ref(line), {.outer = {.max_iterations = 1}});
  EXPECT_GT(calls, 0);
  // A problem that is handed over by reference stays the problem that it is, with its curvature.
  auto problem = make_problem(CurvedKeptLine{});
  const Summary s = minimise(std::ref(problem));
  EXPECT_GT(s.cost.linearisations, 0);
  EXPECT_EQ(s.theta, minimise(problem).theta);
}

TEST(Minimise, TakesAnyVectorType) {
  const auto original = problems::make("quadratic", {.seed = 4});
  conformance::Translated<conformance::BlockVector> problem(*original);
  const Summary s = minimise(problem, {.outer = {.gradient_tolerance = 1e-8}});
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE((s.theta - *original->best_theta()).norm(), 1e-6);
}

/// Hands out one φ and one π, whose elements it uses again for every estimate: here the number of the
/// estimate.
struct Reusing final : Estimator<conformance::BlockVector> {
  using V = conformance::BlockVector;
  std::string_view name() const override { return "reusing"; }
  Estimate<V> estimate(const V& theta, const Warm<V>&) override {
    ++calls;
    Space<V>::fill(calls, state);
    Estimate<V> e;
    e.gradient = duplicate(theta);
    Space<V>::fill(1, e.gradient);
    e.outer_value = e.corrected_value = calls;
    e.phi = e.pi = state;
    e.status = Status::converged;
    return e;
  }
  V initial_phi() const override { return V(4); }
  V initial_theta() const override { return V(2); }
  V state{4};
  double calls = 0;
};

/// Accepts the first point and none after it.
struct FirstOnly final : Optimizer {
  std::string_view name() const override { return "first-only"; }
  void begin(const Box&) override {}
  Move advance(double, const Vec&, Vec&) override { return moves++ == 0 ? Move::accepted : Move::rejected; }
  OptimizerState save() const override { return {}; }
  void load(const OptimizerState&) override {}
  int moves = 0;
};

TEST(Solve, KeepsStatesOfItsOwn) {
  Reusing estimator;
  FirstOnly optimizer;
  const Summary s =
      solve<conformance::BlockVector>(estimator, optimizer, estimator.initial_theta(),
                                      {.tolerances = ToleranceSchedule::fixed(1e-3, 1e-3),
                                       .callback = [&](const HistoryEntry&) { return estimator.calls < 3; }});
  EXPECT_EQ(estimator.calls, 3);
  EXPECT_EQ(s.phi, Vec::Ones(4)) << "those of an estimate that was not accepted";
}

TEST(Minimise, KeepsItsOptionsByValue) {
  MinimiseOptions options;
  {
    ConjugateGradientOptions cg;
    cg.preconditioner = Preconditioner::inherited;
    options.estimator = ImplicitMethod{.adjoint = cg};
  }
  const MinimiseOptions copy = options;
  options.estimator = "exact";
  EXPECT_EQ(minimise(CurvedKeptLine{}, copy).estimator, "implicit-cg-inherited");
  EXPECT_EQ(minimise(CurvedKeptLine{}, options).estimator, "exact");
}

TEST(Minimise, SaysAllThatIsWrongAtOnceBeforeAnyWork) {
  MinimiseOptions options{.inner = "nwton", .estimator = "implicit", .optimizer = "sgd"};
  options.outer.gradient_tolerance = -1;
  options.phase_1.max_iterations = -2;
  options.start = Vec::Constant(1, unknown);
  expect_parts(refusal_of(options), {"minimise.inner = \"nwton\"", "gradient-descent-backtracking",
                                     "minimise.estimator = \"implicit\"", "implicit-cg-jacobi",
                                     "minimise.optimizer = \"sgd\"", "gradient-descent, adam, lbfgs",
                                     "gradient_tolerance = -1", "max_iterations = -2", "minimise.start"});
  MinimiseOptions objects{.inner = LbfgsOptions{.memory = 0},
                          .estimator = UnrolledOptions{.truncate = -1, .step = AdamOptions{.step = -1}},
                          .optimizer = AdamOptimizerOptions{.beta1 = 2}};
  expect_parts(refusal_of(objects),
               {"lbfgs.memory = 0", "unrolled.truncate = -1", "adam.step = -1", "adam.beta1 = 2"});
  expect_parts(refusal_of({.estimator = "implicit-cg-recycled"}),
               {"was removed in 0.1.0", "use implicit-cg-inherited"});
  expect_parts(refusal_of({.optimizer = "nlopt-bobyqa"}), {"nlopt-bobyqa", "a search", "search()"});
  expect_parts(
      refusal_of({.inner = "nwton", .estimator = AutomaticOptions{.beta = unknown}, .start = Vec::Zero(3)}),
      {"nwton", "auto.beta = nan", "a vector of 3"});
  expect_parts(refusal_of({.start = Vec::Zero(3)}),
               {"minimise.start = a vector of 3", "as many elements as theta, 1"});
  EXPECT_TRUE(MinimiseOptions{}.validate().empty());
}

TEST(Minimise, EstimatorsThatSettleThemselvesLeaveNoOptionUnread) {
  for (const EstimatorChoice& choice :
       std::initializer_list<EstimatorChoice>{UnrolledOptions{}, ForwardModeOptions{}, AgnosticOptions{}}) {
    expect_parts(refusal_of({.inner = HeavyBallOptions{}, .estimator = choice}),
                 {"minimise.inner = heavy-ball", name(choice)});
    expect_parts(refusal_of({.estimator = choice, .phase_1 = {.max_iterations = 7}}),
                 {"minimise.phase_1", name(choice)});
  }
  // By name, an estimator of steps has none of its own yet.
  const Summary s =
      minimise(CurvedKeptLine{}, {.inner = GradientDescentOptions{.step = 0.05}, .estimator = "unrolled"});
  const Summary same = minimise(CurvedKeptLine{},
                                {.estimator = UnrolledOptions{.step = GradientDescentOptions{.step = 0.05}}});
  EXPECT_EQ(s.theta, same.theta);
  EXPECT_EQ(s.cost.inner_gradients, same.cost.inner_gradients);
  EXPECT_NE(s.cost.inner_gradients,
            minimise(CurvedKeptLine{}, {.estimator = "unrolled"}).cost.inner_gradients);
  expect_parts(refusal_of({.inner = "newton", .estimator = "forward-mode"}),
               {"minimise.inner = newton", "forward-mode", "nesterov"});
}

/// Phase 1 needs some 10⁸ steps of these to settle.
const MinimiseOptions slow{.inner = GradientDescentOptions{.step = 1e-9},
                           .phase_1 = {.max_iterations = 20'000'000}};

TEST(Minimise, StopsWithinAnEvaluation) {
  long calls = 0;
  KeptLine line;
  line.calls = &calls;
  const StopToken stop([&] { return calls > 1000; });
  MinimiseOptions options = slow;
  options.outer.stop = &stop;
  const Summary told = minimise(line, options);
  EXPECT_EQ(told.status, Status::interrupted) << told.message;
  EXPECT_LT(calls, 2000);
  EXPECT_EQ(told.evaluations, 0);

  calls = 0;
  options = slow;
  options.outer.max_seconds = 0.01;
  const Summary late = minimise(line, options);
  EXPECT_EQ(late.status, Status::time_limit) << late.message;
  EXPECT_LT(calls, 10'000'000);
  EXPECT_EQ(late.evaluations, 0);
}

TEST(Minimise, HandsTheProblemBackWithTheTokenThatItObeyed) {
  long calls = 0;
  KeptLine line;
  line.calls = &calls;
  auto problem = make_problem(line);
  const StopToken own([&] { return calls > 1000; }), never([] { return false; });
  problem.obey(&own);
  MinimiseOptions options = slow;
  options.outer.stop = &never;
  EXPECT_EQ(minimise(problem, options).status, Status::interrupted);  // its own token counts as well
  EXPECT_LT(calls, 2000);
  EXPECT_EQ(problem.stop_token(), &own);
  EXPECT_THROW(minimise(problem, {.estimator = ImplicitMethod{}}), InvalidInput);  // no curvature
  EXPECT_EQ(problem.stop_token(), &own);

  conformance::RecurrentNet net(0.05 * Mat::Identity(4, 4), Mat::Ones(4, 1), Vec::Ones(4));
  const StopToken at_once([] { return true; });
  options = {.outer = {.stop = &at_once}};
  EXPECT_EQ(minimise(static_cast<Equilibrium<Vec>&>(net), options).status, Status::interrupted);
  EXPECT_EQ(net.stop_token(), nullptr);

  // A wrapper hands it on to what it wraps.
  auto differenced = with_difference_products(problem);
  differenced.obey(&never);
  EXPECT_EQ(problem.stop_token(), &never);
}

TEST(Minimise, ResumesWithTheSameMethodsOnly) {
  MinimiseOptions options{
      .inner = LbfgsOptions{.memory = 3},
      .estimator = EquilibriumPropagationOptions{.beta = 0.01},
      .optimizer = AdamOptimizerOptions{.step = 0.1},
      .outer = {.max_iterations = 2, .checkpoint = scratch("minimise"), .identity = "line"}};
  EXPECT_EQ(minimise(KeptLine{}, options).status, Status::iteration_limit);
  options.outer.resume = true;
  options.outer.max_iterations = 4;
  EXPECT_TRUE(minimise(KeptLine{}, options).resumed);
  for (auto change : std::initializer_list<void (*)(MinimiseOptions&)>{
           [](MinimiseOptions& o) { o.inner = LbfgsOptions{.memory = 4}; },
           [](MinimiseOptions& o) { o.inner = GradientDescentOptions{}; },
           [](MinimiseOptions& o) { o.estimator = EquilibriumPropagationOptions{.beta = 0.02}; },
           [](MinimiseOptions& o) { o.optimizer = AdamOptimizerOptions{.step = 0.2}; },
           [](MinimiseOptions& o) { o.outer.identity = "other"; }}) {
    MinimiseOptions changed = options;
    change(changed);
    EXPECT_THROW(minimise(KeptLine{}, changed), InvalidInput);
  }
}

TEST(Minimise, ResumesWithTheSameSecantsOnly) {
  MinimiseOptions options{
      .inner = FixedPointOptions{.memory = 3},
      .outer = {.max_iterations = 1, .checkpoint = scratch("secants"), .identity = "line"}};
  EXPECT_EQ(minimise(KeptLine{}, options).status, Status::iteration_limit);
  options.outer.resume = true;
  options.outer.max_iterations = 2;
  MinimiseOptions changed = options;
  changed.inner = FixedPointOptions{.memory = 3, .secants = Secants::broyden};
  EXPECT_THROW(minimise(KeptLine{}, changed), InvalidInput);
  EXPECT_TRUE(minimise(KeptLine{}, options).resumed);
}

TEST(Minimise, WhatTheProblemCannotServeIsSaid) {
  const auto refusal = [](auto losses, const MinimiseOptions& options) -> std::string {
    try {
      minimise(losses, options);
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return {};
  };
  expect_parts(refusal(KeptLine{}, {.estimator = ImplicitMethod{}}),
               {"implicit-cg", "first derivatives only"});
  conformance::RecurrentNet net(0.05 * Mat::Identity(4, 4), Mat::Ones(4, 1), Vec::Ones(4));
  try {
    minimise(static_cast<Equilibrium<Vec>&>(net), {.inner = LbfgsOptions{}});
    ADD_FAILURE();
  } catch (const InvalidInput& error) {
    expect_parts(error.what(), {"lbfgs", "use anderson or broyden"});
  }
}

TEST(Choices, NamesAndObjectsGoBothWays) {
  for (const auto* names : {&estimator_names(), &unlisted_estimator_names()})
    for (const std::string& each : *names) {
      EXPECT_EQ(name(estimator_named(each)), each);
      EXPECT_TRUE(validate(estimator_named(each)).empty()) << each;
    }
  for (const std::string_view each : inner_solver_names()) {
    EXPECT_EQ(name(inner_solver_named(each)), each);
    EXPECT_TRUE(validate(inner_solver_named(each)).empty()) << each;
  }
  for (const std::string& each : optimizer_names()) EXPECT_EQ(name(optimizer_named(each)), each);
  for (const char* unlisted : {"ep-forward-5", "ep-forward-8", "ep-agnostic"}) {
    EXPECT_EQ(std::count(estimator_names().begin(), estimator_names().end(), unlisted), 0);
    EXPECT_NE(find_estimator(unlisted), nullptr);
  }
  EXPECT_EQ(find_estimator("ep-forward-9"), nullptr);
  EXPECT_TRUE(nudges(HolomorphicOptions{}) && nudges(AgnosticOptions{}) && !nudges(AutomaticOptions{}));
  EXPECT_TRUE(differentiates_steps(UnrolledOptions{}) && !differentiates_steps(ExactMethod{}));
  EXPECT_TRUE(differentiable(AdamOptions{}) && !differentiable(NewtonOptions{}) &&
              !differentiable(FixedPointOptions{}));
}

}  // namespace minimise_test
}  // namespace bilevel
