#pragma once

#include <memory>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// An estimator that settles by phases of its own (unrolling, forward mode, springs) beside the inner solver
/// that it was given: what it differentiates need not be where that one settles. Once its certificate says
/// "trusted", the solver settles too, from the same start, and once to each side of θ along one random
/// direction v; it must end at the same state, and the outer loss change by ∇̂·v as far as the bound, the
/// residuals and the steps can tell. Otherwise the verdict is "doubtful". Where the estimator has seen no
/// curvature, a saddle is looked for as well. The problem and the solver must outlive it.
template <Vector V>
class CheckedBySolver final : public Estimator<V> {
 public:
  CheckedBySolver(Problem<V>& problem, InnerSolver<V>& solver, std::unique_ptr<Estimator<V>> estimator);

  std::string_view name() const override { return estimator_->name(); }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    solver_.set_tolerance(inner);
    estimator_->set_tolerances(inner, adjoint);
  }
  void set_outer_tolerance(double tolerance) override {
    outer_tolerance_ = tolerance;
    estimator_->set_outer_tolerance(tolerance);
  }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  void look_for_saddle(const V& theta, Estimate<V>& e);
  void compare(const V& theta, const Warm<V>& warm, Estimate<V>& e);

  CountedProblem<V> problem_;
  std::unique_ptr<Estimator<V>> estimator_;
  InnerSolver<V>& solver_;
  V scratch_;
  double outer_tolerance_ = 0;  // for verdicts that can only become worse
};

extern template class CheckedBySolver<Eigen::VectorXd>;
extern template class CheckedBySolver<Eigen::VectorXf>;

}  // namespace bilevel
