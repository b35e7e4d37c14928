#pragma once

#include <bilevel/inner/adam.hpp>

namespace bilevel {

template <Vector V>
Adam<V>::Adam(AdamOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
std::optional<Stop> Adam<V>::begin(Nudged<V>&, State<V>& state) {
  state.reset_memory(5);
  Space<V>::fill(least(), state.memory[2]);
  return {};
}

/// m, v and v̂ of the k-th iteration, k from 1; x and y are scratch.
template <Vector V>
void Adam<V>::update_moments(const V& gradient, double k, V& m, V& v, V& largest, V& x, V& y) const {
  moments().update(gradient, m, v, x);
  // max(v̂, w) by clamp: both are ≥ 0, so their sum is an upper bound that never cuts.
  Space<V>::copy(v, x);
  Space<V>::scale(1 / moments().second_weight(k), x);
  Space<V>::copy(largest, y);
  Space<V>::axpy(1, x, y);
  Space<V>::clamp(x, y, largest);
}

template <Vector V>
std::optional<Stop> Adam<V>::advance(Nudged<V>&, State<V>& state) {
  V &m = state.memory[0], &largest = state.memory[2], &x = state.memory[3], &y = state.memory[4];
  const double k = static_cast<double>(state.iteration + 1);
  update_moments(state.gradient, k, m, state.memory[1], largest, x, y);
  Space<V>::copy(largest, y);
  Space<V>::sqrt(y);
  Space<V>::copy(m, x);
  Space<V>::divide(y, x);
  Space<V>::axpy(-options_.step / moments().first_weight(k), x, state.phi);
  state.evaluated = false;
  return {};
}

template <Vector V>
void Adam<V>::differentiate(State<V>& state) {
  if (work_.empty() || Space<V>::size(work_[0]) != Space<V>::size(state.phi)) {
    work_.clear();
    while (work_.size() < works) work_.push_back(Space<V>::zeros_like(state.phi));
    Space<V>::fill(1.0, work_[5]);
  }
  V &q = work_[0], &h = work_[1], &largest = work_[2], &s = work_[3], &p = work_[4], &ones = work_[5];
  V &x = state.memory[3], &y = state.memory[4];
  const double k = static_cast<double>(state.iteration + 1);
  const double alpha = options_.step / moments().first_weight(k);
  correction_ = 1 / moments().second_weight(k);

  Space<V>::copy(state.memory[0], q);
  Space<V>::copy(state.memory[1], h);
  Space<V>::copy(state.memory[2], largest);
  update_moments(state.gradient, k, q, h, largest, x, y);
  // s is 1 where v̂ grew and 0 where it stayed. Growth is at least one unit in the last place of v̂, which
  // is at least `least()`, up to its own rounding: 4/(u·least()) times that exceeds 1.
  Space<V>::copy(largest, s);
  Space<V>::axpy(-1, state.memory[2], s);
  Space<V>::scale(4 / (unit_roundoff<V>() * least()), s);
  Space<V>::scale(0, x);
  Space<V>::clamp(x, ones, s);

  // p = −α/√v̂′ and q = ½α·m′/v̂′^{3/2} = −½·p·m′/v̂′.
  Space<V>::copy(largest, x);
  Space<V>::sqrt(x);
  Space<V>::copy(ones, p);
  Space<V>::scale(-alpha, p);
  Space<V>::divide(x, p);
  Space<V>::multiply(p, q);
  Space<V>::divide(largest, q);
  Space<V>::scale(-0.5, q);
  Space<V>::copy(state.gradient, h);
  Space<V>::scale(2 * (1 - options_.second_decay), h);
}

template <Vector V>
void Adam<V>::pullback(Motion<V>& cotangent, V& gradient) {
  const V &q = work_[0], &h = work_[1], &s = work_[3], &p = work_[4];
  V &m = cotangent.memory[0], &v = cotangent.memory[1], &largest = cotangent.memory[2], &x = work_[2];
  Space<V>::copy(cotangent.phi, x);
  Space<V>::multiply(p, x);
  Space<V>::axpy(1, x, m);
  Space<V>::copy(cotangent.phi, x);
  Space<V>::multiply(q, x);
  Space<V>::axpy(1, x, largest);
  Space<V>::copy(largest, x);
  Space<V>::multiply(s, x);
  Space<V>::axpy(-1, x, largest);
  Space<V>::axpy(correction_, x, v);
  Space<V>::copy(v, gradient);
  Space<V>::multiply(h, gradient);
  Space<V>::axpy(1 - options_.first_decay, m, gradient);
  Space<V>::scale(options_.first_decay, m);
  Space<V>::scale(options_.second_decay, v);
}

template <Vector V>
void Adam<V>::pushforward(const V& gradient, Motion<V>& tangent) {
  const V &q = work_[0], &h = work_[1], &s = work_[3], &p = work_[4];
  V &m = tangent.memory[0], &v = tangent.memory[1], &largest = tangent.memory[2], &x = work_[2];
  Space<V>::scale(options_.first_decay, m);
  Space<V>::axpy(1 - options_.first_decay, gradient, m);
  Space<V>::copy(gradient, x);
  Space<V>::multiply(h, x);
  Space<V>::scale(options_.second_decay, v);
  Space<V>::axpy(1, x, v);
  Space<V>::copy(v, x);
  Space<V>::scale(correction_, x);
  Space<V>::axpy(-1, largest, x);
  Space<V>::multiply(s, x);
  Space<V>::axpy(1, x, largest);
  Space<V>::copy(m, x);
  Space<V>::multiply(p, x);
  Space<V>::axpy(1, x, tangent.phi);
  Space<V>::copy(largest, x);
  Space<V>::multiply(q, x);
  Space<V>::axpy(1, x, tangent.phi);
}

}  // namespace bilevel
