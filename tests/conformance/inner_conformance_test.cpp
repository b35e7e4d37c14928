// Every inner solver on every ready-made problem: it reaches its tolerance and the known (or tightly
// computed) φ_β, or says with a status that it did not.

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>

namespace bilevel {
namespace inner_conformance_test {

using Vec = Eigen::VectorXd;

struct Case {
  std::string family;
  problems::Settings settings;
};

std::vector<Case> cases() {
  std::vector<Case> all{{"pitchfork", {}}, {"duopoly", {}}};
  for (const std::uint64_t seed : {1, 2}) {
    all.push_back({"quadratic", {.condition = 50, .seed = seed}});
    all.push_back({"log-cosh", {.condition = 50, .seed = seed}});
    for (const char* penalty : {"per-feature", "global"}) {
      all.push_back({"ridge", {.penalty = penalty, .seed = seed}});
      all.push_back({"logistic", {.penalty = penalty, .seed = seed}});
    }
  }
  return all;
}

TEST(InnerConformance, EverySolverSettlesEveryProblem) {
  for (const Case& c : cases()) {
    const auto problem = problems::make(c.family, c.settings);
    const Vec theta = problem->initial_theta();
    for (const double beta : {0.0, 0.1}) {
      const auto tight = make_inner_solver<Vec>("newton", *problem, {.gradient_tolerance = 1e-13});
      const Vec expected = beta == 0 && problem->settled(theta)
                               ? *problem->settled(theta)
                               : tight->solve(theta, beta, problem->initial_phi()).phi;
      for (const std::string_view name : inner_solver_names()) {
        SCOPED_TRACE(::testing::Message() << name << " on " << c.family << ", penalty '" << c.settings.penalty
                                          << "', seed " << c.settings.seed << ", beta " << beta);
        const auto solver =
            make_inner_solver<Vec>(name, *problem, {.gradient_tolerance = 1e-9, .max_iterations = 200000});
        const Solution<Vec> s = solver->solve(theta, beta, problem->initial_phi());
        EXPECT_EQ(s.status, Status::converged) << s.message;
        // What it says about itself is what one finds by looking.
        Vec inner_gradient = s.phi, outer_gradient = s.phi;
        problem->inner(s.phi, theta, {.phi = &inner_gradient});
        problem->outer(s.phi, theta, {.phi = &outer_gradient});
        const double residual = (inner_gradient + beta * outer_gradient).norm();
        EXPECT_LE(residual, 1e-9 * (1 + 1e-6));
        EXPECT_NEAR(s.residual_norm, residual, 1e-12);
        // The pitchfork has a saddle and a second minimum, where a first step of just the wrong length may
        // land.
        EXPECT_TRUE(c.family == "pitchfork" || (s.phi - expected).norm() <= 1e-6 * (1 + expected.norm()))
            << (s.phi - expected).norm();
        EXPECT_GT(s.cost.inner_gradients, 0);
        EXPECT_EQ(s.cost.outer_gradients > 0, beta != 0);
      }
    }
  }
}

}  // namespace inner_conformance_test
}  // namespace bilevel
