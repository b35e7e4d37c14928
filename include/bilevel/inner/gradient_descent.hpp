#pragma once

#include <bilevel/inner/curvature_scale.hpp>
#include <bilevel/inner/step.hpp>

namespace bilevel {

struct GradientDescentOptions {
  /// α in φ ← φ − α∇(φ); ≥ 0. 0, the default, is 1/L, the longest step that never increases a loss
  /// whose gradient is L-Lipschitz: L from the problem's constants where they hold everywhere, else
  /// measured at the start.
  double step = 0;

  Violations validate() const {
    Violations v("gradient-descent");
    v.not_negative("step", step);
    return v;
  }
};

/// φ ← φ − α∇(φ). On a μ-strongly convex loss ‖φ_k − φ*‖ ≤ (1 − μ/L)ᵏ ‖φ_0 − φ*‖ with α = 1/L.
template <Vector V>
class GradientDescent final : public Step<V> {
 public:
  explicit GradientDescent(GradientDescentOptions options = {});
  std::string_view name() const override { return "gradient-descent"; }
  void check(Nudged<V>& nudged, const State<V>& state) override;
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::string note() const override;
  std::size_t bytes() const override { return scale_.bytes(); }
  bool differentiable() const override { return true; }
  Footprint footprint() const override { return {.memory = 0, .scratch = 2}; }
  void pullback(Motion<V>& cotangent, V& gradient) override;
  void pushforward(const V& gradient, Motion<V>& tangent) override;
  double step() const { return step_; }

 private:
  GradientDescentOptions options_;
  CurvatureScale<V> scale_;
  double step_ = unknown;
};

template <Vector V>
GradientDescent<V>::GradientDescent(GradientDescentOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void GradientDescent<V>::check(Nudged<V>& nudged, const State<V>& state) {
  step_ = unknown;
  if (options_.step == 0) scale_.check(nudged, state.phi, true, name());
}

template <Vector V>
std::optional<Stop> GradientDescent<V>::begin(Nudged<V>& nudged, State<V>& state) {
  if (options_.step == 0)
    if (auto stop = scale_.measure(nudged, state.phi)) return stop;
  step_ = options_.step > 0 ? options_.step : 1 / scale_.smoothness();
  return {};
}

template <Vector V>
std::optional<Stop> GradientDescent<V>::advance(Nudged<V>&, State<V>& state) {
  Space<V>::axpy(-step_, state.gradient, state.phi);
  state.evaluated = false;
  return {};
}

template <Vector V>
std::string GradientDescent<V>::note() const {
  if (options_.step > 0 || std::isnan(step_)) return {};
  return fmt::format("step {:.3g} = 1/L from {}", step_, scale_.source());
}

template <Vector V>
void GradientDescent<V>::pullback(Motion<V>& cotangent, V& gradient) {
  Space<V>::copy(cotangent.phi, gradient);
  Space<V>::scale(-step_, gradient);
}

template <Vector V>
void GradientDescent<V>::pushforward(const V& gradient, Motion<V>& tangent) {
  Space<V>::axpy(-step_, gradient, tangent.phi);
}

extern template class GradientDescent<Eigen::VectorXd>;
extern template class GradientDescent<Eigen::VectorXf>;

}  // namespace bilevel
