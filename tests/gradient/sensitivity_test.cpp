// dφ*/dθ from both sides, of minimisers and of equilibria that minimise nothing.

#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <conformance/recurrent_net.hpp>

namespace bilevel {
namespace sensitivity_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

TEST(Sensitivity, AllThreeFormsEqualTheClosedFormOfTheQuadratic) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    auto problem = problems::Quadratic::random({.phi = 9, .theta = 4, .condition = 50, .seed = seed});
    Vec theta(4), w(9), u(4), back(4);
    Space<Vec>::random(seed, theta);
    Space<Vec>::random(seed + 10, w);
    Space<Vec>::random(seed + 20, u);
    const Mat truth = problem.hessian().llt().solve(problem.coupling());  // −H⁻¹χ with χ = −J
    Sensitivity<Vec> sensitivity(problem);
    sensitivity.move_to(*problem.settled(theta), theta);
    for (const char* name : {"direct", "cg", "minres", "gmres", "bicgstab"}) {
      const auto solver = make_adjoint_solver<Vec>(name, {.relative_tolerance = 1e-13});
      ASSERT_TRUE(succeeded(sensitivity.pullback(w, *solver, back).status)) << name;
      EXPECT_LE((back - truth.transpose() * w).norm(), 1e-10 * truth.norm() * w.norm())
          << name << ", seed " << seed;
      const auto forward = sensitivity.pushforward(u, *solver);
      EXPECT_LE((forward.x - truth * u).norm(), 1e-10 * truth.norm() * u.norm()) << name << ", seed " << seed;
    }
    const auto jacobian = sensitivity.jacobian();
    ASSERT_TRUE(jacobian);
    EXPECT_LE((*jacobian - truth).norm(), 1e-10 * truth.norm());
  }
}

TEST(Sensitivity, IsEmptyWhereTheJacobianIsSingular) {
  const auto problem = problems::make("pitchfork");
  Sensitivity<Vec> sensitivity(*problem);
  EXPECT_THROW(sensitivity.curvature(), InvalidInput) << "before move_to";
  sensitivity.move_to(Vec::Zero(1), Vec::Zero(1));
  EXPECT_FALSE(sensitivity.jacobian());
}

/// The settled state to the last digits.
Vec settle(conformance::RecurrentNet& net, const Vec& theta) {
  MinimiserOptions options;
  options.gradient_tolerance = 1e-14;
  return make_inner_solver<Vec>("anderson", static_cast<Equilibrium<Vec>&>(net), options)
      ->solve(theta, 0, net.initial_phi())
      .phi;
}

// Biases and input of a net with a non-symmetric Jacobian, against differences of the whole solve.
TEST(ImplicitLayer, GradientsByParametersAndInputsEqualDifferencesOfTheWholeSolve) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    auto net = conformance::random_net(seed);
    EXPECT_TRUE(check_derivatives<Vec>(net, net.initial_phi(), net.initial_theta(), {}).passed());
    const Vec theta = net.initial_theta();
    Vec truth(theta.size());
    const double h = 1e-3;
    for (Index i = 0; i < theta.size(); ++i) {
      const auto value = [&](double steps) {
        Vec moved = theta;
        moved[i] += steps * h;
        return net.outer(settle(net, moved), moved, {});
      };
      truth[i] = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / (12 * h);
    }
    MinimiserOptions options;
    options.gradient_tolerance = 1e-13;
    const auto inner = make_inner_solver<Vec>("anderson", static_cast<Equilibrium<Vec>&>(net), options);
    for (const char* method :
         {"exact", "implicit-direct", "implicit-gmres", "implicit-bicgstab", "implicit-neumann"}) {
      SCOPED_TRACE(::testing::Message() << method << ", seed " << seed);
      const auto e = make_estimator<Vec>(method, net, *inner, {.adjoint = {.relative_tolerance = 1e-12}})
                         ->estimate(theta, {});
      EXPECT_EQ(e.status, Status::converged) << e.message;
      EXPECT_LE((e.gradient - truth).norm(), 1e-9 * truth.norm()) << e.message;
      EXPECT_EQ(e.certificate.kind, Kind::estimated) << e.certificate.reason;
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted);
    }
    for (const char* method : {"implicit-cg", "implicit-minres"})
      EXPECT_THROW(make_estimator<Vec>(method, net, *inner)->estimate(theta, {}), InvalidInput) << method;
  }
}

TEST(ImplicitLayer, LearnsABiasThatReachesTheTarget) {
  auto net = conformance::random_net(4);
  const auto inner = make_inner_solver<Vec>("anderson", static_cast<Equilibrium<Vec>&>(net));
  const auto estimator = make_estimator<Vec>("implicit-gmres", net, *inner);
  const auto optimizer = make_optimizer("lbfgs");
  const Summary s = solve<Vec>(*estimator, *optimizer, net.initial_theta(), {});
  EXPECT_EQ(s.status, Status::converged) << s.message;
  EXPECT_LT(s.outer_value, 0.1 * s.history.front().outer_value);
}

}  // namespace sensitivity_test
}  // namespace bilevel
