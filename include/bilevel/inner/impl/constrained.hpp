#pragma once

#include <bilevel/inner/constrained.hpp>

namespace bilevel {

template <Vector V>
Constrained<V>::Constrained(Problem<V>& problem, MinimiserOptions options, ConstrainedOptions method)
    : problem_(problem),
      options_(options),
      method_(method),
      nudged_(problem),
      phi_(Space<V>::zeros_like(problem.initial_phi())),
      gradient_(Space<V>::zeros_like(phi_)),
      trial_(Space<V>::zeros_like(phi_)),
      trial_gradient_(Space<V>::zeros_like(phi_)) {
  options_.validate().add(method_.validate()).throw_if_any();
  const Index n = Space<V>::size(phi_);
  if (n > method_.max_variables)
    throw InvalidInput(
        fmt::format("{}: |phi| = {} exceeds max_variables = {}", name(), n, method_.max_variables));
  const PhiConstraints constraints = problem.phi_constraints();
  constraints.validate(n).throw_if_any();
  constraints_ = rows_of(constraints, n);
}

template <Vector V>
void Constrained<V>::set_tolerance(double tolerance) {
  MinimiserOptions changed = options_;
  changed.gradient_tolerance = tolerance;
  changed.validate().throw_if_any();
  options_ = changed;
}

template <Vector V>
Solution<V> Constrained<V>::solve(const V& theta, double beta, const V& start) {
  watch_ = Stopwatch();
  stop_.emplace(std::initializer_list<const StopToken*>{problem_.stop_token()}, options_.max_seconds);
  require_shapes<V>(problem_, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("{}: beta = {} must be finite", name(), beta));
  if (method_.second_order && !problem_.capabilities().curvature)
    throw InvalidInput(fmt::format(
        "{}: the problem offers first derivatives only; use lbfgs, or ask for with_difference_products()",
        name()));
  nudged_.set(theta, beta);
  nudged_.cost() = {};
  host_ = host_copy(start);
  reach_ = options_.divergence * std::max(1.0, host_.norm());
  value_ = residual_ = unknown;
  iteration_ = shifted_ = 0;
  hessian_.resize(0, 0);
  natural_ = {};

  Stop stop = run();

  Solution<V> solution{.phi = Space<V>::zeros_like(phi_), .message = {}, .cost = nudged_.cost()};
  Space<V>::copy(phi_, solution.phi);
  solution.value = value_;
  solution.residual_norm = residual_;
  solution.tolerance = options_.gradient_tolerance;
  solution.iterations = iteration_;
  solution.status = stop.status;
  solution.message = fmt::format("{}; {} constraints hold it", stop.message, natural_.active.size());
  if (shifted_ > 0) solution.message += fmt::format("; the model was shifted in {} iterations", shifted_);
  const auto n = static_cast<std::size_t>(host_.size());
  solution.cost.bytes =
      4 * bytes_of(phi_) +
      sizeof(double) * n * (4 * n + static_cast<std::size_t>(constraints_.rows.limits.size()));
  solution.cost.seconds_inner = watch_.seconds();
  return solution;
}

template <Vector V>
Stop Constrained<V>::run() {
  if (auto stop = project_start()) return *stop;
  value_ = nudged_.value_and_gradient(phi_, gradient_);
  host_gradient_ = host_copy(gradient_);
  if (auto stop = nudged_.fault(value_, gradient_, host_gradient_.norm(), 0)) return *stop;
  natural_ = natural_step(host_, host_gradient_);
  residual_ = natural_.feasible ? natural_.x.norm() : unknown;
  while (true) {
    if (auto stop = test()) return *stop;
    if (auto stop = step()) {
      const bool early = stop->status == Status::interrupted || stop->status == Status::time_limit;
      if (early && natural_.feasible && !search(natural_)) ++iteration_;
      if (early && residual_ <= options_.gradient_tolerance) return Stop{Status::converged, progress()};
      if (early) stop->message += "; " + progress();
      return *stop;
    }
    ++iteration_;
  }
}

template <Vector V>
std::optional<Stop> Constrained<V>::step() {
  if (auto stop = model()) return stop;
  const QuadraticProgramSolution step = solve_quadratic_program(
      inverse_factor_, host_gradient_, constraints_.rows, {.around = &host_, .stop = &*stop_});
  if (step.end == QuadraticProgramEnd::interrupted) return ended();
  if (!step.feasible || !step.x.allFinite())
    return Stop{Status::stalled,
                fmt::format("the quadratic programme of the model {}; {}", sentence(step.end), progress())};
  return search(step);
}

/// To the nearest point that satisfies the constraints.
template <Vector V>
std::optional<Stop> Constrained<V>::project_start() {
  Space<V>::from_host(host_.data(), phi_);
  const QuadraticProgramSolution nearest =
      nearest_step(constraints_, host_, Eigen::VectorXd::Zero(host_.size()), &*stop_);
  if (nearest.end == QuadraticProgramEnd::infeasible)
    throw InvalidInput(fmt::format("{}: no phi satisfies the constraints", name()));
  if (nearest.end == QuadraticProgramEnd::interrupted) return ended();
  if (!nearest.feasible)
    return Stop{Status::stalled, fmt::format("the quadratic programme of the point nearest to the start {}",
                                             sentence(nearest.end))};
  host_ += nearest.x;
  keep_within(constraints_, host_);
  touch(constraints_, nearest.active, host_);
  Space<V>::from_host(host_.data(), phi_);
  return {};
}

/// P(φ − g) − φ, P the nearest point under the constraints.
template <Vector V>
QuadraticProgramSolution Constrained<V>::natural_step(const Eigen::VectorXd& phi,
                                                      const Eigen::VectorXd& gradient) {
  return nearest_step(constraints_, phi, gradient, &*stop_);
}

template <Vector V>
std::string Constrained<V>::progress() const {
  return fmt::format("value {:.10g}, projected gradient norm {:.3g} (asked for {:.3g}) after {} iterations",
                     value_, residual_, options_.gradient_tolerance, iteration_);
}

template <Vector V>
std::optional<Stop> Constrained<V>::test() {
  if (residual_ <= options_.gradient_tolerance) return Stop{Status::converged, progress()};
  if (const double length = host_.norm(); !(length <= reach_))
    return Stop{Status::diverged, fmt::format("‖φ‖ = {:.3g} exceeds {:.3g} = divergence·max(1, ‖start‖); {}",
                                              length, reach_, progress())};
  if (auto stop = ended()) {
    stop->message += "; " + progress();
    return stop;
  }
  if (iteration_ >= options_.max_iterations)
    return Stop{Status::iteration_limit,
                fmt::format("max_iterations = {}; {}", options_.max_iterations, progress())};
  return {};
}

template <Vector V>
std::optional<Stop> Constrained<V>::ended() const {
  const auto why = stop_->wanted();
  if (!why) return {};
  if (auto asked = nudged_.asked_to_stop()) return asked;
  return Stop{*why, fmt::format("{:.3g} s of max_seconds = {:.3g}", watch_.seconds(), options_.max_seconds)};
}

/// The Hessian, or what gradients so far say of it, and its factor; where that is not positive definite, with
/// τ times the size of its diagonal added, τ doubling until it is.
template <Vector V>
std::optional<Stop> Constrained<V>::model() {
  const Index n = host_.size();
  if (method_.second_order) {
    Curvature<V>& curvature = nudged_.curvature(phi_);
    if (!curvature.dense(hessian_)) {
      hessian_.resize(n, n);
      for (Index j = 0; j < n; ++j) {
        if (auto stop = ended()) return stop;
        Space<V>::unit(j, trial_);
        curvature.times(trial_, trial_gradient_);
        Space<V>::to_host(trial_gradient_, hessian_.col(j).data());
      }
    }
    hessian_ = (0.5 * (hessian_ + hessian_.transpose())).eval();
  } else if (hessian_.size() == 0) {
    hessian_ = Eigen::MatrixXd::Identity(n, n) * std::max(host_gradient_.norm(), 1e-300);
  }
  if (!hessian_.allFinite())
    return Stop{Status::not_finite,
                fmt::format("the Hessian product is not finite at iteration {}", iteration_)};
  if (auto stop = ended()) return stop;
  ++nudged_.cost().factorizations;
  if (inverse_transposed_factor(hessian_, inverse_factor_)) return {};
  ++shifted_;
  const double size = std::max(hessian_.cwiseAbs().maxCoeff(), 1e-8 * host_gradient_.norm());
  for (double shift = 1e-3 * size; std::isfinite(shift); shift *= 2) {
    if (auto stop = ended()) return stop;
    Eigen::MatrixXd shifted = hessian_;
    shifted.diagonal().array() += shift;
    ++nudged_.cost().factorizations;
    if (inverse_transposed_factor(shifted, inverse_factor_)) return {};
  }
  return Stop{Status::singular,
              fmt::format("no shift makes the Hessian positive definite at iteration {}", iteration_)};
}

/// Armijo along the step; every point on the way satisfies the constraints, for its two ends do.
template <Vector V>
std::optional<Stop> Constrained<V>::search(const QuadraticProgramSolution& model) {
  const Eigen::VectorXd& step = model.x;
  constexpr int trials = 60;
  const double slope = host_gradient_.dot(step);
  const double noise = std::pow(unit_roundoff<V>(), 2.0 / 3.0) * std::abs(value_);
  std::optional<Stop> outside;
  double length = 1;
  for (int k = 0; k < trials; ++k, length *= 0.5) {
    Eigen::VectorXd moved = host_ + length * step;
    keep_within(constraints_, moved);
    if (k == 0) touch(constraints_, model.active, moved);
    Space<V>::from_host(moved.data(), trial_);
    const double value = nudged_.value_and_gradient(trial_, trial_gradient_);
    if (nudged_.outside(value)) {
      if (std::isnan(value)) outside = nudged_.fault(value, trial_gradient_, unknown, iteration_ + 1);
      continue;
    }
    outside.reset();
    const Eigen::VectorXd gradient = host_copy(trial_gradient_);
    if (auto stop = nudged_.fault(value, trial_gradient_, gradient.norm(), iteration_ + 1)) {
      if (stop->status == Status::diverged) continue;
      return stop;
    }
    const bool decreases = slope < 0 && value < value_ && value <= value_ + 1e-4 * length * slope;
    const bool noisy = -length * slope <= noise && std::abs(value - value_) <= noise;
    if (!decreases && !noisy) continue;
    QuadraticProgramSolution natural = natural_step(moved, gradient);
    const double residual = natural.feasible ? natural.x.norm() : unknown;
    if (!decreases && !(residual < residual_)) continue;
    if (!method_.second_order)
      update_model(moved - host_, gradient - host_gradient_, hessian_, iteration_ == 0);
    host_ = std::move(moved);
    host_gradient_ = gradient;
    std::swap(phi_, trial_);
    std::swap(gradient_, trial_gradient_);
    value_ = value;
    residual_ = residual;
    natural_ = std::move(natural);
    return {};
  }
  if (outside) return outside;  // however short the step
  return Stop{Status::stalled, fmt::format("no step decreases the loss: slope {:.3g}, shortest {:.3g}; {}",
                                           slope, length, progress())};
}

}  // namespace bilevel
