#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <bilevel/gradient/automatic_choice.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Hands out the free state that was found once at a θ, so that a second method need not find it again.
template <Vector V>
class RememberedSolver final : public InnerSolver<V> {
 public:
  explicit RememberedSolver(InnerSolver<V>& solver) : solver_(solver) {}

  std::string_view name() const override { return solver_.name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) override {
    if (beta != 0 || (free_ && !same(theta))) return solver_.solve(theta, beta, start);
    const bool again = free_.has_value();
    if (!again) {
      free_ = solver_.solve(theta, 0, start);
      theta_ = duplicate(theta);
      tolerance_ = free_->tolerance;
    }
    Solution<V> solution = *free_;
    solution.phi = duplicate(free_->phi);
    if (again) solution.cost = {};
    return solution;
  }
  InverseApproximation<V>* inverse_hessian() override { return solver_.inverse_hessian(); }
  /// Another tolerance, another state.
  void set_tolerance(double tolerance) override {
    if (tolerance == tolerance_) return;
    solver_.set_tolerance(tolerance);
    tolerance_ = tolerance;
    free_.reset();
  }
  void forget() { free_.reset(); }
  /// What the solver was last asked to reach; NaN where it does not say.
  double tolerance() const { return tolerance_; }

 private:
  bool same(const V& theta) const {
    V difference = duplicate(theta);
    Space<V>::axpy(-1, theta_, difference);
    return Space<V>::max_abs(difference) == 0;
  }

  InnerSolver<V>& solver_;
  std::optional<Solution<V>> free_;
  V theta_;
  double tolerance_ = unknown;
};

/// Chooses the method: by size, capabilities and memory at first, by what phase 2 reported after that. A
/// method whose phase 2 fails hands over to the next that copes with the reason; one whose gradient was
/// trusted stays the first choice of the next estimate. The message says what was chosen and why.
template <Vector V>
class Automatic final : public Estimator<V> {
 public:
  /// Makes the estimator, where a choice is more than an adjoint solver.
  using Factory = std::function<std::unique_ptr<Estimator<V>>(const EstimatorChoice&, InnerSolver<V>&)>;

  /// `loss` says whether the equilibrium is a Problem. The problem and the inner solver must outlive this.
  Automatic(Equilibrium<V>& problem, InnerSolver<V>& inner, bool loss, Factory make,
            AutomaticOptions options = {});

  std::string_view name() const override { return "auto"; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double adjoint) override {
    remembered_.set_tolerance(inner);
    options_.adjoint.relative_tolerance = adjoint;
  }
  void set_outer_tolerance(double tolerance) override {
    options_.common.outer_tolerance = options_.common.good_enough = tolerance;
    for (Method& m : methods_)
      if (m.estimator) m.estimator->set_outer_tolerance(tolerance);
  }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

 private:
  /// What serves a choice, made when first needed: an adjoint solver on the state that is there, or an
  /// estimator with phases of its own.
  struct Method {
    std::unique_ptr<AdjointSolver<V>> adjoint;
    std::unique_ptr<Estimator<V>> estimator;
  };
  /// A phase 2 that is not the last word.
  struct Attempt {
    LinearSolution<V> solution;
    V gradient;
    std::string method;
  };

  void look_around();
  void prepare(std::size_t i);
  double matched_tolerance(const V& theta, const V& phi);
  bool try_adjoint(std::size_t i, double tolerance, const V* warm, Attempt& attempt);
  void conclude(const V& theta, Attempt attempt, Estimate<V>& e);

  CountedEquilibrium<V> problem_;
  InnerSolver<V>& inner_;
  bool loss_;
  Factory make_;
  AutomaticOptions options_;
  RememberedSolver<V> remembered_;
  SettleAndCertify<V> settled_;
  Sensitivity<V> sensitivity_;
  std::vector<Choice> choices_;
  std::vector<Method> methods_;
  std::size_t preferred_ = 0;
  double smallest_ritz_ = unknown, largest_ritz_ = unknown;  // of all attempts at one state
};

extern template class Automatic<Eigen::VectorXd>;
extern template class Automatic<Eigen::VectorXf>;

}  // namespace bilevel
