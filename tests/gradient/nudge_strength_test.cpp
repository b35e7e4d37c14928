// The automatic choice of β, other vector types, and the outer loop.

#include <bilevel/gradient/automatic.hpp>
#include <cmath>

#include <gtest/gtest.h>

#include <conformance/block_vector.hpp>
#include <conformance/translated.hpp>

#include <gradient/propagation_names.hpp>
#include "settling.hpp"

namespace bilevel {
namespace nudge_strength_test {

using namespace nudged_tests;
using conformance::BlockVector;
using conformance::Translated;

TEST(NudgeStrength, ChosenBetaIsNearTheBestOfAGrid) {
  double worst = 0;
  for (const char* family : {"quadratic", "log-cosh", "ridge", "logistic"})
    for (const char* name : {"ep-forward-2", "ep-forward-3", "ep-forward-4", "ep-forward-6", "ep-central"})
      for (const double tolerance : {1e-4, 1e-7, 1e-10})
        for (const char* method : {"gradient-descent", "lbfgs"})
          for (const bool hide : {false, true}) {
            const bool dense =
                std::string_view(family) == "quadratic" || std::string_view(family) == "log-cosh";
            const auto problem = problems::make(family, {.condition = dense ? 30.0 : 0.0, .seed = 4});
            const Vec theta = problem->initial_theta(), truth = reference(*problem, theta).gradient;
            FirstOrder first_order(*problem);
            Problem<Vec>& shown = hide ? static_cast<Problem<Vec>&>(first_order) : *problem;
            // With constants hidden only a line search knows its step.
            const auto inner =
                solver(hide && method[0] == 'g' ? "gradient-descent-backtracking" : method, shown, tolerance);
            const auto error = [&](double beta, double* used) {
              auto estimator = propagation(name, shown, *inner, beta);
              const auto e = estimator.estimate(theta, {});
              if (used) *used = estimator.used_beta();
              const double size = (e.gradient - truth).norm();
              return std::isfinite(size) ? size : everywhere;
            };
            // The errors of phases are deterministic and may cancel at one β by chance: the median of three
            // neighbours is what can be reached.
            std::vector<double> errors;
            for (double beta = 1e-7; beta < 2; beta *= std::sqrt(10.0))
              errors.push_back(error(beta, nullptr));
            double best = everywhere;
            for (std::size_t i = 1; i + 1 < errors.size(); ++i)
              best = std::min(best, std::max(std::min(errors[i - 1], errors[i]),
                                             std::min(std::max(errors[i - 1], errors[i]), errors[i + 1])));
            double used = 0;
            const double chosen = error(0, &used);
            worst = std::max(worst, chosen / best);
            if (chosen > 10 * best)
              std::printf("%s %s %.0e %s%s: best %.3g chosen %.3g (x %.1f) beta %.3g\n", family, name,
                          tolerance, method, hide ? " hidden" : "", best, chosen, chosen / best, used);
            EXPECT_LE(chosen, 10 * best + 1e-13 * truth.norm())
                << family << " " << name << " " << tolerance << " " << method << (hide ? " hidden" : "")
                << ": beta " << used;
          }
  std::printf("chosen error / best error: at most %.1f\n", worst);
}

TEST(NudgeStrength, OuterLoopLearnsAndPaysForPilotsRarely) {
  for (const char* name : {"ep-forward-2", "ep-forward-3", "ep-forward-5", "ep-central", "ep-random-sign"}) {
    for (const bool hide : {false, true}) {
      SCOPED_TRACE(::testing::Message() << name << (hide ? ", hidden" : ""));
      const auto quadratic = problems::make("quadratic", {.phi = 8, .theta = 3, .condition = 10, .seed = 9});
      FirstOrder hidden(*quadratic);
      Problem<Vec>& shown = hide ? static_cast<Problem<Vec>&>(hidden) : *quadratic;
      const auto inner = solver("lbfgs", shown, 1e-10);
      auto estimator = propagation(name, shown, *inner, 0);
      const auto optimizer = make_optimizer("lbfgs");
      SolveOptions options;
      options.gradient_tolerance =
          estimator.name() == "ep-forward-2" || estimator.name() == "ep-random-sign" ? 1e-4 : 1e-6;
      const Summary s = solve<Vec>(estimator, *optimizer, quadratic->initial_theta(), options);
      EXPECT_EQ(s.status, Status::converged) << s.message;
      EXPECT_LE((*quadratic->outer_gradient(s.theta)).norm(), 2 * options.gradient_tolerance);
      EXPECT_LE(estimator.pilots(), 1 + s.evaluations / 5);
      std::printf("%s%s on quadratic: %ld evaluations, %ld pilots, %s\n", name, hide ? " hidden" : "",
                  s.evaluations, estimator.pilots(), s.message.c_str());

      const auto logistic = problems::make("logistic", {.seed = 3});
      FirstOrder hidden_logistic(*logistic);
      Problem<Vec>& shown_logistic = hide ? static_cast<Problem<Vec>&>(hidden_logistic) : *logistic;
      const auto inner_logistic = solver("lbfgs", shown_logistic, 1e-10);
      auto on_logistic = propagation(name, shown_logistic, *inner_logistic, 0);
      const Index size = logistic->initial_theta().size();
      options.box = {.lower = Vec::Constant(size, -6), .upper = Vec::Constant(size, 4)};
      const Summary l = solve<Vec>(on_logistic, *optimizer, logistic->initial_theta(), options);
      EXPECT_EQ(l.status, Status::converged) << l.message;
      EXPECT_LE(options.box.projected_gradient_norm(l.theta, reference(*logistic, l.theta).gradient),
                2 * options.gradient_tolerance);
      std::printf("%s%s on logistic: %ld evaluations, %ld pilots, %s\n", name, hide ? " hidden" : "",
                  l.evaluations, on_logistic.pilots(), l.message.c_str());
    }
  }
}

template <class V>
class NudgedVectors : public ::testing::Test {};
using OtherTypes = ::testing::Types<BlockVector, Eigen::VectorXf>;
TYPED_TEST_SUITE(NudgedVectors, OtherTypes);

TYPED_TEST(NudgedVectors, EquilibriumPropagationGivesTheSameGradient) {
  using V = TypeParam;
  const bool single = sizeof(typename Space<V>::Scalar) == 4;
  for (const char* family : {"quadratic", "log-cosh"}) {
    const auto original = problems::make(family, {.phi = 8, .theta = 4, .condition = 10, .seed = 5});
    const Vec theta = original->initial_theta(), expected = reference(*original, theta).gradient;
    Translated<V> problem(*original);
    MinimiserOptions tight;
    tight.gradient_tolerance = single ? 3e-6 : 1e-12;
    for (const std::string& name : equilibrium_propagation_names()) {
      const auto inner = make_inner_solver<V>("newton", problem, tight);
      EquilibriumPropagation<V> estimator(problem, *inner, equilibrium_propagation_options(name));
      const Estimate<V> e = estimator.estimate(Translated<V>::translate(theta, problem.initial_theta()), {});
      const double error = (Translated<V>::host(e.gradient) - expected).norm();
      EXPECT_LE(error, (single ? 2e-2 : 1e-6) * expected.norm()) << family << " " << name << e.message;
      EXPECT_EQ(e.certificate.kind, Kind::estimated)
          << e.certificate.reason;  // rounding errors are not known
      EXPECT_LE(error, e.certificate.bound) << family << " " << name << e.message;
      std::printf("%s %s: relative error %.1e, bound %.1e\n", family, name.c_str(), error / expected.norm(),
                  e.certificate.bound / expected.norm());
    }
  }
}

TEST(NudgeStrength, RandomSignsAreReproducibleAndCancelTheBias) {
  const auto problem = problems::make("quadratic", {.phi = 5, .theta = 2, .condition = 5, .seed = 6});
  const Vec theta = problem->initial_theta(), truth = *problem->outer_gradient(theta);
  const auto newton = solver("newton", *problem, 1e-13);
  auto first = propagation("ep-random-sign", *problem, *newton, 1e-3),
       second = propagation("ep-random-sign", *problem, *newton, 1e-3);
  Vec up = Vec::Zero(2), down = Vec::Zero(2);
  int ups = 0, downs = 0;
  for (int k = 0; k < 40; ++k) {
    const Vec gradient = first.estimate(theta, {}).gradient;
    EXPECT_EQ(gradient, second.estimate(theta, {}).gradient);
    (first.used_beta() > 0 ? up : down) = gradient;
    ++(first.used_beta() > 0 ? ups : downs);
  }
  EXPECT_GT(ups, 8);
  EXPECT_GT(downs, 8);
  EXPECT_LE((0.5 * (up + down) - truth).norm(), 0.01 * (up - truth).norm());
}

}  // namespace nudge_strength_test
}  // namespace bilevel
