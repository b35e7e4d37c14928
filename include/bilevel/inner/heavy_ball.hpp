#pragma once

#include <optional>

#include <bilevel/inner/curvature_scale.hpp>
#include <bilevel/inner/step.hpp>

namespace bilevel {

struct HeavyBallOptions {
  /// α; ≥ 0. 0, the default: 4/(√L + √μ)² on a quadratic whose μ and L are known (Polyak's optimum),
  /// else 1/L, because Polyak's choice may cycle where the curvature varies (Lessard et al. 2016).
  double step = 0;
  /// m; in [0, 1). Default: ((√κ − 1)/(√κ + 1))² with Polyak's step, (1 − 1/√κ)² with 1/L, κ = L/μ;
  /// 0.9 where μ is not known.
  std::optional<double> momentum;

  Violations validate() const {
    Violations v("heavy-ball");
    v.not_negative("step", step);
    if (momentum) v.require(*momentum >= 0 && *momentum < 1, "momentum", *momentum, "must lie in [0, 1)");
    return v;
  }
};

/// Polyak's heavy ball: d ← m·d − α∇(φ), φ ← φ + d. state.memory[0] is d.
template <Vector V>
class HeavyBall final : public Step<V> {
 public:
  explicit HeavyBall(HeavyBallOptions options = {});
  std::string_view name() const override { return "heavy-ball"; }
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
  HeavyBallOptions options_;
  CurvatureScale<V> scale_;
  double step_ = unknown, momentum_ = unknown;
};

template <Vector V>
HeavyBall<V>::HeavyBall(HeavyBallOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void HeavyBall<V>::check(Nudged<V>& nudged, const State<V>& state) {
  step_ = unknown;
  scale_.check(nudged, state.phi, options_.step == 0, name());
}

template <Vector V>
std::optional<Stop> HeavyBall<V>::begin(Nudged<V>& nudged, State<V>& state) {
  if (options_.step == 0)
    if (auto stop = scale_.measure(nudged, state.phi)) return stop;
  const double root_mu = std::sqrt(scale_.mu()), root_l = std::sqrt(scale_.smoothness());
  const bool know_mu = root_mu > 0 && root_l > 0;
  const bool polyak = options_.step == 0 && scale_.quadratic() && know_mu;
  if (polyak) {
    step_ = 4 / ((root_l + root_mu) * (root_l + root_mu));
    momentum_ = (root_l - root_mu) / (root_l + root_mu);
    momentum_ *= momentum_;
  } else {
    step_ = options_.step > 0 ? options_.step : 1 / scale_.smoothness();
    const double root = 1 - root_mu / root_l;
    momentum_ = know_mu ? root * root : 0.9;
  }
  if (options_.momentum) momentum_ = *options_.momentum;
  state.reset_memory(1);
  return {};
}

template <Vector V>
std::optional<Stop> HeavyBall<V>::advance(Nudged<V>&, State<V>& state) {
  V& d = state.memory[0];
  Space<V>::scale(momentum_, d);
  Space<V>::axpy(-step_, state.gradient, d);
  Space<V>::axpy(1, d, state.phi);
  state.evaluated = false;
  return {};
}

template <Vector V>
std::string HeavyBall<V>::note() const {
  if (std::isnan(step_)) return {};
  return fmt::format("step {:.3g}, momentum {:.3g}{}{}", step_, momentum_,
                     options_.step > 0 ? "" : ", L from ", options_.step > 0 ? "" : scale_.source());
}

template <Vector V>
void HeavyBall<V>::pullback(Motion<V>& cotangent, V& gradient) {
  V& d = cotangent.memory[0];
  Space<V>::axpy(1, cotangent.phi, d);
  Space<V>::copy(d, gradient);
  Space<V>::scale(-step_, gradient);
  Space<V>::scale(momentum_, d);
}

template <Vector V>
void HeavyBall<V>::pushforward(const V& gradient, Motion<V>& tangent) {
  V& d = tangent.memory[0];
  Space<V>::scale(momentum_, d);
  Space<V>::axpy(-step_, gradient, d);
  Space<V>::axpy(1, d, tangent.phi);
}

extern template class HeavyBall<Eigen::VectorXd>;
extern template class HeavyBall<Eigen::VectorXf>;

}  // namespace bilevel
