#pragma once

#include <bilevel/inner/recorded_run.hpp>
#include <bilevel/inner/impl/plain_run.hpp>
#include <bilevel/inner/impl/revolve.hpp>

namespace bilevel {

template <Vector V>
RecordedRun<V>::RecordedRun(Problem<V>& problem, std::unique_ptr<Step<V>> step, RunOptions options,
                            long truncate, long snapshots, std::string_view who)
    : PlainRun<V>(problem, std::move(step), options, who),
      truncate_(truncate),
      limit_(snapshots),
      cotangent_(this->state_.phi, this->step_->footprint().memory),
      gradient_cotangent_(Space<V>::zeros_like(this->state_.phi)),
      product_(Space<V>::zeros_like(this->state_.phi)),
      theta_product_(Space<V>::zeros_like(problem.initial_theta())) {}

template <Vector V>
long RecordedRun<V>::reversed_steps() const {
  return truncate_ > 0 ? std::min(truncate_, total_) : total_;
}

template <Vector V>
std::size_t RecordedRun<V>::bytes() const {
  std::size_t vectors = cotangent_.memory.size() + 3 + before_last_.vectors.size();
  for (const Snapshot& each : held_) vectors += each.vectors.size();
  return PlainRun<V>::bytes() + vectors * bytes_of(product_) + bytes_of(theta_product_);
}

template <Vector V>
void RecordedRun<V>::save(Snapshot& snapshot, bool with_memory) {
  const State<V>& state = this->state_;
  const std::size_t memory = with_memory ? cotangent_.memory.size() : 0;
  while (snapshot.vectors.size() < 1 + memory) snapshot.vectors.push_back(Space<V>::zeros_like(state.phi));
  snapshot.iteration = state.iteration;
  Space<V>::copy(state.phi, snapshot.vectors[0]);
  for (std::size_t i = 0; i < memory; ++i) Space<V>::copy(state.memory[i], snapshot.vectors[1 + i]);
}

template <Vector V>
void RecordedRun<V>::restore(const Snapshot& snapshot) {
  State<V>& state = this->state_;
  Space<V>::copy(snapshot.vectors[0], state.phi);
  for (std::size_t i = 1; i < snapshot.vectors.size(); ++i)
    Space<V>::copy(snapshot.vectors[i], state.memory[i - 1]);
  state.iteration = snapshot.iteration;
  state.evaluated = false;
}

template <Vector V>
typename RecordedRun<V>::Snapshot& RecordedRun<V>::hold(std::size_t position) {
  if (position >= held_.size()) held_.resize(position + 1);
  return held_[position];
}

/// Where the state after the topmost snapshot belongs, on the way to the one before `end_`; −1 if nowhere.
template <Vector V>
void RecordedRun<V>::plan() {
  const long top = held_[used_ - 1].iteration, length = end_ - top;
  const long slots = limit_ - static_cast<long>(used_) + 1;
  next_ = length >= 2 && slots >= 2 ? top + Revolve(length, slots).split() : -1;
  if (next_ == end_ - 1) next_ = -1;  // reversed as soon as it is reached
}

template <Vector V>
void RecordedRun<V>::prepare() {
  total_ = end_ = this->options_.steps;
  used_ = 0;
  // With T known the first sweep lays the snapshots; otherwise it counts, and starts again from here.
  next_ = counts_only() ? 0 : first_reversed();
  constexpr long foreseeable = 1 << 20;  // beyond, room is made as the run gets there
  if (!checkpointed() && !counts_only())
    held_.reserve(static_cast<std::size_t>(std::min(foreseeable, reversed_steps())));
}

template <Vector V>
std::optional<Stop> RecordedRun<V>::before_step() {
  const State<V>& state = this->state_;
  if (counts_only()) total_ = state.iteration + 1;
  if (!checkpointed()) {
    // The derivative of a linear step needs φ_k alone, for J and χ.
    if (counts_only() || state.iteration >= first_reversed())
      save(hold(slot(state.iteration)), !this->step_->linear());
    return {};
  }
  if (state.iteration == next_) {
    save(hold(used_++), true);
    next_ = -1;
    if (!counts_only()) plan();
  }
  if (!counts_only() && state.iteration == total_ - 1) save(before_last_, true);
  return {};
}

template <Vector V>
std::optional<Stop> RecordedRun<V>::advance_to(long iteration) {
  while (this->state_.iteration < iteration) {
    if (auto stop = evaluate(this->nudged_, this->state_)) return stop;
    if (auto stop = this->advance()) return stop;
  }
  return {};
}

template <Vector V>
std::optional<Stop> RecordedRun<V>::reverse(const V& outer_phi, V& gradient, V& pi) {
  if (!this->complete()) throw InvalidInput("recorded run: there is no complete run to follow back");
  end_ = total_;
  cotangent_.reset();
  Space<V>::copy(outer_phi, cotangent_.phi);
  if (checkpointed()) return reverse_checkpointed(gradient, pi);
  for (; end_ > first_reversed() && !vanished(); --end_) {
    restore(held_[slot(end_ - 1)]);
    if (auto stop = reverse_step(gradient, pi)) return stop;
  }
  return {};
}

template <Vector V>
std::optional<Stop> RecordedRun<V>::reverse_checkpointed(V& gradient, V& pi) {
  if (!counts_only()) {
    restore(before_last_);  // where the first sweep turned
  } else if (first_reversed() > 0) {
    restore(held_[0]);
    if (auto stop = advance_to(first_reversed())) return stop;
    save(held_[0], true);
  }
  while (used_ > 0 && !vanished()) {
    const bool turning = this->state_.iteration == end_ - 1;
    if (!turning) {
      plan();
      if (this->state_.iteration != held_[used_ - 1].iteration) restore(held_[used_ - 1]);
      if (auto stop = advance_to(next_ >= 0 ? next_ : end_ - 1)) return stop;
      if (next_ >= 0) save(hold(used_++), true);
      if (next_ >= 0) continue;
    }
    if (auto stop = reverse_step(gradient, pi)) return stop;
    --end_;
    if (held_[used_ - 1].iteration == end_) --used_;
  }
  return {};
}

/// λ_k from λ_{k+1}: λ_k = λ′ + Jᵀc, where the step's own derivative gives λ′ and c.
template <Vector V>
std::optional<Stop> RecordedRun<V>::reverse_step(V& gradient, V& pi) {
  State<V>& state = this->state_;
  Curvature<V>& curvature = this->nudged_.curvature(state.phi);
  if (!this->step_->linear()) {
    if (auto stop = evaluate(this->nudged_, this->state_)) return stop;
    this->step_->differentiate(state);
  }
  this->step_->pullback(cotangent_, gradient_cotangent_);
  curvature.transpose_times(gradient_cotangent_, product_);
  curvature.cross_times(gradient_cotangent_, theta_product_);
  const auto broken = [&](const V& product, std::string_view what) {
    return Stop{Status::not_finite, fmt::format("{} is {} at iteration {} on the way back", what,
                                                Space<V>::max_abs(product), state.iteration)};
  };
  if (!all_finite(product_)) return broken(product_, "the Hessian product");
  if (!all_finite(theta_product_)) return broken(theta_product_, "the cross product");
  Space<V>::axpy(1, product_, cotangent_.phi);
  Space<V>::axpy(1, theta_product_, gradient);
  Space<V>::axpy(-1, gradient_cotangent_, pi);
  return {};
}

/// Below the least normal number cotangents no longer fall but creep, at the hundredfold price of ordinary
/// arithmetic, and what they would still add is nothing.
template <Vector V>
bool RecordedRun<V>::vanished() const {
  const double least = std::numeric_limits<typename Space<V>::Scalar>::min();
  const auto small = [&](const V& x) { return Space<V>::max_abs(x) < least; };
  return small(cotangent_.phi) && std::all_of(cotangent_.memory.begin(), cotangent_.memory.end(), small);
}

}  // namespace bilevel
