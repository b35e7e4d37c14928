// Trust as an option, element by element, in any unit of the outer loss; and what is right and has to be
// known.
#include <gtest/gtest.h>

#include <bilevel/bilevel.hpp>
#include <bilevel/problems/quadratic.hpp>
#include <bilevel/space/decompositions.hpp>
#include <conformance/recurrent_net.hpp>

namespace bilevel {
namespace trust_share_test {

using Vec = Eigen::VectorXd;
using Mat = Eigen::MatrixXd;

TEST(TrustShare, TheVerdictFollowsTheShareThatIsAskedFor) {
  Certificate c;
  c.kind = Kind::estimated;
  c.bound = 0.05;
  c.judge(1, 0, true);
  EXPECT_EQ(c.verdict, Verdict::trusted);
  c.trust = 0.01;
  c.judge(1, 0, true);
  EXPECT_EQ(c.verdict, Verdict::doubtful);
  c.bound = 0.01;
  c.judge(1, 0, true);
  EXPECT_EQ(c.verdict, Verdict::trusted);
  c.doubt = "a constraint";
  c.judge(1, 0, true);
  EXPECT_EQ(c.verdict, Verdict::doubtful);
  c.bound = 2;
  c.judge(1, 0, true);
  EXPECT_EQ(c.verdict, Verdict::untrusted);
}

TEST(TrustShare, ElementsThatAreSmallBesideTheBoundAreNotKnown) {
  Certificate c;
  c.kind = Kind::rigorous;
  c.bound = 0.01;
  const Vec gradient = (Vec(4) << 3, 0.1, 0.05, -0.2).finished();
  c.judge(gradient.norm(), 0, true);
  EXPECT_EQ(trusted_elements(c, gradient), (std::vector<bool>{true, true, false, true}));
  c.trust = 0.05;
  c.judge(gradient.norm(), 0, true);
  EXPECT_EQ(trusted_elements(c, gradient), (std::vector<bool>{true, false, false, true}));
  c.judge(gradient.norm(), 0, false);  // doubtful
  EXPECT_EQ(trusted_elements(c, gradient), (std::vector<bool>{false, false, false, false}));
}

TEST(TrustShare, AnEstimatorIsToldByItsOptions) {
  const auto problem = problems::make("log-cosh", {.seed = 2});
  const auto inner = make_inner_solver<Vec>("newton", *problem, {.gradient_tolerance = 1e-4});
  const Vec theta = problem->initial_theta();
  const auto verdict = [&](double trust) {
    return make_estimator<Vec>("implicit-direct", *problem, *inner, {.certificate = {.trust = trust}})
        ->estimate(theta, {})
        .certificate;
  };
  const Certificate loose = verdict(0.1), tight = verdict(1e-14);
  EXPECT_EQ(loose.verdict, Verdict::trusted) << loose.bound;
  EXPECT_EQ(loose.trust, 0.1);
  EXPECT_EQ(tight.trust, 1e-14);
  // outer_tolerance counts as zero beside it.
  EXPECT_TRUE(tight.verdict != Verdict::trusted || tight.bound <= 1e-6);
  EXPECT_THROW(verdict(0), InvalidInput);
  EXPECT_THROW(verdict(1.5), InvalidInput);
}

/// Of a choice with its options as of a name.
TEST(TrustShare, EveryEstimatorIsToldByItsOptions) {
  std::vector<std::string> names = estimator_names();
  names.insert(names.end(), unlisted_estimator_names().begin(), unlisted_estimator_names().end());
  int asked = 0;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto problem = problems::make("log-cosh", {.phi = 4, .theta = 2, .condition = 3, .seed = 2});
    const Vec theta = problem->initial_theta();
    const auto inner = make_inner_solver<Vec>("newton", *problem, {.gradient_tolerance = 1e-8});
    const auto by = [&](double trust, bool named) -> std::optional<Certificate> {
      const EstimatorOptions told{
          .certificate = {.trust = trust}, .outer_tolerance = 1e-12, .max_steps = 2000};
      try {
        return (named ? make_estimator<Vec>(name, *problem, *inner, told)
                      : make_estimator<Vec>(with_options(estimator_named(name), told), *problem, *inner))
            ->estimate(theta, {})
            .certificate;
      } catch (const InvalidInput&) {
        return {};
      }
    };
    for (const double trust : {0.5, 1e-3, 1e-13}) {
      const auto named = by(trust, true), object = by(trust, false);
      ASSERT_EQ(named.has_value(), object.has_value());
      if (!named) continue;
      ++asked;
      EXPECT_EQ(named->trust, trust);
      EXPECT_EQ(object->trust, trust);
      EXPECT_EQ(bilevel::name(named->verdict), bilevel::name(object->verdict));
      EXPECT_EQ(named->bound, object->bound);
      EXPECT_TRUE(object->verdict != Verdict::trusted || trust > 1e-13 || object->bound <= 1e-12)
          << object->bound;
    }
    EXPECT_THROW(make_estimator<Vec>(name, *problem, *inner, {.certificate = {.trust = 1.5}}), InvalidInput);
    EXPECT_THROW(make_estimator<Vec>(with_options(estimator_named(name), {.certificate = {.trust = 1.5}}),
                                     *problem, *inner),
                 InvalidInput);
  }
  EXPECT_GE(asked, 60);
}

/// The recurrent net's rest and gradient by brute force.
Vec true_gradient(conformance::RecurrentNet& net, const Vec& theta, const Vec& phi) {
  std::unique_ptr<Curvature<Vec>> c;
  net.linearise(phi, theta, 0, c);
  const Mat j = dense_matrix(*c, phi), chi = dense_cross(*c, phi, theta);
  Vec g = phi, t = theta;
  net.outer(phi, theta, {.phi = &g, .theta = &t});
  return t - chi.transpose() * j.transpose().partialPivLu().solve(g);
}

TEST(KnownSingularValue, OfEquilibriaBeyondTwoHundredVariables) {
  // With a factor, and as where there are too many variables for one.
  for (const Index factor_limit : {1000, 200}) {
    constexpr Index units = 250;
    auto net = conformance::random_net(5, units, 3);
    auto& settling = static_cast<Equilibrium<Vec>&>(net);
    const auto inner = make_inner_solver<Vec>("newton-krylov", settling, {.gradient_tolerance = 1e-12});
    for (const char* method : {"implicit-gmres", "implicit-direct"}) {
      SCOPED_TRACE(testing::Message() << "factors up to " << factor_limit << ", " << method);
      const auto e =
          make_estimator<Vec>(method, settling, *inner, {.certificate = {.factor_limit = factor_limit}})
              ->estimate(net.initial_theta(), {});
      EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason << "; " << e.message;
      EXPECT_EQ(e.certificate.kind, Kind::estimated);
      const Vec truth = true_gradient(net, net.initial_theta(), e.phi);
      EXPECT_LE((e.gradient - truth).norm(), e.certificate.bound);
      EXPECT_LE((e.gradient - truth).norm(), 1e-8 * truth.norm());
      std::unique_ptr<Curvature<Vec>> c;
      net.linearise(e.phi, net.initial_theta(), 0, c);
      const Mat jacobian = dense_matrix(*c, e.phi);
      const double smallest = std::sqrt(symmetric_eigenvalues(jacobian.transpose() * jacobian)[0]);
      EXPECT_NEAR(e.certificate.mu, smallest, 0.05 * smallest) << e.certificate.mu_source;
    }
  }
}

/// Products and nothing else, ill-conditioned: what Lanczos does not see the factor of phase 2 does.
TEST(KnownSingularValue, OfIllConditionedProblemsThatOfferProductsOnly) {
  for (const double condition : {1e4, 1e6})
    for (const Index factor_limit : {1000, 200}) {
      constexpr Index size = 300;
      auto quadratic =
          problems::Quadratic::random({.phi = size, .theta = 4, .condition = condition, .seed = 7});
      Functions<Vec> f;
      f.initial_phi = [&] { return quadratic.initial_phi(); };
      f.initial_theta = [&] { return quadratic.initial_theta(); };
      f.inner = [&](const Vec& p, const Vec& t, Wanted<Vec> w) { return quadratic.inner(p, t, w); };
      f.outer = [&](const Vec& p, const Vec& t, Wanted<Vec> w) { return quadratic.outer(p, t, w); };
      std::unique_ptr<Curvature<Vec>> c;
      const auto at = [&](const Vec& p, const Vec& t, double beta) -> Curvature<Vec>& {
        quadratic.linearise(p, t, beta, c);
        return *c;
      };
      f.hessian_times = [&](const Vec& p, const Vec& t, double b, const Vec& v, Vec& out) {
        at(p, t, b).times(v, out);
      };
      f.cross_times = [&](const Vec& p, const Vec& t, double b, const Vec& v, Vec& out) {
        at(p, t, b).cross_times(v, out);
      };
      f.cross_apply = [&](const Vec& p, const Vec& t, double b, const Vec& v, Vec& out) {
        at(p, t, b).cross_apply(v, out);
      };
      auto problem = make_problem(f);
      const auto inner = make_inner_solver<Vec>("newton", problem, {.gradient_tolerance = 1e-11});
      const Vec truth = *quadratic.outer_gradient(quadratic.initial_theta());
      for (const char* method : {"implicit-direct", "implicit-cg"}) {
        // Nobody has a factor, or phase 2 itself does not converge.
        if (std::string_view(method) == "implicit-cg" && (factor_limit < size || condition > 1e4)) continue;
        SCOPED_TRACE(testing::Message()
                     << "condition " << condition << ", factors up to " << factor_limit << ", " << method);
        const auto e =
            make_estimator<Vec>(method, problem, *inner, {.certificate = {.factor_limit = factor_limit}})
                ->estimate(problem.initial_theta(), {});
        EXPECT_EQ(e.certificate.verdict, Verdict::trusted) << e.certificate.reason << "; " << e.message;
        EXPECT_LE((e.gradient - truth).norm(), e.certificate.bound);
      }
    }
}

}  // namespace trust_share_test
}  // namespace bilevel
