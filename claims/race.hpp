#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include <bilevel/problems/quadratic.hpp>

#include "laboratory.hpp"

namespace claims {

inline constexpr double budget = 100;   // of the second comparison, in gradient equivalents
inline constexpr long affordable = 44;  // iterations of phase 2 for that, at two equivalents each
inline constexpr double never = std::numeric_limits<double>::infinity();

/// One gradient: what phase 2 cost and how wrong it is, relative to the truth.
struct Gradient {
  double cost, error;
};

inline double least_cost(const std::vector<Gradient>& gradients, double error) {
  double least = never;
  for (const Gradient& g : gradients)
    if (g.error <= error) least = std::min(least, g.cost);
  return least;
}

inline double least_error(const std::vector<Gradient>& gradients, double most_cost) {
  double least = never;
  for (const Gradient& g : gradients)
    if (g.cost <= most_cost) least = std::min(least, g.error);
  return least;
}

/// The methods of Table 1, each with all its settings, on a quadratic problem whose phase 1 is done.
class Race {
 public:
  Race(const Laboratory& lab, double condition, std::uint64_t number)
      : lab_(lab),
        problem_(bilevel::problems::Quadratic::random(
            {.phi = 30, .theta = 5, .condition = condition, .seed = lab.seed(number)})),
        theta_(lab.vector(5, number + 1)),
        settled_(*problem_.settled(theta_)),
        truth_(*problem_.outer_gradient(theta_)) {
    outer_slope_.resize(30);
    problem_.outer(settled_, theta_, {.phi = &outer_slope_});
  }

  std::vector<Gradient> first_order() {
    std::vector<Gradient> gradients;
    for (const double tolerance : {1e-2, 1e-6, 1e-10}) {
      const auto inner = settler("lbfgs", problem_, tolerance);
      gradients.push_back(measured(*lab_.estimator("first-order", problem_, *inner, no_certificate())));
    }
    return gradients;
  }

  /// `step` is α of recurrent backpropagation times the smoothness; 0 for conjugate gradients.
  std::vector<Gradient> implicit(double step) {
    const auto done = settler("lbfgs", problem_, 1e-9);
    std::vector<Gradient> gradients;
    // The first run is cut to the budget, the others go on until the tolerance is met.
    for (double tolerance = 1; tolerance > 1e-7; tolerance /= 2) {
      const bool cut = tolerance == 1;
      std::unique_ptr<bilevel::AdjointSolver<Vec>> solver;
      if (step == 0) {
        bilevel::ConjugateGradientOptions options;
        options.relative_tolerance = cut ? 1e-10 : tolerance;
        options.max_iterations = cut ? affordable : 1000000;
        options.ritz_steps = 0;
        solver = std::make_unique<bilevel::ConjugateGradient<Vec>>(options);
      } else {
        bilevel::NeumannOptions options;
        options.relative_tolerance = cut ? 1e-10 : tolerance;
        options.max_iterations = cut ? affordable : 1000000;
        options.step = step / problem_.constants(theta_, settled_, 1).smoothness;
        solver = std::make_unique<bilevel::Neumann<Vec>>(options);
      }
      const auto estimator =
          lab_.implicit(problem_, *done, std::move(solver), {.certificate = {.enabled = false}});
      gradients.push_back(measured(*estimator));
      if (!cut && gradients.back().error < 1e-3) break;
    }
    return gradients;
  }

  std::vector<Gradient> propagation(std::string_view minimiser) {
    bilevel::MinimiserOptions options;
    options.max_iterations = affordable;
    const auto cut = bilevel::make_inner_solver<Vec>(minimiser, problem_, options);
    options.max_iterations = 1000000;
    const auto inner = bilevel::make_inner_solver<Vec>(minimiser, problem_, options);
    const double mu = problem_.constants(theta_, settled_, 1).mu;
    std::vector<Gradient> gradients;
    for (const double strength : {0.03, 0.01, 0.003, 0.001, 0.0003}) {
      auto settings = no_certificate();
      settings.beta = strength * mu;
      gradients.push_back(measured(*lab_.estimator("ep-forward-2", problem_, *cut, settings)));
      const auto estimator = lab_.estimator("ep-forward-2", problem_, *inner, settings);
      double before = never;
      int idle = 0;
      for (double tolerance = 0.5; tolerance > 1e-7; tolerance /= 4) {
        estimator->set_tolerances(tolerance * settings.beta * outer_slope_.norm(), 1);
        gradients.push_back(measured(*estimator));
        const double error = gradients.back().error;
        // Refining the phases does not help against the bias, and what is good enough need not be refined. A
        // single refinement may change little by chance.
        idle = error < 0.2 && error > 0.9 * before ? idle + 1 : 0;
        if (error < 1e-3 || idle == 2) break;
        before = error;
      }
    }
    return gradients;
  }

 private:
  static bilevel::EstimatorOptions no_certificate() {
    bilevel::EstimatorOptions options;
    options.certificate.enabled = false;
    return options;
  }

  Gradient measured(bilevel::Estimator<Vec>& estimator) {
    const auto e = estimator.estimate(theta_, {.phi = settled_});
    const double error = (e.gradient - truth_).norm() / truth_.norm();
    return {e.cost.gradient_equivalents(), std::isfinite(error) ? error : never};
  }

  const Laboratory& lab_;
  bilevel::problems::Quadratic problem_;
  Vec theta_, settled_, truth_, outer_slope_;
};

}  // namespace claims
