#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include <bilevel/adjoint/linear_run.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct NeumannOptions : AdjointOptions {
  /// α. 0: 1/L, with L ≥ ‖A‖ to be expected from `power_steps` steps of the power method. The series
  /// converges for a positive definite A where α < 2/λ_max.
  double step = 0;
  /// Exactly this many terms of the series, whatever the residual; 0: as many as the tolerance takes.
  long terms = 0;
  /// Each costs one product. The power method from a random start is short of ‖A‖ by a relative
  /// 0.871·ln(|x|)/(steps − 1) on average (Kuczyński and Woźniakowski 1992, theorem 3.1, for a
  /// positive definite A), and L is its answer made larger by that much.
  long power_steps = 20;
  /// Of the power method's start.
  std::uint64_t seed = 1;

  Violations validate() const {
    Violations v = AdjointOptions::validate("neumann");
    v.not_negative("step", step).at_least("terms", terms, 0).at_least("power_steps", power_steps, 2);
    return v;
  }
};

/// Recurrent backpropagation: x ← x + α(b − A·x). From x = 0 the k-th iterate is the Neumann series of
/// A⁻¹ cut after k terms, x_k = α·Σ_{i<k} (I − αA)^i·b, and its error (I − αA)^k·A⁻¹b falls by 1 − 1/κ a
/// step at α = 1/λ_max. With A = I − J, J the Jacobian of a network's fixed-point map, and α = 1 it is
/// the equation of Almeida and Pineda.
///
/// max_iterations = 0 means max(10·|x| + 100, 10 000) here, since κ and not |x| decides. A step that
/// was estimated is halved, up to four times, where the residual grows; one that was given is not.
template <Vector V>
class Neumann final : public AdjointWithOptions<V, NeumannOptions> {
 public:
  explicit Neumann(NeumannOptions options = {}) : AdjointWithOptions<V, NeumannOptions>(options) {}
  std::string_view name() const override { return "neumann"; }
  LinearSolution<V> solve(LinearOperator<V>& a, const V& b, const V* warm) override;

 private:
  struct Workspace {
    V x, r, next;
  };

  double estimated_step(LinearRun<V>& run, Workspace& w) const;
  void partial_sum(LinearRun<V>& run, Workspace& w, double step) const;
  double iterate(LinearRun<V>& run, Workspace& w, double step, bool symmetric) const;

  using AdjointWithOptions<V, NeumannOptions>::options_;
};

extern template class Neumann<Eigen::VectorXd>;
extern template class Neumann<Eigen::VectorXf>;

}  // namespace bilevel
