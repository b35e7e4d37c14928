// The automatic choice of β, other vector types, and the outer loop.

#include <cmath>

#include <gtest/gtest.h>

#include <conformance/block_vector.hpp>
#include <conformance/translated.hpp>

#include "settling.hpp"

namespace bilevel {
namespace {

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

}  // namespace
}  // namespace bilevel
