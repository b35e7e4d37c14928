#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/quadratic.hpp>

namespace bilevel {
namespace solve_test {

using Vec = Eigen::VectorXd;

/// A problem with its solvers, made anew for every run as a new process would.
struct Session {
  explicit Session(std::string family, problems::Settings settings = {}, std::string optimizer_name = "lbfgs",
                   std::string method = "implicit-cg", std::string inner_name = "newton")
      : problem(problems::make(family, settings)),
        inner(make_inner_solver<Vec>(inner_name, *problem)),
        estimator(make_estimator<Vec>(method, *problem, *inner)),
        optimizer(make_optimizer(optimizer_name)) {}
  Summary solve(const SolveOptions& options) {
    return bilevel::solve<Vec>(*estimator, *optimizer, problem->initial_theta(), options);
  }

  std::unique_ptr<problems::ReferenceProblem> problem;
  std::unique_ptr<InnerSolver<Vec>> inner;
  std::unique_ptr<Estimator<Vec>> estimator;
  std::unique_ptr<Optimizer> optimizer;
};

std::string scratch(const std::string& name) {
  return (std::filesystem::temp_directory_path() / fmt::format("bilevel_{}_{}", ::getpid(), name)).string();
}

problems::Settings seeded(std::uint64_t seed) {
  problems::Settings s;
  s.seed = seed;
  return s;
}

TEST(Solve, ReachesTheKnownOptimum) {
  for (const char* family : {"quadratic", "duopoly", "pitchfork"}) {
    Session run(family);
    SolveOptions options;
    options.gradient_tolerance = 1e-8;
    const Summary s = run.solve(options);
    EXPECT_EQ(s.status, Status::converged) << family << ": " << s.message;
    EXPECT_EQ(s.certificate.verdict, Verdict::trusted);
    EXPECT_LE((s.theta - *run.problem->best_theta()).norm(), 1e-6) << family;
    EXPECT_EQ(s.history.size(), static_cast<std::size_t>(s.evaluations));
    EXPECT_GT(s.cost.inner_gradients, 0);
    EXPECT_LE(s.gradient_norm, 1e-8);
  }
}

TEST(Solve, EveryOptimiserGetsThere) {
  for (const std::string& name : optimizer_names()) {
    problems::Settings settings = seeded(3);
    settings.condition = 10;
    Session run("quadratic", settings, name);
    SolveOptions options;
    options.gradient_tolerance = 1e-4;
    options.max_iterations = 5000;
    const Summary s = run.solve(options);
    EXPECT_EQ(s.status, Status::converged) << name << ": " << s.message;
    EXPECT_LE((s.theta - *run.problem->best_theta()).norm(), 1e-2) << name;
  }
}

TEST(Solve, ToleranceTightensAsTheGradientShrinks) {
  Session run("log-cosh", seeded(2));
  SolveOptions options;
  options.gradient_tolerance = 1e-7;
  const Summary s = run.solve(options);
  ASSERT_EQ(s.status, Status::converged) << s.message;
  for (std::size_t i = 1; i < s.history.size(); ++i)
    EXPECT_LE(s.history[i].inner_tolerance, s.history[i - 1].inner_tolerance);
  EXPECT_LT(s.used_inner_tolerance, 1e-3 * s.history.front().inner_tolerance);

  Session fixed("log-cosh", seeded(2));
  options.tolerances = ToleranceSchedule::fixed(1e-9, 1e-9);
  const Summary f = fixed.solve(options);
  ASSERT_EQ(f.status, Status::converged) << f.message;
  for (const auto& h : f.history) EXPECT_EQ(h.inner_tolerance, 1e-9);
  EXPECT_LE((f.theta - s.theta).norm(), 1e-5);
}

TEST(Solve, WarmStartsSaveWorkAndChangeNothing) {
  const auto cost = [](bool warm) {
    Session run("log-cosh", seeded(4), "lbfgs", "implicit-cg", "lbfgs");
    SolveOptions options;
    options.warm_start = warm;
    options.gradient_tolerance = 1e-7;
    return run.solve(options);
  };
  const Summary warm = cost(true), cold = cost(false);
  EXPECT_EQ(warm.status, Status::converged);
  EXPECT_EQ(cold.status, Status::converged);
  EXPECT_LE((warm.theta - cold.theta).norm(), 1e-5);
  EXPECT_LT(warm.cost.gradient_equivalents(), cold.cost.gradient_equivalents());
}

TEST(Solve, BoundsHoldAndTheProjectedGradientDecides) {
  Session run("quadratic", seeded(1));
  SolveOptions options;
  options.box = {Vec::Constant(5, -0.1), Vec::Constant(5, 0.1)};
  const Summary s = run.solve(options);
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LE(s.theta.cwiseAbs().maxCoeff(), 0.1);
  EXPECT_GT(s.gradient.norm(), 1e-2) << "the optimum lies outside, so the plain gradient does not vanish";
}

// Held components have large gradients; the free ones must be accurate all the same.
TEST(Solve, EveryBoxedRunConvergesToATrueOptimum) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (const char* optimizer : {"lbfgs", "gradient-descent"}) {
      SCOPED_TRACE(::testing::Message() << optimizer << ", seed " << seed);
      Session run("quadratic", seeded(seed), optimizer);
      SolveOptions options;
      options.max_iterations = 5000;
      options.gradient_tolerance = 1e-5;
      options.box = {Vec::Constant(5, -0.3), Vec::Constant(5, 0.2)};
      const Summary s = run.solve(options);
      ASSERT_EQ(s.status, Status::converged) << s.message;
      EXPECT_LE(options.box.projected_gradient_norm(s.theta, *run.problem->outer_gradient(s.theta)), 2e-5);
    }
  }
  const auto eye = [] { return Eigen::MatrixXd(Eigen::MatrixXd::Identity(2, 2)); };
  problems::Quadratic problem(eye(), eye(), Vec::Zero(2), eye(), Eigen::Vector2d(-100, 0));
  const auto inner = make_inner_solver<Vec>("newton", problem);
  const auto estimator = make_estimator<Vec>("implicit-cg", problem, *inner);
  const auto optimizer = make_optimizer("lbfgs");
  SolveOptions options;
  options.box = {Eigen::Vector2d(0, -10), Eigen::Vector2d(10, 10)};
  const Summary s = solve<Vec>(*estimator, *optimizer, Eigen::Vector2d(0, 5e-4), options);
  EXPECT_LE(std::abs(s.theta[1]), 2e-6) << s.message;
}

TEST(Solve, MethodsThatCannotBeTrustedDoNotConverge) {
  for (const char* method : {"first-order", "one-step"}) {
    Session run("quadratic", seeded(1), "lbfgs", method);
    const Summary s = run.solve({});
    EXPECT_NE(s.status, Status::converged) << method << ": " << s.message;
    EXPECT_NE(s.certificate.verdict, Verdict::trusted);
  }
}

TEST(Solve, StatusesSayWhyItStopped) {
  {
    Session run("quadratic", seeded(1));
    SolveOptions options;
    options.max_iterations = 2;
    EXPECT_EQ(run.solve(options).status, Status::iteration_limit);
  }
  {
    Session run("quadratic", seeded(1));
    SolveOptions options;
    options.max_seconds = 1e-9;
    EXPECT_EQ(run.solve(options).status, Status::time_limit);
  }
  {
    Session run("quadratic", seeded(1));
    SolveOptions options;
    options.relative_decrease = 0.5;
    EXPECT_EQ(run.solve(options).status, Status::relative_decrease);
  }
  {
    Session run("quadratic", seeded(1));
    SolveOptions options;
    int calls = 0;
    options.callback = [&](const HistoryEntry&) { return ++calls < 3; };
    const Summary s = run.solve(options);
    EXPECT_EQ(s.status, Status::interrupted);
    EXPECT_EQ(s.evaluations, 3);
  }
}

// Half an evaluation is none: the run stands where it stood before it, and goes on to the same bits.
TEST(Solve, AnEndWithinAnEvaluationIsResumed) {
  const std::string path = scratch("within");
  SolveOptions options;
  Session whole("log-cosh", seeded(4), "lbfgs", "implicit-cg", "lbfgs");
  const Summary expected = whole.solve(options);
  ASSERT_EQ(expected.status, Status::converged) << expected.message;
  int within = 0;
  for (const long moment : {0, 1, 5, 30, 80, 200, 400}) {
    SCOPED_TRACE(moment);
    std::filesystem::remove(path);
    options.checkpoint = path;
    options.resume = false;
    long looks = 0;
    const StopToken stop([&] { return looks++ >= moment; });
    options.stop = &stop;
    Session cut("log-cosh", seeded(4), "lbfgs", "implicit-cg", "lbfgs");
    cut.problem->obey(&stop);
    const Summary s = cut.solve(options);
    if (looks <= moment) continue;
    within += s.evaluations > 0;
    EXPECT_EQ(s.status, Status::interrupted) << s.message;
    EXPECT_EQ(s.history.size(), static_cast<std::size_t>(s.evaluations));
    ASSERT_TRUE(std::filesystem::exists(path));
    options.stop = nullptr;
    options.resume = true;
    Session rest("log-cosh", seeded(4), "lbfgs", "implicit-cg", "lbfgs");
    const Summary r = rest.solve(options);
    EXPECT_EQ(r.theta, expected.theta);
    EXPECT_EQ(r.evaluations, expected.evaluations);
  }
  EXPECT_GT(within, 1) << "some must have been cut after their first evaluation";
  std::filesystem::remove(path);
}

TEST(Solve, BadOptionsAreAllNamed) {
  Session run("quadratic");
  SolveOptions options;
  options.gradient_tolerance = -1;
  options.max_iterations = -2;
  options.tolerances.floor = 0;
  options.resume = true;
  try {
    run.solve(options);
    FAIL();
  } catch (const InvalidInput& error) {
    const std::string text = error.what();
    for (const char* field : {"gradient_tolerance = -1", "max_iterations = -2", "floor = 0", "resume = true"})
      EXPECT_NE(text.find(field), std::string::npos) << text;
  }
  EXPECT_THROW(solve<Vec>(*run.estimator, *run.optimizer, Vec::Zero(2), {}), InvalidInput);
  EXPECT_THROW(solve<Vec>(*run.estimator, *run.optimizer, Vec::Constant(5, std::nan("")), {}), InvalidInput);
  SolveOptions box;
  box.box.lower = Vec::Zero(2);
  EXPECT_THROW(run.solve(box), InvalidInput);
}

// Stop after every possible number of evaluations, resume in new objects, and demand the same bits as an
// uninterrupted run.
TEST(Checkpoint, ResumedRunsEndWithTheSameBits) {
  for (const std::string& optimizer : optimizer_names()) {
    for (const char* family : {"log-cosh", "pitchfork"}) {
      SolveOptions options;
      options.gradient_tolerance = optimizer == "adam" ? 1e-3 : 1e-7;
      options.max_iterations = 40;
      options.identity = family;
      Session whole(family, {}, optimizer);
      const Summary expected = whole.solve(options);
      for (long stop = 1; stop < expected.evaluations; ++stop) {
        SCOPED_TRACE(::testing::Message() << optimizer << " on " << family << ", stopped after " << stop);
        SolveOptions first = options;
        first.checkpoint = scratch("resume");
        long calls = 0;
        first.callback = [&](const HistoryEntry&) { return ++calls < stop; };
        Session before(family, {}, optimizer);
        ASSERT_EQ(before.solve(first).status, Status::interrupted);
        SolveOptions second = options;
        second.checkpoint = first.checkpoint;
        second.resume = true;
        Session after(family, {}, optimizer);
        const Summary s = after.solve(second);
        EXPECT_TRUE(s.resumed);
        EXPECT_EQ(s.status, expected.status);
        EXPECT_EQ(s.theta, expected.theta);
        EXPECT_EQ(s.phi, expected.phi);
        EXPECT_EQ(s.outer_value, expected.outer_value);
        EXPECT_EQ(s.evaluations, expected.evaluations);
        EXPECT_EQ(s.iterations, expected.iterations);
        EXPECT_EQ(s.cost.inner_gradients, expected.cost.inner_gradients);
        ASSERT_EQ(s.history.size(), expected.history.size());
        for (std::size_t i = 0; i < s.history.size(); ++i)
          EXPECT_EQ(s.history[i].outer_value, expected.history[i].outer_value);
        std::filesystem::remove(first.checkpoint);
      }
    }
  }
}

struct CheckpointFile : ::testing::Test {
  void SetUp() override {
    path = scratch("file");
    options.checkpoint = path;
    options.max_iterations = 2;
    options.identity = "mine";
    Session run("quadratic");
    ASSERT_EQ(run.solve(options).status, Status::iteration_limit);
    std::stringstream s;
    s << std::ifstream(path).rdbuf();
    text = s.str();
    ASSERT_GT(text.size(), 100U);
  }
  void TearDown() override { std::filesystem::remove(path); }
  /// What resuming from a file with these contents says; empty if it was accepted.
  std::string refusal(const std::string& contents, std::string identity = "mine",
                      std::string optimizer = "lbfgs") {
    std::ofstream(path) << contents;
    SolveOptions o = options;
    o.resume = true;
    o.identity = std::move(identity);
    Session run("quadratic", {}, std::move(optimizer));
    try {
      run.solve(o);
    } catch (const InvalidInput& e) {
      return e.what();
    }
    return "";
  }
  std::string path, text;
  SolveOptions options;
};

TEST_F(CheckpointFile, IsReadBack) {
  EXPECT_EQ(refusal(text), "");
}

TEST_F(CheckpointFile, TruncatedAnywhereIsRefusedByName) {
  for (std::size_t length = 0; length + 2 < text.size(); length += 1 + text.size() / 60) {
    const std::string why = refusal(text.substr(0, length));
    EXPECT_NE(why.find(path), std::string::npos) << "length " << length;
    EXPECT_NE(why.find("truncated"), std::string::npos) << why;
  }
}

TEST_F(CheckpointFile, ChangedDigitIsNoticed) {
  int noticed = 0, tried = 0;
  for (std::size_t i = text.find("\"run\""); i < text.size(); i += 17) {
    if (text[i] < '0' || text[i] > '8') continue;
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] + 1);
    // The seventeenth digit of a number may change without changing the number.
    if (nlohmann::json::parse(changed, nullptr, false) == nlohmann::json::parse(text)) continue;
    ++tried;
    noticed += !refusal(changed).empty();
  }
  EXPECT_GT(tried, 10);
  EXPECT_EQ(noticed, tried);
}

TEST_F(CheckpointFile, ForeignFilesAreRefused) {
  EXPECT_NE(refusal("{}").find("not a bilevel checkpoint"), std::string::npos);
  EXPECT_NE(refusal("[1,2]").find("not a bilevel checkpoint"), std::string::npos);
  EXPECT_NE(refusal("\x7f"
                    "ELF\x01\x02")
                .find("not a checkpoint at all"),
            std::string::npos);
  EXPECT_NE(refusal(text, "yours").find("another run"), std::string::npos);
  EXPECT_NE(refusal(text, "mine", "adam").find("another run"), std::string::npos);
  std::string newer = text;
  newer.replace(newer.find("\"version\":6"), 11, "\"version\":9");
  EXPECT_NE(refusal(newer).find("version 9"), std::string::npos);
  std::filesystem::remove(path);
  SolveOptions o = options;
  o.resume = true;
  Session run("quadratic");
  EXPECT_THROW(run.solve(o), InvalidInput);
}

// A file with a right checksum and wrong contents is no reason to read beyond a vector's end.
TEST_F(CheckpointFile, WhatDoesNotFitTogetherIsRefused) {
  const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json file = nlohmann::json::parse(text);
    change(file["run"]);
    return refusal(sealed(checkpoint_file, file["run"].dump()));
  };
  EXPECT_EQ(with([](nlohmann::json&) {}), "");
  const std::string one = "AAAAAAAA8D8=";
  for (const char* key : {"theta", "accepted.theta", "accepted.phi", "accepted.pi", "accepted.gradient",
                          "state.base", "state.gradient", "state.direction"})
    EXPECT_NE(with([&](nlohmann::json& run) { run["vectors"][key] = one; }).find("numbers"),
              std::string::npos)
        << key;
  EXPECT_NE(with([](nlohmann::json& run) { run["state"]["pairs"] = 1e300; }), "");
  EXPECT_NE(with([](nlohmann::json& run) { run["state"].erase("trial"); }), "");
  EXPECT_NE(with([](nlohmann::json& run) { run["accepted"]["certificate"]["kind"] = 7; }), "");
  EXPECT_NE(with([](nlohmann::json& run) { run["history"][0][6] = -1; }), "");
  EXPECT_NE(with([](nlohmann::json& run) { run["iterations"] = 1e300; }), "");
}

TEST_F(CheckpointFile, OtherBoundsAreAnotherRun) {
  options.box = {Vec::Constant(5, -1), Vec::Constant(5, 1)};
  EXPECT_NE(refusal(text).find("another run"), std::string::npos);
}

TEST_F(CheckpointFile, ALimitThatIsReachedStaysReached) {
  SolveOptions o = options;
  o.resume = true;
  Session run("quadratic");
  const Summary s = run.solve(o);
  EXPECT_EQ(s.status, Status::iteration_limit);
  EXPECT_EQ(s.iterations, 2);
}

TEST(Checkpoint, OneThatCannotBeWrittenAnyMoreIsSaid) {
  const std::string folder = scratch("folder");
  std::filesystem::create_directory(folder);
  Session run("quadratic");
  SolveOptions options;
  options.checkpoint = folder + "/run";
  int calls = 0;
  options.callback = [&](const HistoryEntry&) {
    if (++calls == 3) std::filesystem::remove_all(folder);
    return true;
  };
  const Summary s = run.solve(options);
  EXPECT_EQ(s.status, Status::converged);
  EXPECT_NE(s.message.find("cannot write " + options.checkpoint), std::string::npos) << s.message;
}

TEST(Checkpoint, AFileOfAnotherKindIsLeftAlone) {
  SolveOptions options;
  options.checkpoint = scratch("person.csv");
  std::ofstream(options.checkpoint) << "a,b\n1,2\n";
  Session run("quadratic");
  try {
    run.solve(options);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InvalidInput& e) {
    EXPECT_NE(std::string(e.what()).find("is no checkpoint of bilevel and is left alone"), std::string::npos);
  }
  std::ifstream file(options.checkpoint);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "a,b\n1,2\n");
}

TEST(Checkpoint, AFolderThatCannotBeWrittenIsSaidBeforeWorkStarts) {
  Session run("quadratic");
  SolveOptions options;
  options.checkpoint = "/nonexistent/folder/file";
  try {
    run.solve(options);
    FAIL();
  } catch (const InvalidInput& e) {
    EXPECT_NE(std::string(e.what()).find("/nonexistent/folder/file"), std::string::npos);
  }
}

/// A problem whose outer loss is told in another unit.
class OuterScaled final : public Problem<Vec> {
 public:
  OuterScaled(Problem<Vec>& problem, double unit) : problem_(problem), unit_(unit) {}
  Vec initial_phi() const override { return problem_.initial_phi(); }
  Vec initial_theta() const override { return problem_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return problem_.inner(phi, theta, wanted);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    const double value = problem_.outer(phi, theta, wanted);
    if (wanted.phi) *wanted.phi *= unit_;
    if (wanted.theta) *wanted.theta *= unit_;
    return unit_ * value;
  }
  void linearise(const Vec& phi, const Vec& theta, double beta,
                 std::unique_ptr<Curvature<Vec>>& reuse) override {
    problem_.linearise(phi, theta, unit_ * beta, reuse);
  }

 private:
  Problem<Vec>& problem_;
  double unit_;
};

TEST(Solve, AnOuterLossInTinyUnitsIsMinimisedAllTheSame) {
  for (const char* family : {"quadratic", "duopoly", "pitchfork"})
    for (const double unit : {1e-3, 1e-7, 1e-12}) {
      SCOPED_TRACE(fmt::format("{} in units of {}", family, unit));
      const auto original = problems::make(family);
      OuterScaled problem(*original, unit);
      const auto inner = make_inner_solver<Vec>("newton", problem);
      const auto estimator = make_estimator<Vec>("implicit-direct", problem, *inner);
      const auto optimizer = make_optimizer("lbfgs");
      const Summary s = solve<Vec>(*estimator, *optimizer, problem.initial_theta(), {});
      EXPECT_EQ(s.status, Status::converged) << s.message;
      EXPECT_LE((s.theta - *original->best_theta()).norm(), 1e-2 * (1 + original->best_theta()->norm()));
      EXPECT_EQ(s.asked_gradient_tolerance, 1e-6);
      EXPECT_LE(s.gradient_norm, s.used_gradient_tolerance);
      // Without it the start would do, and nobody would know better.
      const auto other = make_optimizer("lbfgs");
      const Summary absolute =
          solve<Vec>(*estimator, *other, problem.initial_theta(), {.ordinary_scale = 0});
      EXPECT_EQ(absolute.used_gradient_tolerance, 1e-6);
      if (unit < 1e-8) {
        EXPECT_EQ(absolute.iterations, 0);
      }
    }
}

TEST(Solve, AtOrdinaryScalesTheToleranceIsTheOneAskedFor) {
  for (const char* family : {"quadratic", "duopoly", "pitchfork"}) {
    Session run(family);
    const Summary s = run.solve({});
    EXPECT_EQ(s.used_gradient_tolerance, 1e-6) << family;
  }
}

TEST(Solve, TrustIsAnOption) {
  Session run("log-cosh");
  const Summary s = run.solve({.gradient_tolerance = 1e-9, .trust = 1e-3});
  EXPECT_EQ(s.certificate.trust, 1e-3);
  EXPECT_EQ(s.status, Status::converged) << s.message;
  for (const HistoryEntry& h : s.history)
    if (h.verdict == Verdict::trusted) {
      EXPECT_LE(h.bound, std::max(1e-3 * h.gradient_norm, 1e-9));
    }
  EXPECT_THROW(run.solve({.trust = 0}), InvalidInput);
  EXPECT_THROW(run.solve({.trust = 2}), InvalidInput);
  EXPECT_THROW(run.solve({.ordinary_scale = -1}), InvalidInput);
}

}  // namespace solve_test
}  // namespace bilevel
