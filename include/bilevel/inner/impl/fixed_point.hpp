#pragma once

#include <array>
#include <span>

#include <bilevel/inner/fixed_point.hpp>
#include <bilevel/inner/impl/minimiser.hpp>
#include <bilevel/space/dots.hpp>

namespace bilevel {

template <Vector V>
FixedPoint<V>::FixedPoint(Equilibrium<V>& problem, MinimiserOptions options, FixedPointOptions method)
    : problem_(problem),
      counted_(problem),
      options_(options),
      method_(method),
      phi_(Space<V>::zeros_like(problem.initial_phi())),
      residual_(Space<V>::zeros_like(phi_)),
      next_(Space<V>::zeros_like(phi_)),
      best_phi_(Space<V>::zeros_like(phi_)),
      best_residual_(Space<V>::zeros_like(phi_)) {
  options_.validate().throw_if_any();
  method_.validate().throw_if_any();
  require_unconstrained(problem, name());
  for (long i = 0; i < method_.memory; ++i) {
    phi_differences_.push_back(Space<V>::zeros_like(phi_));
    residual_differences_.push_back(Space<V>::zeros_like(phi_));
  }
  gram_.setZero(method_.memory, method_.memory);
  lengths_.setZero(method_.memory);
  along_.setZero(method_.memory);
}

template <Vector V>
void FixedPoint<V>::set_tolerance(double tolerance) {
  MinimiserOptions changed = options_;
  changed.gradient_tolerance = tolerance;
  changed.validate().throw_if_any();
  options_ = changed;
}

template <Vector V>
Solution<V> FixedPoint<V>::solve(const V& theta, double beta, const V& start) {
  watch_ = Stopwatch();
  require_shapes<V>(problem_, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("{}: beta = {} must be finite", name(), beta));
  counted_.cost() = {};
  Space<V>::copy(start, phi_);
  if (beta != 0 && !outer_gradient_) outer_gradient_ = Space<V>::zeros_like(phi_);
  const Constants c = problem_.constants(theta, start, everywhere);
  const double smoothness = c.smoothness + (beta == 0 ? 0 : std::abs(beta) * c.outer_smoothness);
  step_ = method_.step > 0 ? method_.step : smoothness > 0 ? 1 / smoothness : 1;
  reach_ = options_.divergence * std::max(1.0, norm(start));
  residual_norm_ = previous_norm_ = best_norm_ = unknown;
  iteration_ = held_ = next_slot_ = idle_ = fruitless_ = restarts_ = halvings_ = 0;
  pending_ = accelerated_ = false;

  Stop stop = run(theta, beta);

  Solution<V> solution{.phi = Space<V>::zeros_like(phi_), .message = {}, .cost = counted_.cost()};
  const bool abnormal =
      stop.status == Status::diverged || stop.status == Status::not_finite || stop.status == Status::stalled;
  const bool use_best = abnormal && std::isfinite(best_norm_);
  Space<V>::copy(use_best ? best_phi_ : phi_, solution.phi);
  solution.residual_norm = use_best ? best_norm_ : residual_norm_;
  solution.tolerance = options_.gradient_tolerance;
  solution.iterations = iteration_;
  solution.status = stop.status;
  solution.message = std::move(stop.message);
  if (use_best)
    solution.message += fmt::format("; returned the best iterate: residual norm {:.3g}", best_norm_);
  solution.message += fmt::format("; step {:.3g}", step_);
  if (restarts_ > 0)
    solution.message +=
        fmt::format(", restarted {} times and halved the step {} times", restarts_, halvings_);
  solution.cost.bytes = bytes_of(phi_) * (5 + 2 * phi_differences_.size() + (outer_gradient_ ? 1 : 0));
  solution.cost.seconds_inner = watch_.seconds();
  return solution;
}

template <Vector V>
Stop FixedPoint<V>::run(const V& theta, double beta) {
  while (true) {
    if (auto stop = evaluate(theta, beta)) return *stop;
    if (auto stop = test()) return *stop;
    if (auto stop = guard()) return *stop;
    advance();
    ++iteration_;
  }
}

template <Vector V>
std::optional<Stop> FixedPoint<V>::evaluate(const V& theta, double beta) {
  counted_.residual(phi_, theta, residual_);
  double outer_value = 0;
  if (beta != 0) {
    outer_value = counted_.outer(phi_, theta, {.phi = &*outer_gradient_});
    Space<V>::axpy(beta, *outer_gradient_, residual_);
  }
  residual_norm_ = norm(residual_);
  if (std::isfinite(residual_norm_) && std::isfinite(outer_value)) return {};
  std::string_view oracle = "the residual";
  if (!std::isfinite(outer_value)) {
    oracle = "the outer value";
  } else if (beta != 0 && !all_finite(*outer_gradient_)) {
    oracle = "the outer gradient";
  } else if (all_finite(residual_)) {
    return Stop{Status::diverged, fmt::format("the residual's largest element is {:.3g} at iteration {}",
                                              Space<V>::max_abs(residual_), iteration_)};
  }
  return Stop{Status::not_finite, fmt::format("{} is not finite at iteration {}", oracle, iteration_)};
}

template <Vector V>
std::string FixedPoint<V>::progress() const {
  return fmt::format("residual norm {:.3g} (asked for {:.3g}) after {} iterations", residual_norm_,
                     options_.gradient_tolerance, iteration_);
}

template <Vector V>
std::optional<Stop> FixedPoint<V>::test() {
  if (residual_norm_ <= options_.gradient_tolerance) return Stop{Status::converged, progress()};
  if (const double length = norm(phi_); !(length <= reach_))
    return Stop{Status::diverged, fmt::format("‖φ‖ = {:.3g} exceeds {:.3g} = divergence·max(1, ‖start‖); {}",
                                              length, reach_, progress())};
  if (const auto why = stop_wanted(counted_.stop_token()))
    return Stop{*why, fmt::format("{}; {}", sentence(*why), progress())};
  if (iteration_ >= options_.max_iterations)
    return Stop{Status::iteration_limit,
                fmt::format("max_iterations = {}; {}", options_.max_iterations, progress())};
  if (options_.max_seconds > 0 && watch_.seconds() >= options_.max_seconds)
    return Stop{Status::time_limit, fmt::format("{:.3g} s of max_seconds = {:.3g}; {}", watch_.seconds(),
                                                options_.max_seconds, progress())};
  return {};
}

/// Keeps the best iterate, and goes back to it where acceleration has led astray.
template <Vector V>
std::optional<Stop> FixedPoint<V>::guard() {
  constexpr long patience = 20;
  const bool improved = !(residual_norm_ >= best_norm_);
  const bool plain = method_.memory == 0;
  idle_ = (plain ? residual_norm_ != previous_norm_ : improved) ? 0 : idle_ + 1;
  previous_norm_ = residual_norm_;
  if (improved) {
    best_norm_ = residual_norm_;
    fruitless_ = 0;
    Space<V>::copy(phi_, best_phi_);
    Space<V>::copy(residual_, best_residual_);
  }
  const long allowed_idle = plain ? patience : patience + 4 * method_.memory;
  const bool idle = idle_ >= allowed_idle;
  if (plain) {
    if (idle)
      return Stop{Status::stalled,
                  fmt::format("the residual norm has not changed for {} iterations; {}", idle_, progress())};
    return {};
  }
  const bool astray = accelerated_ && residual_norm_ > method_.growth * best_norm_;
  if (!astray && !idle) return {};

  // Growth is cured by a few halvings of α; standing still mostly means that rounding has the word.
  constexpr long fruitless_limit = 40;
  if (fruitless_ > 0) {
    step_ *= 0.5;
    ++halvings_;
  }
  fruitless_ += idle ? fruitless_limit / 2 : 1;
  if (fruitless_ > fruitless_limit)
    return Stop{Status::stalled,
                fmt::format("neither restarts nor shorter steps reduce the residual; {}", progress())};
  ++restarts_;
  idle_ = 0;
  held_ = 0;
  pending_ = accelerated_ = false;
  residual_norm_ = best_norm_;
  Space<V>::copy(best_phi_, phi_);
  Space<V>::copy(best_residual_, residual_);
  return {};
}

template <Vector V>
void FixedPoint<V>::advance() {
  if (pending_) record_difference();
  Space<V>::copy(phi_, next_);
  Space<V>::axpy(-step_, residual_, next_);
  accelerated_ = held_ > 0;
  if (held_ > 0) subtract_combination();
  if (method_.memory > 0) {
    // −φ_k and −F_k wait in the oldest slot for φ_{k+1} and F_{k+1}.
    const auto slot = static_cast<std::size_t>(next_slot_);
    held_ = std::min(held_, method_.memory - 1);
    Space<V>::copy(phi_, phi_differences_[slot]);
    Space<V>::scale(-1, phi_differences_[slot]);
    Space<V>::copy(residual_, residual_differences_[slot]);
    Space<V>::scale(-1, residual_differences_[slot]);
    pending_ = true;
  }
  std::swap(phi_, next_);
}

template <Vector V>
void FixedPoint<V>::record_difference() {
  const long slot = next_slot_;
  Space<V>::axpy(1, phi_, phi_differences_[static_cast<std::size_t>(slot)]);
  Space<V>::axpy(1, residual_, residual_differences_[static_cast<std::size_t>(slot)]);
  pending_ = false;
  if (method_.secants == Secants::broyden) {
    measure_broyden(slot);
  } else if (!measure_anderson(slot)) {
    // F did not change: the secant says nothing, and the older ones are no better.
    held_ = 0;
    return;
  }
  ++held_;
  next_slot_ = (next_slot_ + 1) % method_.memory;
}

/// The new row and column of ΔFᵀΔF; false where the difference is 0.
template <Vector V>
bool FixedPoint<V>::measure_anderson(long slot) {
  const V& df = residual_differences_[static_cast<std::size_t>(slot)];
  std::array<const V*, FixedPointOptions::most_memory> with;
  std::array<double, FixedPointOptions::most_memory> products;
  const auto count = static_cast<std::size_t>(held_ + 1);
  with[0] = &df;
  for (long age = 0; age < held_; ++age)
    with[static_cast<std::size_t>(age + 1)] = &residual_differences_[static_cast<std::size_t>(slot_of(age))];
  dots<V>(df, std::span(with.data(), count), products.data());
  const double square = products[0];
  if (!(square > 0)) return false;
  gram_(slot, slot) = square;
  for (long age = 0; age < held_; ++age)
    gram_(slot, slot_of(age)) = gram_(slot_of(age), slot) = products[static_cast<std::size_t>(age + 1)];
  return true;
}

/// The new row and column of ΔΦᵀΔF, and ΔΦᵀF, in two fetches: since the newest of ΔF is what F has changed
/// by, its column is what ΔΦᵀF has changed by.
template <Vector V>
void FixedPoint<V>::measure_broyden(long slot) {
  const V& dp = phi_differences_[static_cast<std::size_t>(slot)];
  std::array<const V*, FixedPointOptions::most_memory + 1> with;
  std::array<double, FixedPointOptions::most_memory + 1> products{};
  const auto count = static_cast<std::size_t>(held_ + 1);
  with[0] = &dp;
  for (long age = 0; age < held_; ++age)
    with[static_cast<std::size_t>(age + 1)] = &phi_differences_[static_cast<std::size_t>(slot_of(age))];
  dots<V>(residual_, std::span(with.data(), count), products.data());
  along_[slot] = products[0];
  for (long age = 0; age < held_; ++age) {
    const double now = products[static_cast<std::size_t>(age + 1)];
    gram_(slot_of(age), slot) = now - along_[slot_of(age)];
    along_[slot_of(age)] = now;
  }
  with[0] = &residual_differences_[static_cast<std::size_t>(slot)];
  for (long age = 0; age < held_; ++age)
    with[static_cast<std::size_t>(age + 1)] = &residual_differences_[static_cast<std::size_t>(slot_of(age))];
  with[count] = &dp;
  dots<V>(dp, std::span(with.data(), count + 1), products.data());
  gram_(slot, slot) = products[0];
  for (long age = 0; age < held_; ++age)
    gram_(slot, slot_of(age)) = products[static_cast<std::size_t>(age + 1)];
  lengths_[slot] = std::sqrt(products[count]);
}

/// gamma_ = argmin ‖F − ΔFγ‖, in units of scales_. The normal equations suffice: γ steers the acceleration
/// and its error only costs speed. Columns are scaled to length 1 and the system is regularised at the level
/// of rounding, so that differences which have become parallel share their weight.
template <Vector V>
void FixedPoint<V>::weigh_anderson() {
  const double regularisation = std::max(1e-13, 4 * unit_roundoff<V>());
  std::array<const V*, FixedPointOptions::most_memory> with;
  for (long i = 0; i < held_; ++i) {
    scales_[i] = 1 / std::sqrt(gram_(slot_of(i), slot_of(i)));
    with[static_cast<std::size_t>(i)] = &residual_differences_[static_cast<std::size_t>(slot_of(i))];
  }
  dots<V>(residual_, std::span(with.data(), static_cast<std::size_t>(held_)), gamma_.data());
  for (long i = 0; i < held_; ++i) {
    gamma_[i] *= scales_[i];
    for (long j = 0; j < held_; ++j) system_(i, j) = scales_[i] * scales_[j] * gram_(slot_of(i), slot_of(j));
    system_(i, i) += regularisation;
  }
  factor_.compute(system_);
  gamma_ = factor_.solve(gamma_).eval();
}

/// ΔΦᵀΔF γ = ΔΦᵀF by elimination with partial pivoting, in units of scales_; false where no secant says
/// anything. The matrix is neither symmetric nor definite. Columns come newest first, and one that depends on
/// newer ones goes without weight: there may be more secants than directions, and the older were measured
/// farther away. So does one of a step that did not change F. Where F turns, ⟨Δφ, ΔF⟩ of a single step may
/// vanish and two steps determine each other's weight: rows are chosen freely, and a secant that is of no use
/// yet is kept.
template <Vector V>
bool FixedPoint<V>::weigh_broyden() {
  const double rounding = std::max(1e-13, 4 * unit_roundoff<V>());
  for (long i = 0; i < held_; ++i) {
    const double length = lengths_[slot_of(i)], unit = length > 0 ? 1 / length : 0;
    gamma_[i] = unit * along_[slot_of(i)];
    for (long j = 0; j < held_; ++j) system_(i, j) = unit * gram_(slot_of(i), slot_of(j));
  }
  for (long j = 0; j < held_; ++j) {
    const double largest = system_.col(j).cwiseAbs().maxCoeff();
    scales_[j] = largest > 0 ? 1 / largest : 0;
    system_.col(j) *= scales_[j];
  }
  std::array<long, FixedPointOptions::most_memory> columns{};
  long rank = 0;
  for (long j = 0; j < held_; ++j) {
    long below = 0;
    const double pivot = system_.col(j).tail(held_ - rank).cwiseAbs().maxCoeff(&below);
    if (!(pivot > rounding)) continue;
    system_.row(rank).swap(system_.row(rank + below));
    std::swap(gamma_[rank], gamma_[rank + below]);
    for (long i = rank + 1; i < held_; ++i) {
      const double factor = system_(i, j) / system_(rank, j);
      for (long k = j + 1; k < held_; ++k) system_(i, k) -= factor * system_(rank, k);
      gamma_[i] -= factor * gamma_[rank];
    }
    columns[static_cast<std::size_t>(rank++)] = j;
  }
  std::array<double, FixedPointOptions::most_memory> weights{};
  for (long i = rank - 1; i >= 0; --i) {
    const long j = columns[static_cast<std::size_t>(i)];
    for (long k = j + 1; k < held_; ++k) gamma_[i] -= system_(i, k) * weights[static_cast<std::size_t>(k)];
    weights[static_cast<std::size_t>(j)] = gamma_[i] / system_(i, j);
  }
  for (long j = 0; j < held_; ++j) gamma_[j] = weights[static_cast<std::size_t>(j)];
  return rank > 0;
}

/// next −= (ΔΦ − αΔF) γ
template <Vector V>
void FixedPoint<V>::subtract_combination() {
  system_.resize(held_, held_);
  gamma_.resize(held_);
  scales_.resize(held_);
  if (method_.secants == Secants::anderson) {
    weigh_anderson();
  } else if (!weigh_broyden()) {
    accelerated_ = false;
    return;
  }
  if (!gamma_.allFinite()) {
    held_ = 0;
    accelerated_ = false;
    return;
  }
  for (long i = 0; i < held_; ++i) {
    const auto slot = static_cast<std::size_t>(slot_of(i));
    const double weight = gamma_[i] * scales_[i];
    Space<V>::axpy(-weight, phi_differences_[slot], next_);
    Space<V>::axpy(weight * step_, residual_differences_[slot], next_);
  }
}

}  // namespace bilevel
