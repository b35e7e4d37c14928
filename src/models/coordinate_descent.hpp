#pragma once

#include <cmath>
#include <utility>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problems/lasso.hpp>

#include <bilevel/models/prepared.hpp>

namespace bilevel::models {

inline bilevel::Status status_of(const bilevel::problems::Lasso::Settled& settled,
                                 const bilevel::problems::Lasso& problem) {
  if (settled.converged) return bilevel::Status::converged;
  return bilevel::stop_wanted(problem.stop_token()).value_or(bilevel::Status::stalled);
}

/// Lasso's own way to settle, behind the interface of all.
class CoordinateDescent final : public bilevel::InnerSolver<Vec> {
 public:
  explicit CoordinateDescent(bilevel::problems::Lasso& problem) : problem_(problem) {}
  std::string_view name() const override { return "coordinate-descent"; }
  bilevel::Solution<Vec> solve(const Vec& theta, double beta, const Vec& start) override {
    if (beta != 0) throw InvalidInput("coordinate-descent: the lasso cannot be nudged");
    bilevel::problems::Lasso::Settled settled = problem_.settle(theta, start, tolerance_);
    bilevel::Solution<Vec> s;
    s.phi = std::move(settled.phi);
    s.value = settled.value;
    s.residual_norm = settled.kkt;
    s.tolerance = tolerance_;
    s.iterations = settled.sweeps;
    s.status = status_of(settled, problem_);
    s.message = std::move(settled.message);
    s.cost.inner_gradients = settled.passes;
    return s;
  }
  void set_tolerance(double tolerance) override { tolerance_ = tolerance; }

 private:
  bilevel::problems::Lasso& problem_;
  double tolerance_ = 1e-10;
};

/// |φ| scales with the target and φ² with its square, so λ₁ of the scaled target is smaller and λ₂ is not.
inline bilevel::problems::PenaltyMap of_scaled_target(bilevel::problems::PenaltyMap penalties,
                                                      const Prepared& p) {
  if (penalties.offset.size() == 0) penalties.offset = Vec::Zero(static_cast<Index>(p.names.size()));
  penalties.offset.array() -= std::log(p.target_scale);
  return penalties;
}

}  // namespace bilevel::models
