#pragma once

#include <limits>
#include <memory>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/inner/step.hpp>

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

extern template class Minimiser<Eigen::VectorXd>;
extern template class Minimiser<Eigen::VectorXf>;

}  // namespace bilevel
