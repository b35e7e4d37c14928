#pragma once

#include <bilevel/inner/plain_run.hpp>

namespace bilevel {

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

}  // namespace bilevel
