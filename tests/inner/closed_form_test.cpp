#include <gtest/gtest.h>

#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <conformance/block_vector.hpp>

#include "inner/test_problems.hpp"

namespace bilevel {
namespace closed_form_test {

using inner_tests::Vec;

class EverySolver : public testing::TestWithParam<std::tuple<std::string_view, double>> {};

TEST_P(EverySolver, ReachesTheClosedFormOfTheQuadratic) {
  const auto [name, beta] = GetParam();
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(fmt::format("{}, beta {}, seed {}", name, beta, seed));
    auto problem = problems::Quadratic::random({.phi = 20, .theta = 5, .condition = 100, .seed = seed});
    Vec theta = problem.initial_theta();
    Space<Vec>::random(seed + 100, theta);
    auto solver = make_inner_solver(name, problem, {.max_iterations = 200000});
    EXPECT_EQ(solver->name(), name);
    const auto solution = solver->solve(theta, beta, problem.initial_phi());
    EXPECT_EQ(solution.status, Status::converged) << solution.message;
    EXPECT_LE((solution.phi - problem.settled(theta, beta)).norm(), 1e-8) << solution.message;

    // What is reported is what is true at the returned point.
    Vec gradient = solution.phi, nudge = solution.phi;
    double value = problem.inner(solution.phi, theta, {.phi = &gradient});
    value += beta * problem.outer(solution.phi, theta, {.phi = &nudge});
    gradient += beta * nudge;
    EXPECT_NEAR(solution.residual_norm, gradient.norm(), 1e-15);
    EXPECT_LE(solution.residual_norm, solution.tolerance);
    const bool seeks_a_zero = !minimises(inner_solver_named(name));
    if (!seeks_a_zero) {
      EXPECT_NEAR(solution.value, value, 1e-14 * std::abs(value));
    }
    EXPECT_EQ(beta == 0, solution.cost.outer_gradients + solution.cost.outer_values == 0);
    EXPECT_GT(solution.cost.inner_gradients, 0);
    EXPECT_GT(solution.cost.seconds_inner, 0);
    EXPECT_GE(solution.cost.bytes, 3 * 20 * sizeof(double));
    EXPECT_NE(solution.message.find(seeks_a_zero ? "residual norm" : "gradient norm"), std::string::npos);

    // A start that already is the solution costs one evaluation.
    const auto again = solver->solve(theta, beta, solution.phi);
    EXPECT_EQ(again.status, Status::converged);
    EXPECT_EQ(again.iterations, 0);
    EXPECT_EQ(again.phi, solution.phi);
    EXPECT_EQ(again.cost.inner_gradients, 1);
    EXPECT_EQ(again.cost.hessian_products, 0);

    // A second run, on a used object, gives the same bits.
    const auto repeated = solver->solve(theta, beta, problem.initial_phi());
    EXPECT_EQ(repeated.phi, solution.phi);
    EXPECT_EQ(repeated.iterations, solution.iterations);
    EXPECT_EQ(repeated.message, solution.message);
  }
}

INSTANTIATE_TEST_SUITE_P(Quadratic, EverySolver,
                         testing::Combine(testing::ValuesIn(inner_solver_names().begin(),
                                                            inner_solver_names().end()),
                                          testing::Values(0.0, 0.5, -0.02)),
                         [](const auto& tested) {
                           std::string text(std::get<0>(tested.param));
                           std::replace(text.begin(), text.end(), '-', '_');
                           const double beta = std::get<1>(tested.param);
                           return text + (beta == 0 ? "_free" : beta > 0 ? "_nudged" : "_nudged_back");
                         });

/// Every solver on the bowl in V; the distance from φ_β.
template <Vector V>
void expect_bowl_solved(V shape, V theta, double tolerance, double accuracy) {
  std::vector<double> d;
  const std::vector<double> one(static_cast<std::size_t>(Space<V>::size(theta)), 1.0);
  Space<V>::from_host(one.data(), theta);
  auto problem = inner_tests::bowl<V>(shape, theta, 20, d);
  const std::vector<double> target(d.size(), 2.0);
  Space<V>::from_host(target.data(), problem.target);
  for (const std::string_view name : inner_solver_names()) {
    for (const double beta : {0.0, 0.5, -0.1}) {
      SCOPED_TRACE(fmt::format("{}, beta {}", name, beta));
      const MinimiserOptions options{.gradient_tolerance = tolerance, .max_iterations = 100000};
      auto solver = make_inner_solver<V>(name, problem, options);
      // Adam moves by about step·gradient here; with its default that is less than float resolves.
      if (name == "adam")
        solver = std::make_unique<Minimiser<V>>(problem, std::make_unique<Adam<V>>(AdamOptions{.step = 0.1}),
                                                options);
      const auto solution = solver->solve(theta, beta, shape);
      EXPECT_EQ(solution.status, Status::converged) << solution.message;
      std::vector<double> phi(d.size());
      Space<V>::to_host(solution.phi, phi.data());
      for (std::size_t i = 0; i < d.size(); ++i)
        EXPECT_NEAR(phi[i], (1 + beta * 2) / (d[i] + beta), accuracy);
    }
  }
}

TEST(EveryVector, FloatReachesItsOwnAccuracy) {
  expect_bowl_solved<Eigen::VectorXf>(Eigen::VectorXf::Zero(10), Eigen::VectorXf::Ones(1), 1e-5, 2e-5);
}

TEST(EveryVector, AVectorOutsideOfEigenReachesTheClosedForm) {
  expect_bowl_solved<conformance::BlockVector>(conformance::BlockVector(10), conformance::BlockVector(1),
                                               1e-10, 1e-9);
}

}  // namespace closed_form_test
}  // namespace bilevel
