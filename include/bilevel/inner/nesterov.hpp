#pragma once

#include <optional>

#include <bilevel/inner/curvature_scale.hpp>
#include <bilevel/inner/step.hpp>

namespace bilevel {

struct NesterovOptions {
  /// α; ≥ 0. 0, the default, is 1/L as in GradientDescentOptions.
  double step = 0;
  /// m; in [0, 1). Default: (1 − √(αμ))/(1 + √(αμ)) where μ is known, which contracts the error by
  /// 1 − 1/√κ an iteration (Nesterov 2004, theorem 2.2.3); else 0.9.
  std::optional<double> momentum;

  Violations validate() const {
    Violations v("nesterov");
    v.not_negative("step", step);
    if (momentum) v.require(*momentum >= 0 && *momentum < 1, "momentum", *momentum, "must lie in [0, 1)");
    return v;
  }
};

/// Nesterov's accelerated gradient, in the form where φ is the extrapolated point, at which the
/// gradient is taken:
///   x_{k+1} = φ_k − α∇(φ_k),   φ_{k+1} = x_{k+1} + m(x_{k+1} − x_k),   x_0 = φ_0.
/// state.memory[0] is x.
template <Vector V>
class Nesterov final : public Step<V> {
 public:
  explicit Nesterov(NesterovOptions options = {});
  std::string_view name() const override { return "nesterov"; }
  void check(Nudged<V>& nudged, const State<V>& state) override;
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::string note() const override;
  std::size_t bytes() const override { return scale_.bytes(); }
  bool differentiable() const override { return true; }
  Footprint footprint() const override { return {.memory = 1, .scratch = 2}; }
  void pullback(Motion<V>& cotangent, V& gradient) override;
  void pushforward(const V& gradient, Motion<V>& tangent) override;
  double step() const { return step_; }
  double momentum() const { return momentum_; }

 private:
  NesterovOptions options_;
  CurvatureScale<V> scale_;
  double step_ = unknown, momentum_ = unknown;
};

template <Vector V>
Nesterov<V>::Nesterov(NesterovOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void Nesterov<V>::check(Nudged<V>& nudged, const State<V>& state) {
  step_ = unknown;
  scale_.check(nudged, state.phi, options_.step == 0, name());
}

template <Vector V>
std::optional<Stop> Nesterov<V>::begin(Nudged<V>& nudged, State<V>& state) {
  if (options_.step == 0)
    if (auto stop = scale_.measure(nudged, state.phi)) return stop;
  step_ = options_.step > 0 ? options_.step : 1 / scale_.smoothness();
  const double root = std::sqrt(step_ * scale_.mu());
  momentum_ = root > 0 && root <= 1 ? (1 - root) / (1 + root) : 0.9;
  if (options_.momentum) momentum_ = *options_.momentum;
  state.reset_memory(1);
  Space<V>::copy(state.phi, state.memory[0]);
  return {};
}

template <Vector V>
std::optional<Stop> Nesterov<V>::advance(Nudged<V>&, State<V>& state) {
  V& x = state.memory[0];
  V& phi = state.phi;
  Space<V>::axpy(-step_, state.gradient, phi);  // x_{k+1}
  // φ = (1 + m)·x_{k+1} − m·x_k, and x = x_{k+1} recovered without a second vector: swap, then combine.
  std::swap(x, phi);
  Space<V>::scale(-momentum_, phi);
  Space<V>::axpy(1 + momentum_, x, phi);
  state.evaluated = false;
  return {};
}

template <Vector V>
std::string Nesterov<V>::note() const {
  if (std::isnan(step_)) return {};
  return fmt::format("step {:.3g}, momentum {:.3g}{}{}", step_, momentum_,
                     options_.step > 0 ? "" : ", L from ", options_.step > 0 ? "" : scale_.source());
}

template <Vector V>
void Nesterov<V>::pullback(Motion<V>& cotangent, V& gradient) {
  // The cotangent of x_{k+1} in all is φ_k's; x_k's is what φ_{k+1} had of it.
  Space<V>::axpy(1 + momentum_, cotangent.phi, cotangent.memory[0]);
  std::swap(cotangent.phi, cotangent.memory[0]);
  Space<V>::scale(-momentum_, cotangent.memory[0]);
  Space<V>::copy(cotangent.phi, gradient);
  Space<V>::scale(-step_, gradient);
}

template <Vector V>
void Nesterov<V>::pushforward(const V& gradient, Motion<V>& tangent) {
  Space<V>::axpy(-step_, gradient, tangent.phi);
  std::swap(tangent.phi, tangent.memory[0]);
  Space<V>::scale(-momentum_, tangent.phi);
  Space<V>::axpy(1 + momentum_, tangent.memory[0], tangent.phi);
}

extern template class Nesterov<Eigen::VectorXd>;
extern template class Nesterov<Eigen::VectorXf>;

}  // namespace bilevel
