#pragma once

#include <cstdint>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct StochasticOptions : AdjointOptions {
  /// α, ≥ 0. 0: 1/(2L) with L the most that a drawn part of A stretched a vector in `power_steps` products. A
  /// constant step converges in the mean for α < 2/L, and averages of its iterates do to the solution
  /// itself, by 1/√steps (Bach and Moulines 2013).
  double step = 0;
  /// What an outer loop asks for is not taken below this: averages gain a digit by a hundred times the steps.
  double least_asked = 1e-2;
  /// Of the power method, a new draw each; ≥ 2.
  long power_steps = 20;
  /// Of its start; the draws are the operator's.
  std::uint64_t seed = 1;
  /// Steps before the residual is looked at with all of A, at the cost of two whole products; later looks
  /// come after twice as many each time. ≥ 1.
  long first_look = 64;

  Violations validate() const {
    Violations v = AdjointOptions::validate("sgd");
    v.not_negative("step", step).not_negative("least_asked", least_asked);
    v.at_least("power_steps", power_steps, 2);
    v.at_least("first_look", first_look, 1);
    return v;
  }
};

/// Stochastic gradient descent on ½xᵀAx − bᵀx, where A is a mean over rows of data too many for a product
/// with all of them at every step (paper, "practical considerations"): x ← x + α(b − A_k·x), A_k the mean
/// over rows that LinearOperator::drawn_apply draws anew. Offered are the mean of the iterates since the last
/// look and the last of them, whichever leaves the smaller residual with all of A, so that `residual_norm` is
/// as true as any other solver's. Two to three digits are what to ask of it; max_iterations = 0 means 10,000.
/// An estimated step is halved, up to ten times, where the iterates run away.
template <Vector V>
class Stochastic final : public AdjointWithOptions<V, StochasticOptions> {
 public:
  explicit Stochastic(StochasticOptions options = {}) : AdjointWithOptions<V, StochasticOptions>(options) {}
  std::string_view name() const override { return "sgd"; }
  void set_tolerance(double relative) override {
    AdjointWithOptions<V, StochasticOptions>::set_tolerance(std::max(relative, options_.least_asked));
  }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  struct Workspace {
    V x, mean, product;
    long averaged = 0;
  };

  void drawn(LinearOperator<V>& a, const V& x, V& out) const;
  double estimated_step(LinearOperator<V>& a, LinearRun<V>& run, Workspace& w) const;
  bool look(LinearRun<V>& run, Workspace& w) const;

  using AdjointWithOptions<V, StochasticOptions>::options_;
};

extern template class Stochastic<Eigen::VectorXd>;
extern template class Stochastic<Eigen::VectorXf>;

}  // namespace bilevel
