#pragma once

#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/impl/wolfe_search.hpp>

namespace bilevel {

template <Vector V>
Lbfgs<V>::Lbfgs(LbfgsOptions options) : options_(options), slots_(options.memory + 1) {
  options_.validate().throw_if_any();
}

template <Vector V>
std::optional<Stop> Lbfgs<V>::begin(Nudged<V>&, State<V>& state) {
  if (!search_) {
    search_.emplace(state.phi);
    direction_ = Space<V>::zeros_like(state.phi);
    pairs_.reserve(static_cast<std::size_t>(slots_));
    for (long i = 0; i < slots_; ++i)
      pairs_.push_back({Space<V>::zeros_like(state.phi), Space<V>::zeros_like(state.phi), 0, 0});
  }
  held_ = 0;
  return {};
}

/// p ← B⁻¹·p with the last `count` pairs, by the two-loop recursion.
template <Vector V>
void Lbfgs<V>::recur(V& p, long count) {
  if (count == 0) return;
  const Pair& newest = pair(0);
  const double scale = newest.curvature / Space<V>::dot(newest.y, newest.y);
  apply_secant_pairs(
      count, [this](long age) -> Pair& { return pair(age); }, scale, p, [](V&) {});
}

template <Vector V>
void Lbfgs<V>::apply(const V& b, V& out) {
  Space<V>::copy(b, out);
  recur(out, known_);
}

template <Vector V>
void Lbfgs<V>::find_direction(const State<V>& state) {
  Space<V>::copy(state.gradient, *direction_);
  Space<V>::scale(-1, *direction_);
  recur(*direction_, held_);
}

template <Vector V>
std::optional<Stop> Lbfgs<V>::search(Nudged<V>& nudged, State<V>& state) {
  find_direction(state);
  double slope = Space<V>::dot(state.gradient, *direction_);
  if (!(slope < 0) && held_ > 0) {
    // Rounding has spoilt the history.
    ++restarts_;
    held_ = known_ = 0;
    find_direction(state);
    slope = Space<V>::dot(state.gradient, *direction_);
  }
  // The bare gradient has no length of its own: move by at most 1.
  const double first = held_ > 0 ? 1 : std::min(1.0, 1 / state.gradient_norm);
  return search_->search(nudged, state, *direction_, slope, first);
}

template <Vector V>
std::optional<Stop> Lbfgs<V>::advance(Nudged<V>& nudged, State<V>& state) {
  Pair& made = pairs_[static_cast<std::size_t>(next_)];
  Space<V>::copy(state.phi, made.s);
  Space<V>::copy(state.gradient, made.y);
  auto stop = search(nudged, state);
  if (stop && stop->status == Status::stalled && held_ > 0) {
    ++restarts_;
    held_ = known_ = 0;
    stop = search(nudged, state);
  }
  if (stop) return stop;

  Space<V>::scale(-1, made.s);
  Space<V>::axpy(1, state.phi, made.s);
  Space<V>::scale(-1, made.y);
  Space<V>::axpy(1, state.gradient, made.y);
  made.curvature = Space<V>::dot(made.s, made.y);
  // A pair without positive curvature would make the model indefinite.
  if (made.curvature > unit_roundoff<V>() * norm(made.s) * norm(made.y)) {
    next_ = (next_ + 1) % slots_;
    held_ = std::min(held_ + 1, options_.memory);
    known_ = std::min(known_ + 1, options_.memory);
  }
  return {};
}

template <Vector V>
std::string Lbfgs<V>::note() const {
  return restarts_ == 0 ? std::string() : fmt::format("dropped the history {} times", restarts_);
}

template <Vector V>
std::size_t Lbfgs<V>::bytes() const {
  if (!search_) return 0;
  return search_->bytes() + bytes_of(*direction_) * (1 + 2 * pairs_.size());
}

}  // namespace bilevel
