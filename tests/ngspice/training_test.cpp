// Equilibrium propagation with ngspice doing the physics: what the estimator sees of the circuit is where it
// came to rest, never a derivative of the simulator.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include <bilevel/data/read.hpp>
#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/exact.hpp>
#include <bilevel/networks/circuit_solver.hpp>
#include <bilevel/networks/layered_circuit.hpp>
#include <bilevel/ngspice/ngspice_solver.hpp>
#include <bilevel/outer/solve.hpp>

namespace bilevel::networks {
namespace training_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

constexpr double least_siemens = 1e-4;

CircuitProblem exclusive_or(std::uint64_t seed) {
  const LayeredCircuit network =
      layered_circuit({.sizes = {2, 4, 1}, .input_volts = 4, .gains = {2}, .seed = seed});
  const Mat inputs{{-1, -1, 1, 1}, {-1, 1, -1, 1}}, targets{{-0.3, 0.3, 0.3, -0.3}};
  return CircuitProblem(network.circuit, network.outputs, network.sources(inputs), targets);
}

TEST(NgspiceTraining, GradientIsTheExactOneOfOurOwnModel) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    CircuitProblem problem = exclusive_or(seed);
    CircuitSolver ours(problem);
    NgspiceSolver theirs(problem);
    const Vec theta = problem.initial_theta();
    const Vec exact = Exact<Vec>(problem, ours).estimate(theta, {}).gradient;
    EquilibriumPropagation<Vec> propagation(problem, theirs, {.nudge = Nudge::central, .beta = 1e-4});
    const auto e = propagation.estimate(theta, {});
    EXPECT_EQ(e.status, Status::converged) << e.message;
    EXPECT_LE((e.gradient - exact).norm(), 1e-6 * exact.norm()) << "seed " << seed;
    EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason;
    EXPECT_LE((e.gradient - exact).norm(), e.certificate.bound);
  }
}

TEST(NgspiceTraining, LearnsExclusiveOr) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    CircuitProblem problem = exclusive_or(seed);
    NgspiceSolver solver(problem);
    EquilibriumPropagation<Vec> propagation(problem, solver, {.nudge = Nudge::central, .beta = 1e-3});
    SolveOptions options;
    options.gradient_tolerance = 1e-5;
    const Vec start = problem.initial_theta();
    options.box.lower = Vec::Constant(start.size(), least_siemens);
    options.box.upper = Vec::Constant(start.size(), 10);
    const auto optimizer = make_optimizer("lbfgs");
    const Summary s = solve<Vec>(propagation, *optimizer, start, options);
    EXPECT_EQ(s.status, Status::converged) << s.message;
    std::cout << "seed " << seed << ": L_out " << s.outer_value << " after " << s.iterations
              << " iterations, " << solver.settled() << " operating points, " << s.seconds << " s\n";
    // Far on the right side each, from a cold start too.
    const auto cold = solver.solve(s.theta, 0, problem.initial_phi());
    const Mat volts = problem.output_volts(cold.phi);
    for (Index k = 0; k < 4; ++k) EXPECT_NEAR(volts(0, k), problem.targets(k)[0], 0.01) << "sample " << k;
  }
}

/// The digits 0 to 4 of scikit-learn's 8×8 images, 2×2 pixels averaged, from −1 to 1; every third for
/// testing.
struct Digits {
  Mat inputs, targets;
  std::vector<Index> labels, train, test;
};

constexpr Index classes = 5;

Digits read_digits(const std::string& path) {
  data::ReadOptions options;
  options.header = data::Header::no;
  const data::Dataset file = data::read(path, options);
  const auto& pixels = std::get<data::DenseRows>(file.x);
  Digits d;
  for (Index row = 0; row < pixels.rows(); ++row)
    if (file.target[row] < classes) d.labels.push_back(static_cast<Index>(file.target[row]));
  const Index count = static_cast<Index>(d.labels.size());
  d.inputs = Mat::Constant(16, count, -1);
  d.targets = Mat::Constant(classes, count, -0.3);
  for (Index row = 0, k = 0; row < pixels.rows(); ++row) {
    if (file.target[row] >= classes) continue;
    for (Index p = 0; p < 64; ++p) d.inputs(p / 16 * 4 + p % 8 / 2, k) += pixels(row, p) / 32;
    d.targets(d.labels[static_cast<std::size_t>(k)], k) = 0.3;
    (k % 3 == 2 ? d.test : d.train).push_back(k);
    ++k;
  }
  return d;
}

TEST(NgspiceTraining, LearnsDigits) {
  const char* chosen = std::getenv("BILEVEL_DATA");
  const std::string path = std::string(chosen ? chosen : BILEVEL_DATA_DEFAULT) + "/sklearn/digits.csv.gz";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no " << path << "; set BILEVEL_DATA to the folder that has sklearn/digits.csv.gz";
  Digits digits = read_digits(path);
  const LayeredCircuit network = layered_circuit(
      {.sizes = {16, 12, classes}, .input_volts = 8, .least_siemens = 1e-3, .most_siemens = 0.1, .seed = 1});
  CircuitProblem problem(network.circuit, network.outputs, network.sources(digits.inputs), digits.targets);
  NgspiceSolver solver(problem);
  const auto accuracy = [&](const Vec& theta, const std::vector<Index>& samples) {
    problem.select(samples);
    const auto s = solver.solve(theta, 0, problem.initial_phi());
    EXPECT_EQ(s.status, Status::converged) << s.message;
    const Mat volts = problem.output_volts(s.phi);
    long right = 0;
    for (std::size_t k = 0; k < samples.size(); ++k) {
      Index highest;
      volts.col(static_cast<Index>(k)).maxCoeff(&highest);
      if (highest == digits.labels[static_cast<std::size_t>(samples[k])]) ++right;
    }
    return static_cast<double>(right) / static_cast<double>(samples.size());
  };
  Vec theta = problem.initial_theta();
  EXPECT_LE(accuracy(theta, digits.test), 0.5);

  const std::clock_t began = std::clock();  // of this process: others may share the machine
  std::mt19937_64 engine(1);
  std::vector<Index> batch(digits.train.begin(), digits.train.begin() + 10);
  problem.select(batch);
  EquilibriumPropagation<Vec> propagation(problem, solver,
                                          {.nudge = Nudge::central, .beta = 1e-3, .certificate = false});
  const Box box{Vec::Constant(theta.size(), least_siemens), Vec::Constant(theta.size(), 10)};
  std::size_t next = digits.train.size();
  for (const auto& [step, count] : {std::pair{0.005, 400}, std::pair{0.001, 200}}) {
    const auto adam = make_adam({.step = step});
    adam->begin(box);
    for (int i = 0; i < count; ++i) {
      for (Index& sample : batch) {
        if (next == digits.train.size()) {
          std::shuffle(digits.train.begin(), digits.train.end(), engine);
          next = 0;
        }
        sample = digits.train[next++];
      }
      problem.select(batch);
      const auto e = propagation.estimate(theta, {});
      ASSERT_EQ(e.status, Status::converged) << e.message;
      adam->advance(e.outer_value, e.gradient, theta);
    }
  }
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC,
               tested = accuracy(theta, digits.test);
  std::cout << "digits: " << 100 * tested << " % of " << digits.test.size() << " test images right, "
            << 100 * accuracy(theta, digits.train) << " % of " << digits.train.size() << " training images, "
            << solver.settled() << " operating points, " << seconds << " s\n";
  EXPECT_GE(tested, 0.93);
  EXPECT_LE(seconds, 60);
}

}  // namespace training_test
}  // namespace bilevel::networks
