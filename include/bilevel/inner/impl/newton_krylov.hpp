#pragma once

#include <algorithm>
#include <cmath>

#include <bilevel/inner/newton_krylov.hpp>

namespace bilevel {

template <Vector V>
NewtonKrylov<V>::NewtonKrylov(Equilibrium<V>& problem, MinimiserOptions options, NewtonKrylovOptions method)
    : problem_(problem),
      counted_(problem),
      options_(options),
      method_(method),
      theta_(Space<V>::zeros_like(problem.initial_theta())),
      phi_(Space<V>::zeros_like(problem.initial_phi())),
      residual_(Space<V>::zeros_like(phi_)),
      trial_(Space<V>::zeros_like(phi_)),
      trial_residual_(Space<V>::zeros_like(phi_)),
      direction_(Space<V>::zeros_like(phi_)),
      left_(Space<V>::zeros_like(phi_)) {
  options_.validate().add(method_.validate()).throw_if_any();
  require_unconstrained(problem, name());
}

template <Vector V>
void NewtonKrylov<V>::set_tolerance(double tolerance) {
  MinimiserOptions changed = options_;
  changed.gradient_tolerance = tolerance;
  changed.validate().throw_if_any();
  options_ = changed;
}

template <Vector V>
Solution<V> NewtonKrylov<V>::solve(const V& theta, double beta, const V& start) {
  watch_ = Stopwatch();
  require_shapes<V>(problem_, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("{}: beta = {} must be finite", name(), beta));
  if (!problem_.capabilities().curvature)
    throw InvalidInput(
        "newton-krylov: the problem offers first derivatives only; use lbfgs, or anderson or broyden where "
        "it minimises nothing, or ask for with_difference_products()");
  counted_.cost() = {};
  Space<V>::copy(theta, theta_);
  Space<V>::copy(start, phi_);
  beta_ = beta;
  if (beta != 0 && !outer_gradient_) outer_gradient_ = Space<V>::zeros_like(phi_);
  if (!space_) space_.emplace(phi_, std::min<Index>(Space<V>::size(phi_), method_.length));
  reach_ = options_.divergence * std::max(1.0, norm(start));
  iteration_ = krylov_steps_ = 0;
  outer_value_ = 0;

  Stop stop = run();

  Solution<V> solution{.phi = Space<V>::zeros_like(phi_), .message = {}, .cost = counted_.cost()};
  Space<V>::copy(phi_, solution.phi);
  solution.residual_norm = residual_norm_;
  solution.tolerance = options_.gradient_tolerance;
  solution.iterations = iteration_;
  solution.status = stop.status;
  solution.message = fmt::format("{}; {} Krylov steps", stop.message, krylov_steps_);
  solution.cost.bytes = space_->bytes() + bytes_of(phi_) * (6 + (outer_gradient_ ? 1 : 0));
  solution.cost.seconds_inner = watch_.seconds();
  return solution;
}

template <Vector V>
Stop NewtonKrylov<V>::run() {
  residual_norm_ = evaluate(phi_, residual_);
  if (auto stop = fault()) return *stop;
  constexpr long patience = 50;
  double wanted = method_.forcing, milestone = residual_norm_;
  while (true) {
    if (auto stop = test()) return *stop;
    const double before = residual_norm_;
    if (auto stop = find_direction(wanted)) return *stop;
    if (auto stop = shorten()) return *stop;
    ++iteration_;
    // Steps that are shortened to next to nothing, for ever: a fold of ‖F‖, not a zero of F.
    if (iteration_ % patience == 0) {
      if (residual_norm_ > 0.9 * milestone)
        return Stop{Status::stalled, fmt::format("{} steps lowered the residual norm from {:.3g} only; {}",
                                                 patience, milestone, progress())};
      milestone = residual_norm_;
    }
    // γ = 0.9 and exponent 2, never much tighter than what the residual has done, nor looser than the start;
    // at the end no more digits than are asked for.
    const double fall = residual_norm_ / before;
    const double safeguard = 0.9 * wanted * wanted;
    wanted =
        std::clamp(std::max(0.9 * fall * fall, safeguard > 0.1 ? safeguard : 0.0), 1e-8, method_.forcing);
    if (residual_norm_ > 0)
      wanted =
          std::min(method_.forcing, std::max(wanted, 0.3 * options_.gradient_tolerance / residual_norm_));
  }
}

/// ‖F‖ at phi; not finite where an oracle gave what is not.
template <Vector V>
double NewtonKrylov<V>::evaluate(const V& phi, V& out) {
  counted_.residual(phi, theta_, out);
  if (beta_ != 0) {
    outer_value_ = counted_.outer(phi, theta_, {.phi = &*outer_gradient_});
    Space<V>::axpy(beta_, *outer_gradient_, out);
    if (!std::isfinite(outer_value_)) return unknown;
  }
  return norm(out);
}

template <Vector V>
std::optional<Stop> NewtonKrylov<V>::fault() const {
  if (std::isfinite(residual_norm_)) return {};
  const std::string_view oracle = beta_ != 0 && !std::isfinite(outer_value_)    ? "the outer value"
                                  : beta_ != 0 && !all_finite(*outer_gradient_) ? "the outer gradient"
                                                                                : "the residual";
  return Stop{Status::not_finite, fmt::format("{} is not finite at iteration {}", oracle, iteration_)};
}

template <Vector V>
std::string NewtonKrylov<V>::progress() const {
  return fmt::format("residual norm {:.3g} (asked for {:.3g}) after {} iterations", residual_norm_,
                     options_.gradient_tolerance, iteration_);
}

template <Vector V>
std::optional<Stop> NewtonKrylov<V>::test() const {
  if (residual_norm_ <= options_.gradient_tolerance) return Stop{Status::converged, progress()};
  if (const double length = norm(phi_); !(length <= reach_))
    return Stop{Status::diverged, fmt::format("‖φ‖ = {:.3g} exceeds {:.3g} = divergence·max(1, ‖start‖); {}",
                                              length, reach_, progress())};
  if (const auto why = stop_wanted(problem_.stop_token()))
    return Stop{*why, fmt::format("{}; {}", sentence(*why), progress())};
  if (iteration_ >= options_.max_iterations)
    return Stop{Status::iteration_limit,
                fmt::format("max_iterations = {}; {}", options_.max_iterations, progress())};
  if (options_.max_seconds > 0 && watch_.seconds() >= options_.max_seconds)
    return Stop{Status::time_limit, fmt::format("{:.3g} s of max_seconds = {:.3g}; {}", watch_.seconds(),
                                                options_.max_seconds, progress())};
  return {};
}

/// p with ‖F + J·p‖ ≤ wanted·‖F‖, or as near to it as the Krylov spaces come.
template <Vector V>
std::optional<Stop> NewtonKrylov<V>::find_direction(double wanted) {
  counted_.linearise(phi_, theta_, beta_, curvature_);
  Space<V>::scale(0, direction_);
  Space<V>::copy(residual_, left_);
  Space<V>::scale(-1, left_);
  double left = residual_norm_;
  for (long cycle = 0; cycle < method_.cycles && left > wanted * residual_norm_; ++cycle) {
    space_->begin(left_, left);
    bool exhausted = false;
    while (!exhausted && space_->size() < space_->length() && space_->claimed() > wanted * residual_norm_) {
      if (const auto why = stop_wanted(problem_.stop_token()))
        return Stop{*why, fmt::format("{}; {}", sentence(*why), progress())};
      curvature_->times(space_->last(), space_->product());
      double stretch = 0;
      exhausted = !space_->take(stretch);
      if (!std::isfinite(stretch))
        return Stop{Status::not_finite,
                    fmt::format("the Jacobian product is not finite at iteration {}", iteration_)};
      ++krylov_steps_;
    }
    if (space_->deficient()) space_->drop_last();
    Space<V>::copy(direction_, trial_);
    space_->add_to(trial_);
    // The true residual, not the recurrence's idea of it.
    curvature_->times(trial_, left_);
    Space<V>::axpy(1, residual_, left_);
    Space<V>::scale(-1, left_);
    const double now = norm(left_);
    if (!(now < left)) break;
    Space<V>::copy(trial_, direction_);
    const bool slow = now > 0.99 * left;
    left = now;
    if (exhausted || slow) break;
  }
  linear_ = left / residual_norm_;
  return {};
}

/// The first λ of 1, ½, ¼, … with ‖F(φ + λp)‖ ≤ (1 − 10⁻⁴·λ·(1 − ‖F + J·p‖/‖F‖))·‖F‖ (Eisenstat and Walker
/// 1994).
template <Vector V>
std::optional<Stop> NewtonKrylov<V>::shorten() {
  constexpr int trials = 40;
  const double promise = 1 - linear_;
  double length = 1, value = unknown;
  bool ever_finite = false;
  for (int k = 0; promise > 0 && k < trials; ++k, length *= 0.5) {
    Space<V>::copy(phi_, trial_);
    Space<V>::axpy(length, direction_, trial_);
    value = evaluate(trial_, trial_residual_);
    ever_finite = ever_finite || std::isfinite(value);
    // Written so that NaN is refused.
    if (!(value < residual_norm_ && value <= (1 - 1e-4 * length * promise) * residual_norm_)) continue;
    std::swap(phi_, trial_);
    std::swap(residual_, trial_residual_);
    residual_norm_ = value;
    return {};
  }
  if (promise > 0 && !ever_finite)
    return Stop{Status::not_finite,
                fmt::format("the residual is not finite at iteration {}, however short the step; {}",
                            iteration_ + 1, progress())};
  return Stop{
      Status::stalled,
      fmt::format("no step lowers the residual norm: {}‖F + J·p‖ = {:.3g}·‖F‖, shortest step {:.3g}; {}",
                  linear_ > 0.9 ? "the Jacobian is singular or too ill-conditioned, " : "", linear_, length,
                  progress())};
}

}  // namespace bilevel
