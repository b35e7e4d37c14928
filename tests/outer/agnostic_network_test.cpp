// A network that nobody can differentiate learns XOR: all that reaches the optimiser is where the box came to
// rest.

#include <iostream>

#include <gtest/gtest.h>

#include <bilevel/gradient/agnostic.hpp>
#include <bilevel/outer/solve.hpp>
#include <conformance/hopfield_box.hpp>

namespace bilevel {
namespace agnostic_network_test {

using Vec = Eigen::VectorXd;

/// Is each output on the side of its target, and within a fifth of the distance between the two classes?
bool all_right(const Vec& phi, Index hidden) {
  for (int p = 0; p < 4; ++p)
    if (std::abs(phi[(p + 1) * (hidden + 1) - 1] - conformance::HopfieldBox::target(p)) > 0.2) return false;
  return true;
}

TEST(AgnosticNetwork, LearnsExclusiveOrByTheOuterLoop) {
  const Index hidden = 6;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    conformance::HopfieldBox box({.hidden = hidden, .seed = seed});
    Agnostic<Vec> estimator(box, {.beta = 1e-2});
    const Vec start = estimator.initial_theta();
    const Estimate<Vec> before = estimator.estimate(start, {});
    EXPECT_FALSE(all_right(before.phi, hidden));
    SolveOptions options;
    options.gradient_tolerance = 1e-4;
    options.max_iterations = 300;
    options.box = {.lower = -box.largest_control(), .upper = box.largest_control()};
    const auto optimizer = make_optimizer("lbfgs");
    const Summary s = solve<Vec>(estimator, *optimizer, start, options);
    std::cout << "seed " << seed << ": L_out " << before.outer_value << " to " << s.outer_value << " in "
              << s.iterations << " iterations, " << s.evaluations << " evaluations, " << name(s.status)
              << ": " << s.message << '\n';
    EXPECT_EQ(s.status, Status::converged) << s.message;
    EXPECT_LE(s.outer_value, 1e-6 * before.outer_value) << s.message;
    EXPECT_TRUE(all_right(s.phi, hidden)) << s.phi.transpose();
    // From a cold start it still knows.
    const Rest<Vec> cold = box.settle(s.theta, 0, box.initial_phi());
    EXPECT_TRUE(all_right(cold.phi, hidden)) << cold.phi.transpose();
  }
}

TEST(AgnosticNetwork, LearnsByPlainDescentOnTheKnobs) {
  const Index hidden = 6;
  for (std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    conformance::HopfieldBox box({.hidden = hidden, .seed = seed});
    const Vec largest = box.largest_control();
    // What a bench experiment would do: no certificate, three states of rest a step, a fixed step.
    AgnosticOptions options;
    options.certificate.enabled = false;
    Agnostic<Vec> estimator(box, options);
    Vec u = estimator.initial_theta();
    Estimate<Vec> e = estimator.estimate(u, {});
    const double before = e.outer_value;
    for (int step = 0; step < 3000 && !(e.outer_value < before / 100); ++step) {
      u -= 2 * e.gradient;
      u = u.cwiseMin(largest).cwiseMax(-largest);
      e = estimator.estimate(u, {.phi = e.phi, .pi = {}});
    }
    std::cout << "seed " << seed << ": L_out " << before << " to " << e.outer_value << '\n';
    EXPECT_LE(e.outer_value, before / 50);
    EXPECT_TRUE(all_right(e.phi, hidden)) << e.phi.transpose();
  }
}

}  // namespace agnostic_network_test
}  // namespace bilevel
