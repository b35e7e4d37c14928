#pragma once

#include <bilevel/inner/momentum_step.hpp>
#include <bilevel/inner/impl/curvature_scale.hpp>

namespace bilevel {

template <Vector V, class Options>
MomentumStep<V, Options>::MomentumStep(Options options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V, class Options>
void MomentumStep<V, Options>::check(Nudged<V>& nudged, const State<V>& state) {
  use_.step = unknown;
  if (options_.step == 0 || Options::remembers) scale_.check(nudged, state.phi, options_.step == 0, name());
}

template <Vector V, class Options>
std::optional<Stop> MomentumStep<V, Options>::begin(Nudged<V>& nudged, State<V>& state) {
  if (options_.step == 0)
    if (auto stop = scale_.measure(nudged, state.phi)) return stop;
  use_ = options_.coefficients(scale_.mu(), scale_.smoothness(), scale_.quadratic());
  if (Options::remembers) state.reset_memory(1);
  // What changes places with φ starts there; what does not is a difference, and starts at zero.
  if (use_.swaps) Space<V>::copy(state.phi, state.memory[0]);
  return {};
}

template <Vector V, class Options>
void MomentumStep<V, Options>::map(const V& gradient, V& phi, std::vector<V>& memory) const {
  if (!Options::remembers) return Space<V>::axpy(-use_.step, gradient, phi);
  V& u = memory[0];
  if (use_.swaps) std::swap(phi, u);
  if (use_.keep != 1) Space<V>::scale(use_.keep, u);
  Space<V>::axpy(-use_.step, gradient, u);
  if (use_.stay != 1) Space<V>::scale(use_.stay, phi);
  Space<V>::axpy(use_.go, u, phi);
}

template <Vector V, class Options>
std::optional<Stop> MomentumStep<V, Options>::advance(Nudged<V>&, State<V>& state) {
  map(state.gradient, state.phi, state.memory);
  state.evaluated = false;
  return {};
}

template <Vector V, class Options>
void MomentumStep<V, Options>::pushforward(const V& gradient, Motion<V>& tangent) {
  map(gradient, tangent.phi, tangent.memory);
}

/// The map's transpose: its lines backwards.
template <Vector V, class Options>
void MomentumStep<V, Options>::pullback(Motion<V>& cotangent, V& gradient) {
  V& phi = cotangent.phi;
  V& u = Options::remembers ? cotangent.memory[0] : phi;
  if (Options::remembers) {
    Space<V>::axpy(use_.go, phi, u);
    if (use_.stay != 1) Space<V>::scale(use_.stay, phi);
  }
  Space<V>::copy(u, gradient);
  Space<V>::scale(-use_.step, gradient);
  if (!Options::remembers) return;
  if (use_.keep != 1) Space<V>::scale(use_.keep, u);
  if (use_.swaps) std::swap(phi, u);
}

template <Vector V, class Options>
std::string MomentumStep<V, Options>::note() const {
  const bool chosen = options_.step == 0;
  if (std::isnan(use_.step) || (!Options::remembers && !chosen)) return {};
  if (!Options::remembers) return fmt::format("step {:.3g} = 1/L from {}", use_.step, scale_.source());
  return fmt::format("step {:.3g}, momentum {:.3g}{}{}", use_.step, use_.momentum, chosen ? ", L from " : "",
                     chosen ? scale_.source() : "");
}

}  // namespace bilevel
