#pragma once

#include <bilevel/inner/minimiser.hpp>

namespace bilevel {

template <Vector V>
Minimiser<V>::Minimiser(Problem<V>& problem, std::unique_ptr<Step<V>> step, MinimiserOptions options)
    : problem_(problem),
      step_(std::move(step)),
      options_(options),
      nudged_(problem),
      state_(duplicate(problem.initial_phi())),
      best_(Space<V>::zeros_like(state_.phi)) {
  if (!step_) throw InvalidInput("minimiser: the step is null");
  options_.validate().throw_if_any();
  require_unconstrained<V>(problem, step_->name());
}

template <Vector V>
void Minimiser<V>::set_tolerance(double tolerance) {
  MinimiserOptions changed = options_;
  changed.gradient_tolerance = tolerance;
  changed.validate().throw_if_any();
  options_ = changed;
}

template <Vector V>
Solution<V> Minimiser<V>::solve(const V& theta, double beta, const V& start) {
  watch_ = Stopwatch();
  require_shapes<V>(problem_, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("{}: beta = {} must be finite", name(), beta));
  nudged_.set(theta, beta);
  nudged_.cost() = {};
  state_.restart(start);
  state_.value_scale = scale_weight_ = 0;
  state_.reach = options_.divergence * std::max(1.0, norm(start));
  best_value_ = best_norm_ = previous_value_ = previous_norm_ = lowest_value_ = lowest_norm_ = unknown;
  idle_ = unmoved_ = 0;
  step_->check(nudged_, state_);

  Stop stop = run();

  Solution<V> solution{.phi = Space<V>::zeros_like(state_.phi), .message = {}, .cost = nudged_.cost()};
  // A run that stalled is where it can get; one that left for infinity had better places before.
  const bool abnormal = stop.status == Status::diverged || stop.status == Status::not_finite;
  const bool use_best = abnormal && !step_->searches() && std::isfinite(best_value_);
  Space<V>::copy(use_best ? best_ : state_.phi, solution.phi);
  solution.value = use_best ? best_value_ : state_.value;
  solution.residual_norm = use_best ? best_norm_ : state_.gradient_norm;
  solution.tolerance = options_.gradient_tolerance;
  solution.iterations = state_.iteration;
  solution.status = stop.status;
  solution.message = std::move(stop.message);
  if (use_best)
    solution.message += fmt::format("; returned the best iterate: value {:.6g}, gradient norm {:.3g}",
                                    best_value_, best_norm_);
  if (const std::string note = step_->note(); !note.empty()) solution.message += "; " + note;
  solution.cost.bytes = bytes_of(best_) * (3 + state_.memory.size()) + nudged_.bytes() + step_->bytes();
  solution.cost.seconds_inner = watch_.seconds();
  return solution;
}

template <Vector V>
Stop Minimiser<V>::run() {
  while (true) {
    if (auto stop = evaluate(nudged_, state_)) return *stop;
    remember_best();
    if (auto stop = test()) return *stop;
    if (state_.iteration == 0)
      if (auto stop = step_->begin(nudged_, state_)) return *stop;
    previous_value_ = state_.value;
    if (auto stop = step_->advance(nudged_, state_)) {
      stop->message += "; " + progress();
      return *stop;
    }
    ++state_.iteration;
  }
}

template <Vector V>
void Minimiser<V>::remember_best() {
  if (step_->searches() || state_.value >= best_value_) return;
  Space<V>::copy(state_.phi, best_);
  best_value_ = state_.value;
  best_norm_ = state_.gradient_norm;
}

template <Vector V>
std::string Minimiser<V>::progress() const {
  return fmt::format("value {:.10g}, gradient norm {:.3g} (asked for {:.3g}) after {} iterations",
                     state_.value, state_.gradient_norm, options_.gradient_tolerance, state_.iteration);
}

template <Vector V>
std::optional<Stop> Minimiser<V>::test() {
  scale_weight_ = 1 + 0.7 * scale_weight_;
  state_.value_scale += (std::abs(state_.value) - state_.value_scale) / scale_weight_;

  if (state_.gradient_norm <= options_.gradient_tolerance) return Stop{Status::converged, progress()};
  if (const double length = norm(state_.phi); !(length <= state_.reach))
    return Stop{
        Status::diverged,
        fmt::format("‖φ‖ = {:.3g} exceeds {:.3g} = divergence·max(1, ‖start‖): the loss is unbounded below, "
                    "the step is too long, or `divergence` is too small for this problem's scale; {}",
                    length, state_.reach, progress())};
  const double decrease = std::abs(previous_value_ - state_.value);
  if (options_.relative_decrease > 0 &&
      decrease <= options_.relative_decrease * std::max(std::abs(previous_value_), std::abs(state_.value)))
    return Stop{Status::relative_decrease,
                fmt::format("the loss changed by {:.3g}, relative_decrease is {:.3g}; {}", decrease,
                            options_.relative_decrease, progress())};

  // On the level of rounding a search may wander, and a plain step stand still or circle, without end.
  const bool new_low = !(state_.value >= lowest_value_) || !(state_.gradient_norm >= lowest_norm_);
  const bool moved = state_.value != previous_value_ || state_.gradient_norm != previous_norm_;
  idle_ = new_low ? 0 : idle_ + 1;
  unmoved_ = moved ? 0 : unmoved_ + 1;
  previous_norm_ = state_.gradient_norm;
  lowest_value_ = std::fmin(lowest_value_, state_.value);
  lowest_norm_ = std::fmin(lowest_norm_, state_.gradient_norm);
  if (unmoved_ >= patience || idle_ >= (step_->searches() ? search_patience : plain_patience))
    return Stop{Status::stalled, fmt::format("neither value nor gradient norm improved for {} iterations; {}",
                                             idle_, progress())};

  if (auto stop = nudged_.asked_to_stop()) {
    stop->message += "; " + progress();
    return stop;
  }
  if (state_.iteration >= options_.max_iterations)
    return Stop{Status::iteration_limit,
                fmt::format("max_iterations = {}; {}", options_.max_iterations, progress())};
  if (options_.max_seconds > 0 && watch_.seconds() >= options_.max_seconds)
    return Stop{Status::time_limit, fmt::format("{:.3g} s of max_seconds = {:.3g}; {}", watch_.seconds(),
                                                options_.max_seconds, progress())};
  return {};
}

}  // namespace bilevel
