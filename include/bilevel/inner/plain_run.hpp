#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/inner/step.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// How many steps a run that is to be differentiated takes.
struct RunOptions {
  /// T; in [0, 10⁹]. 0, the default, runs until ‖∂φ L_in‖ ≤ tolerance: the derivative is then that of a
  /// settled state as nearly as of a run. Given, exactly as many are taken whatever the gradient.
  long steps = 0;
  /// Most steps where `steps` is 0; in [1, 10⁹]. As MinimiserOptions::max_iterations.
  long max_steps = 10000;
  /// ‖∂φ L_in‖₂ that counts as settled; ≥ 0. As MinimiserOptions::gradient_tolerance.
  double tolerance = 1e-10;

  Violations validate(std::string_view owner) const {
    constexpr long most = 1000000000;
    Violations v(owner);
    v.require(steps >= 0 && steps <= most, "steps", steps, "must lie in [0, 1e9]");
    v.require(max_steps >= 1 && max_steps <= most, "max_steps", max_steps, "must lie in [1, 1e9]");
    v.not_negative("tolerance", tolerance);
    return v;
  }
};

/// Phase 1 as a bare loop over a differentiable step: no best iterate, no patience, so that φ_T is a smooth
/// function of θ. What has to be known of the way is collected by the classes that derive from it.
template <Vector V>
class PlainRun : public InnerSolver<V> {
 public:
  std::string_view name() const override { return step_->name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) final;
  void set_tolerance(double tolerance) final;

  /// Whether the last run came to its end, so that it can be differentiated.
  bool complete() const { return complete_; }
  /// Of all steps taken since `solve` began.
  long forward_steps() const { return forward_steps_; }
  /// Counts calls of the oracles since it was last reset; `solve` resets it and hands out what it counted.
  Cost& cost() { return nudged_.cost(); }
  /// Peak of the last run and what followed it.
  virtual std::size_t bytes() const {
    return bytes_of(state_.phi) * (2 + state_.memory.size()) + nudged_.bytes() + step_->bytes();
  }

 protected:
  /// Throws InvalidInput where the step or the problem cannot be differentiated.
  PlainRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options, std::string_view who);

  /// Before anything of a run is computed.
  virtual void prepare() = 0;
  /// The state is φ_k with its memory, evaluated, and about to be advanced.
  virtual std::optional<Stop> before_step() = 0;

  std::optional<Stop> advance();

  Problem<V>& problem_;
  std::unique_ptr<Step<V>> step_;
  RunOptions options_;
  Nudged<V> nudged_;
  State<V> state_;

 private:
  Stop run();

  bool complete_ = false;
  long forward_steps_ = 0;
};

extern template class PlainRun<Eigen::VectorXd>;
extern template class PlainRun<Eigen::VectorXf>;

}  // namespace bilevel
