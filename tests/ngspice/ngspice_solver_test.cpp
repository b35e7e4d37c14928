// The solver behind the inner interface: same states as ours, values changed in place, and what goes wrong.
#include <cmath>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include <bilevel/networks/circuit_solver.hpp>
#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/ngspice/ngspice_solver.hpp>
#include <bilevel/space/eigen.hpp>

#include <refusal.hpp>

namespace bilevel::networks {
namespace ngspice_solver_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

CircuitProblem small_problem(std::uint64_t seed) {
  const LayeredCircuit network = layered_circuit({.sizes = {3, 4, 3, 2},
                                                  .input_volts = 3,
                                                  .gains = {2, 0.5},
                                                  .diode = {.saturation_current = 1e-6},
                                                  .seed = seed});
  Vec values(25);
  Space<Vec>::random(seed, values);
  const Mat inputs = values.head(15).reshaped(3, 5), targets = 0.3 * values.tail(10).reshaped(2, 5);
  return CircuitProblem(network.circuit, network.outputs, network.sources(inputs), targets);
}

void expect_same(CircuitProblem& problem, NgspiceSolver& theirs, const Vec& theta, double beta) {
  CircuitSolver ours(problem);
  const auto a = ours.solve(theta, beta, problem.initial_phi()),
             b = theirs.solve(theta, beta, problem.initial_phi());
  ASSERT_EQ(a.status, Status::converged) << a.message;
  ASSERT_EQ(b.status, Status::converged) << b.message;
  EXPECT_LE((a.phi - b.phi).cwiseAbs().maxCoeff(), 1e-9);
  EXPECT_NEAR(a.value, b.value, 1e-12 * std::abs(a.value));
  EXPECT_LE(b.residual_norm, 1e-10);
}

TEST(NgspiceSolver, SettlesWhereOursDoes) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    CircuitProblem problem = small_problem(seed);
    NgspiceSolver solver(problem);
    const Vec theta = problem.initial_theta();
    for (const double beta : {0.0, 1e-3, -1e-3, 0.05}) expect_same(problem, solver, theta, beta);
    EXPECT_EQ(solver.loads(), 1);  // only the nudges changed
    EXPECT_EQ(solver.alters(), 3 * 2);
    EXPECT_EQ(solver.settled(), 4 * 5);
    expect_same(problem, solver, 2 * theta, 0.05);
    EXPECT_EQ(solver.loads(), 2);
    // A conductance of zero is written as one that is far below rounding.
    Vec sparse = theta;
    sparse[3] = 0;
    expect_same(problem, solver, sparse, 0);
    problem.select({4, 0});
    expect_same(problem, solver, theta, 0.01);
  }
}

TEST(NgspiceSolver, TwoSolversTakeTurns) {
  CircuitProblem first = small_problem(1), second = small_problem(2);
  NgspiceSolver one(first), two(second);
  for (int i = 0; i < 3; ++i) {
    expect_same(first, one, first.initial_theta(), 0.01);
    expect_same(second, two, second.initial_theta(), -0.001);
  }
  EXPECT_EQ(one.loads(), 3);
}

TEST(NgspiceSolver, ThreadsWaitForEachOther) {
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    threads.emplace_back([seed] {
      CircuitProblem problem = small_problem(seed);
      NgspiceSolver solver(problem);
      for (int i = 0; i < 5; ++i) expect_same(problem, solver, problem.initial_theta(), 1e-3 * i);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(NgspiceSolver, SaysWhereNgspiceIsMissing) {
  CircuitProblem problem = small_problem(1);
  const std::string text = refusal([&] { NgspiceSolver(problem, {.library = "/nowhere/libngspice.so"}); });
  EXPECT_NE(text.find("ngspice: its shared library cannot be loaded (/nowhere/libngspice.so"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("libngspice0"), std::string::npos) << text;
  // A library, but another one.
  EXPECT_EQ(refusal([&] { NgspiceSolver(problem, {.library = "libm.so.6"}); }),
            "ngspice: libm.so.6 has no function ngSpice_Init");
}

TEST(NgspiceSolver, NamesBadInput) {
  CircuitProblem problem = small_problem(1);
  NgspiceSolver solver(problem);
  Vec theta = problem.initial_theta();
  theta[1] = -1;
  EXPECT_EQ(refusal([&] { solver.solve(theta, 0, problem.initial_phi()); }),
            "ngspice: conductance 1 = -1 S must be zero or more and finite");
  theta[1] = INFINITY;
  EXPECT_EQ(refusal([&] { solver.solve(theta, 0, problem.initial_phi()); }),
            "ngspice: conductance 1 = inf S must be zero or more and finite");
  theta[1] = 1;
  EXPECT_EQ(refusal([&] { solver.solve(theta, std::nan(""), problem.initial_phi()); }),
            "ngspice: beta = nan must be finite");
  EXPECT_EQ(refusal([&] { NgspiceSolver(problem, {.reltol = 0}); }),
            "ngspice.reltol = 0 must be positive and finite");
  EXPECT_EQ(refusal([&] { ngspice_operating_point(Circuit{.nodes = 2}); }),
            "circuit.node = 1 has no conducting path to ground or to a source: its voltage is undetermined");
}

TEST(NgspiceSolver, FailureToConvergeIsAStatus) {
  // One output unit of 2 mS against a pull of exactly −2 mS: the matrix is singular.
  Circuit c;
  c.nodes = 3;
  c.sources = {{1, 1}};
  c.resistors = {{1, 2, 1e-3}, {2, 0, 1e-3}};
  CircuitProblem problem(c, {2}, Mat::Ones(1, 2), Mat::Zero(1, 2));
  NgspiceSolver solver(problem);
  const auto s = solver.solve(problem.initial_theta(), -2e-3, Vec::Constant(2, 0.25));
  EXPECT_EQ(s.status, Status::singular);
  EXPECT_NE(s.message.find("sample 0: ngspice: singular matrix"), std::string::npos) << s.message;
  EXPECT_NE(s.message.find("n2"), std::string::npos) << s.message;
  EXPECT_NE(s.message.find("aborted"), std::string::npos) << s.message;
  EXPECT_EQ(s.phi, Vec::Constant(2, 0.25));
  // Beyond that pole ngspice settles as happily as before, but not in a minimum.
  const auto beyond = solver.solve(problem.initial_theta(), -3e-3, Vec::Zero(2));
  EXPECT_EQ(beyond.status, Status::negative_curvature);
  EXPECT_NE(beyond.message.find("no minimum"), std::string::npos) << beyond.message;
  // It does not spoil what follows.
  const auto after = solver.solve(problem.initial_theta(), 0, Vec::Zero(2));
  EXPECT_EQ(after.status, Status::converged) << after.message;
  EXPECT_NEAR(after.phi[1], 0.5, 1e-14);
  // A node that zeros leave alone.
  const auto floating = solver.solve(Vec::Zero(2), 0, Vec::Zero(2));
  EXPECT_EQ(floating.status, Status::singular);
  EXPECT_NE(floating.message.find("node = 2 has no conducting path"), std::string::npos) << floating.message;
}

TEST(NgspiceSolver, TextOfYourOwnIsSettledOrComplainedAbout) {
  const OperatingPoint fine = ngspice_operating_point("divider\nV1 n1 0 6\nR1 n1 n2 4\nR2 n2 0 2\n.end\n", 4);
  EXPECT_EQ(fine.status, Status::converged) << fine.message;
  EXPECT_NEAR(fine.voltages[2], 2, 1e-12);
  EXPECT_TRUE(std::isnan(fine.voltages[3]));
  EXPECT_NE(fine.message.find("there is no node n3"), std::string::npos) << fine.message;
  const auto fails = [](const char* text, Status status, const char* part) {
    const OperatingPoint p = ngspice_operating_point(text, 3);
    EXPECT_EQ(p.status, status) << p.message;
    EXPECT_EQ(p.message.rfind("ngspice: ", 0), 0u) << p.message;
    EXPECT_NE(p.message.find(part), std::string::npos) << p.message;
    EXPECT_TRUE(p.voltages.hasNaN());
  };
  fails("two sources at one node\nV1 n1 0 1\nV2 n1 0 2\nR1 n1 n2 1\nR2 n2 0 1\n.end\n", Status::singular,
        "singular matrix");
  fails("no model\nV1 n1 0 1\nD1 n1 n2 nothing\nR2 n2 0 1\n.end\n", Status::breakdown, "nothing");
  fails("no value\nV1 n1 0 1\nR1 n1 n2 abc\nR2 n2 0 1\n.end\n", Status::breakdown, "abc");
  fails("no file\nV1 n1 0 1\n.include /nowhere/at/all\nR2 n1 0 1\n.end\n", Status::breakdown,
        "/nowhere/at/all");
  EXPECT_EQ(ngspice_operating_point("again\nV1 n1 0 6\nR1 n1 n2 4\nR2 n2 0 2\n.end\n", 3).status,
            Status::converged);
}

TEST(NgspiceSolver, AnNgspiceThatEndsItselfEndsNothingElse) {
  // In a process of its own: afterwards ngspice must not be called any more.
  const auto quit = [] {
    const OperatingPoint p =
        ngspice_operating_point("ends itself\nV1 n1 0 6\nR1 n1 0 4\n.control\nquit\n.endc\n.end\n", 2);
    CircuitProblem problem = small_problem(1);
    const auto s = NgspiceSolver(problem).solve(problem.initial_theta(), 0, problem.initial_phi());
    fmt::print(stderr, "{}\n{}\n", p.message, s.message);
    std::exit(p.status == Status::breakdown && s.status == Status::breakdown ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(quit(), ::testing::ExitedWithCode(0),
              "it stopped for good and can be used again only by another");
}

}  // namespace ngspice_solver_test
}  // namespace bilevel::networks
