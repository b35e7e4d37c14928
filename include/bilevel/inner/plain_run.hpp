#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/inner/step.hpp>

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

template <Vector V>
PlainRun<V>::PlainRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options,
                      std::string_view who)
    : problem_(problem),
      step_(std::move(step)),
      options_(options),
      nudged_(problem),
      state_(problem.initial_phi()) {
  options_.validate(who).throw_if_any();
  if (!step_) throw InvalidInput(fmt::format("{}: the step is null", who));
  require_shapes<V>(problem, nullptr, nullptr, who);
  if (!step_->differentiable())
    throw InvalidInput(
        fmt::format("{}: the step {} searches or solves on its way and has no derivative: use "
                    "gradient-descent, heavy-ball, nesterov or adam, or an implicit estimator",
                    who, step_->name()));
  if (!problem.capabilities().curvature)
    throw InvalidInput(fmt::format(
        "{} needs Hessian and cross products, and this problem offers first derivatives only: use "
        "first-order, a method without second derivatives, or with_difference_products()",
        who));
}

template <Vector V>
void PlainRun<V>::set_tolerance(double tolerance) {
  RunOptions changed = options_;
  changed.tolerance = tolerance;
  changed.validate("run").throw_if_any();
  options_ = changed;
}

template <Vector V>
Solution<V> PlainRun<V>::solve(const V& theta, double beta, const V& start) {
  Stopwatch watch;
  require_shapes<V>(problem_, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("{}: beta = {} must be finite", name(), beta));
  nudged_.set(theta, beta);
  nudged_.cost() = {};
  state_.restart(start);
  forward_steps_ = 0;
  complete_ = false;
  step_->check(nudged_, state_);
  prepare();

  Stop stop = run();

  Solution<V> solution{.phi = duplicate(state_.phi), .message = std::move(stop.message), .cost = {}};
  solution.value = state_.value;
  solution.residual_norm = state_.gradient_norm;
  solution.tolerance = options_.tolerance;
  solution.iterations = state_.iteration;
  solution.status = stop.status;
  if (const std::string note = step_->note(); !note.empty()) solution.message += "; " + note;
  solution.cost = nudged_.cost();
  solution.cost.bytes = bytes();
  solution.cost.seconds_inner = watch.seconds();
  return solution;
}

template <Vector V>
Stop PlainRun<V>::run() {
  while (true) {
    if (auto stop = evaluate(nudged_, state_)) return *stop;
    const bool settled = state_.gradient_norm <= options_.tolerance;
    const bool last = options_.steps > 0 ? state_.iteration >= options_.steps
                                         : settled || state_.iteration >= options_.max_steps;
    if (last) {
      complete_ = true;
      return Stop{settled ? Status::converged : Status::iteration_limit,
                  fmt::format("{} steps; value {:.10g}, gradient norm {:.3g} (settled at {:.3g})",
                              state_.iteration, state_.value, state_.gradient_norm, options_.tolerance)};
    }
    if (auto stop = nudged_.asked_to_stop()) return *stop;
    if (state_.iteration == 0)
      if (auto stop = step_->begin(nudged_, state_)) return *stop;
    if (auto stop = before_step()) return *stop;
    if (auto stop = advance()) return *stop;
  }
}

template <Vector V>
std::optional<Stop> PlainRun<V>::advance() {
  if (auto stop = step_->advance(nudged_, state_)) return stop;
  ++state_.iteration;
  ++forward_steps_;
  return {};
}

extern template class PlainRun<Eigen::VectorXd>;
extern template class PlainRun<Eigen::VectorXf>;

}  // namespace bilevel
