#pragma once

#include <functional>
#include <memory>

#include <bilevel/bilevel.hpp>
#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/gradient/exact.hpp>
#include <gradient/propagation_names.hpp>

namespace bilevel::nudged_tests {

using Vec = Eigen::VectorXd;

/// Something that settles where it is told and reports nothing else.
struct Settling final : InnerSolver<Vec> {
  using Where = std::function<Vec(const Vec& theta, double beta, const Vec& start)>;
  explicit Settling(Where where) : where_(std::move(where)) {}
  std::string_view name() const override { return "settling"; }
  Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    Solution<Vec> s;
    s.phi = where_(theta, beta, start);
    return s;
  }
  Where where_;
};

/// A problem that keeps its constants, its rounding errors and its second derivatives to itself.
class FirstOrder final : public Problem<Vec> {
 public:
  explicit FirstOrder(Problem<Vec>& problem) : problem_(problem) {}
  Vec initial_phi() const override { return problem_.initial_phi(); }
  Vec initial_theta() const override { return problem_.initial_theta(); }
  double inner(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return problem_.inner(phi, theta, wanted);
  }
  double outer(const Vec& phi, const Vec& theta, Wanted<Vec> wanted) override {
    return problem_.outer(phi, theta, wanted);
  }
  Capabilities capabilities() const override { return {.curvature = false}; }

 private:
  Problem<Vec>& problem_;
};

inline std::unique_ptr<InnerSolver<Vec>> solver(std::string_view name, Problem<Vec>& problem,
                                                double tolerance) {
  MinimiserOptions options;
  options.gradient_tolerance = tolerance;
  options.max_iterations = 200000;
  return make_inner_solver<Vec>(name, problem, options);
}

/// Equilibrium propagation by name, with β given (0 chooses).
inline EquilibriumPropagation<Vec> propagation(std::string_view name, Problem<Vec>& problem,
                                               InnerSolver<Vec>& inner, double beta) {
  return EquilibriumPropagation<Vec>(problem, inner, equilibrium_propagation_options(name, {.beta = beta}));
}

/// Dense reference at the tightest tolerance, with its own bound.
inline Estimate<Vec> reference(Problem<Vec>& problem, const Vec& theta) {
  const auto inner = solver("newton", problem, 1e-14);
  return Exact<Vec>(problem, *inner).estimate(theta, {});
}

}  // namespace bilevel::nudged_tests
