#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/inner/nudged.hpp>
#include <bilevel/space/inverse_approximation.hpp>

namespace bilevel {

/// Everything that one iteration hands to the next.
template <Vector V>
struct State {
  explicit State(const V& like) : phi(Space<V>::zeros_like(like)), gradient(Space<V>::zeros_like(like)) {}

  V phi;
  V gradient;                      ///< at phi, where `evaluated`
  double value = unknown;          ///< at phi, where `evaluated`
  double gradient_norm = unknown;  ///< at phi, where `evaluated`
  bool evaluated = false;
  long iteration = 0;
  std::vector<V> memory;  ///< what a step remembers besides phi (momentum, moments)
  /// A running average of |value| (Hager and Zhang 2005, eq. 4.3): differences of values that are
  /// small against it are rounding.
  double value_scale = 0;
  double reach = 0;  ///< ‖φ‖ beyond which the run counts as diverged

  /// Differences of values below this say nothing: a third of the digits is left to the cancellation
  /// of terms that are larger than their sum.
  double value_noise() const { return std::pow(unit_roundoff<V>(), 2.0 / 3.0) * value_scale; }

  /// To a start that nothing is known about yet.
  void restart(const V& start) {
    Space<V>::copy(start, phi);
    evaluated = false;
    iteration = 0;
    value = gradient_norm = unknown;
  }

  /// At least `count` memory vectors of phi's shape, the first `count` of them zero.
  void reset_memory(std::size_t count) {
    while (memory.size() < count) memory.push_back(Space<V>::zeros_like(phi));
    for (std::size_t i = 0; i < count; ++i) Space<V>::scale(0, memory[i]);
  }
};

/// A derivative of φ and of what a step remembers, or a cotangent of them.
template <Vector V>
struct Motion {
  Motion(const V& like, std::size_t remembered) : phi(Space<V>::zeros_like(like)) {
    for (std::size_t i = 0; i < remembered; ++i) memory.push_back(Space<V>::zeros_like(like));
  }

  V phi;
  std::vector<V> memory;  ///< of the first Footprint::memory vectors of State::memory

  void reset() {
    Space<V>::scale(0, phi);
    for (V& each : memory) Space<V>::scale(0, each);
  }
};

/// Value and gradient at state.phi, unless they are there; the fault where an oracle gave what is not finite.
template <Vector V>
std::optional<Stop> evaluate(Nudged<V>& nudged, State<V>& state) {
  if (state.evaluated) return {};
  state.value = nudged.value_and_gradient(state.phi, state.gradient);
  state.gradient_norm = norm(state.gradient);
  state.evaluated = true;
  return nudged.fault(state.value, state.gradient, state.gradient_norm, state.iteration);
}

/// Vectors of φ's shape that a step makes use of.
struct Footprint {
  std::size_t memory = 0;   ///< at the front of State::memory: what one iteration hands to the next
  std::size_t scratch = 0;  ///< all others, in the state or of its own, that it may hold at once
};

/// One iteration of a minimiser. The gradient is always that AT state.phi, so a plain step is a map
/// (φ, memory, ∇(φ)) → (φ, memory) and leaves the new point unevaluated; a step that searches
/// leaves value, gradient and gradient_norm of the new point evaluated.
template <Vector V>
class Step {
 public:
  virtual ~Step() = default;
  virtual std::string_view name() const = 0;
  /// Throws InvalidInput where this step cannot serve the problem. Calls no oracle but constants().
  virtual void check(Nudged<V>& nudged, const State<V>& state) = 0;
  /// Before the first iteration of a run; the start has been evaluated. Sizes everything.
  virtual std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) = 0;
  /// From one iterate to the next; where it stops instead, state still holds the last good iterate.
  virtual std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) = 0;
  /// Whether it searches: every iterate is then at least as good as those before it, up to rounding.
  virtual bool searches() const { return false; }
  /// What it knows about the inverse Hessian near the last iterate (see InnerSolver); null for nothing.
  virtual InverseApproximation<V>* inverse_hessian() { return nullptr; }
  /// What was used where the options left a choice, and what had to be done about it.
  virtual std::string note() const { return {}; }
  /// Of the vectors and matrices held by the step itself, without those in the state.
  virtual std::size_t bytes() const { return 0; }

  /// Whether the step is a plain map that can be differentiated: the functions below work. What `begin`
  /// chose (the step length, the momentum) counts as a constant in them.
  virtual bool differentiable() const { return false; }
  /// Of a differentiable step.
  virtual Footprint footprint() const { return {}; }
  /// Whether φ, memory and gradient enter linearly: the derivative is the same everywhere, and
  /// `differentiate` need not be called.
  virtual bool linear() const { return true; }
  /// Prepares the derivative of the advance that would follow from `state`, whose gradient is evaluated;
  /// only scratch of the state is changed.
  virtual void differentiate(State<V>& /*state*/) {}
  /// `cotangent` of (φ, memory) after the advance becomes that of (φ, memory) before it, without what
  /// passes through the gradient's dependence on φ; `gradient` is overwritten by the gradient's cotangent.
  virtual void pullback(Motion<V>& /*cotangent*/, V& /*gradient*/) { refuse_derivative(); }
  /// `tangent` of (φ, memory) before the advance becomes that after it, where the gradient's is `gradient`.
  virtual void pushforward(const V& /*gradient*/, Motion<V>& /*tangent*/) { refuse_derivative(); }

 private:
  [[noreturn]] void refuse_derivative() const {
    throw InvalidInput(fmt::format("{}: this step has no derivative", name()));
  }
};

}  // namespace bilevel
