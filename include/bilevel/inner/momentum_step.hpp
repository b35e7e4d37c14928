#pragma once

#include <bilevel/inner/curvature_scale.hpp>
#include <bilevel/inner/step.hpp>

namespace bilevel {

/// One plain step as a linear map of φ, of one vector u that it remembers, and of the gradient:
///   where `swaps`, φ and u change places;   u ← keep·u − step·∇(φ),   φ ← stay·φ + go·u.
/// A step that remembers nothing is φ ← φ − step·∇(φ).
struct StepCoefficients {
  double step = unknown;
  double momentum = 0;  ///< as it is reported; the others follow from it
  bool swaps = false;
  double keep = 0, stay = 1, go = 1;
};

/// What gradient descent, the heavy ball and Nesterov's method share. Options has
///   name, and whether it `remembers` a vector (constants)
///   step, 0 to choose it from L; validate()
///   coefficients(mu, smoothness, quadratic), where mu and smoothness may be NaN
template <Vector V, class Options>
class MomentumStep final : public Step<V> {
 public:
  explicit MomentumStep(Options options = {});
  std::string_view name() const override { return Options::name; }
  void check(Nudged<V>& nudged, const State<V>& state) override;
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::string note() const override;
  std::size_t bytes() const override { return scale_.bytes(); }
  bool differentiable() const override { return true; }
  Footprint footprint() const override { return {.memory = Options::remembers ? 1u : 0u, .scratch = 2}; }
  void pullback(Motion<V>& cotangent, V& gradient) override;
  void pushforward(const V& gradient, Motion<V>& tangent) override;
  double step() const { return use_.step; }
  double momentum() const { return use_.momentum; }

 private:
  void map(const V& gradient, V& phi, std::vector<V>& memory) const;

  Options options_;
  CurvatureScale<V> scale_;
  StepCoefficients use_;
};

}  // namespace bilevel
