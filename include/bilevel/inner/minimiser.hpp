#pragma once

#include <limits>
#include <memory>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/inner/step.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// When a loop of phase 1 ends, whichever step it loops over.
struct MinimiserOptions {
  /// Converged when ‖∂φ(L_in + β·L_out)‖₂ ≤ gradient_tolerance; ≥ 0, absolute, because the error of
  /// φ̂ is at most this divided by μ whatever the scale of the start. 1e-10 leaves eight digits of the
  /// outer gradient at a condition number of 100. 0 runs to the iteration limit.
  double gradient_tolerance = 1e-10;
  /// Stop when |L_k − L_{k+1}| ≤ relative_decrease·max(|L_k|, |L_{k+1}|); in [0, 1). 0, the default, is
  /// off: a loss that stands still says nothing about the gradient, and steps with momentum stand
  /// still for an instant wherever they turn round.
  double relative_decrease = 0;
  /// ≥ 0; 0 only evaluates the start. High enough for gradient descent at a condition number of 400
  /// (which needs about 23·κ iterations for ten digits); the faster methods never come near it.
  long max_iterations = 10000;
  /// Seconds by the wall clock, looked at between iterations; ≥ 0, and 0, the default, is no limit:
  /// a result that depends on the load of the machine has to be asked for.
  double max_seconds = 0;
  /// Diverged when ‖φ‖₂ > divergence·max(1, ‖start‖₂); > 1. The default lies far beyond any sensible
  /// scaling of φ and far within the range of float.
  double divergence = 1e10;

  bool operator==(const MinimiserOptions&) const = default;
  Violations validate() const {
    Violations v("minimiser");
    v.not_negative("gradient_tolerance", gradient_tolerance);
    v.require(relative_decrease >= 0 && relative_decrease < 1, "relative_decrease", relative_decrease,
              "must lie in [0, 1)");
    v.at_least("max_iterations", max_iterations, 0);
    v.not_negative("max_seconds", max_seconds);
    v.require(divergence > 1 && std::isfinite(divergence), "divergence", divergence,
              "must be greater than 1 and finite");
    return v;
  }
};

/// Phase 1 as a loop over a Step: minimises L_in + β·L_out over φ to a stationary point. What it calls
/// converged is a small gradient; that the point is a minimum is for a certificate to say.
template <Vector V>
class Minimiser final : public InnerSolver<V> {
 public:
  /// The problem must outlive the minimiser.
  Minimiser(Problem<V>& problem, std::unique_ptr<Step<V>> step, MinimiserOptions options = {});

  std::string_view name() const override { return step_->name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) override;
  void set_tolerance(double tolerance) override;
  InverseApproximation<V>* inverse_hessian() override { return step_->inverse_hessian(); }
  const MinimiserOptions& options() const { return options_; }

 private:
  // Iterations without any change, and without a new low of value or gradient norm, before a run counts
  // as stalled. The norm of an ill-conditioned loss falls by fits and starts, and momentum may need a
  // period of its oscillation, about 2π√κ, from one low to the next.
  static constexpr long patience = 20, search_patience = 500, plain_patience = 5000;

  Stop run();
  std::optional<Stop> test();
  void remember_best();
  std::string progress() const;

  Problem<V>& problem_;
  std::unique_ptr<Step<V>> step_;
  MinimiserOptions options_;
  Nudged<V> nudged_;
  State<V> state_;
  V best_;  // lowest value so far; only steps that do not search need it
  double best_value_ = unknown, best_norm_ = unknown;
  double previous_value_ = unknown, previous_norm_ = unknown;
  double lowest_value_ = unknown, lowest_norm_ = unknown;
  double scale_weight_ = 0;
  long idle_ = 0;     // iterations since the value or the gradient norm last fell to a new low
  long unmoved_ = 0;  // iterations since either last changed
  Stopwatch watch_;
};

extern template class Minimiser<Eigen::VectorXd>;
extern template class Minimiser<Eigen::VectorXf>;

}  // namespace bilevel
