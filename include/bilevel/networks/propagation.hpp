#pragma once

#include <cstdint>
#include <memory>

#include <bilevel/gradient/equilibrium_propagation.hpp>
#include <bilevel/networks/relaxation.hpp>

namespace bilevel::networks {

/// How a training step estimates the gradient.
struct PropagationOptions {
  Nudge nudge = Nudge::central;
  int points = 2;  ///< of Nudge::forward, 2 … 8
  /// N > 0: holomorphic, with N points on the circle of radius β around 0 in the complex plane instead of the
  /// nudge's; even. The bias falls like β^N and N/2 phases are settled, the others being their conjugates.
  /// Networks of sigmoid or tanh units alone: the others are not analytic.
  int circle = 0;
  double beta = 0.5;  ///< strength of the nudge on every sample; not 0
  RelaxationOptions free = {.max_steps = 20};
  RelaxationOptions nudged = {.max_steps = 4};
  /// Deviation of normal noise added to what every layer receives in every step of every phase; ≥ 0. Of
  /// predictive coding: to what the layer below predicts.
  double noise = 0;
  std::uint64_t seed = 1;  ///< of signs and noise

  Violations validate() const;
};

/// What a batch showed on the way.
struct BatchOutcome {
  double cost = 0;      ///< mean of L_out in the free phase
  Index wrong = 0;      ///< samples whose largest output is not where the target's is
  double residual = 0;  ///< mean over the samples of the largest movement in the last free step
  double steps = 0;     ///< mean number of free steps
  double nudged_residual = 0;
  /// Least curvature of an output's own energy in any phase of the gradient. At or below 0 a negative nudge
  /// outweighs it: there is no minimum to settle to, and the gradient means nothing.
  double stiffness = 1;
  bool finite = true;  ///< false: a state or the gradient holds NaN or infinity
};

/// Equilibrium propagation on batches at the speed of the machine, in float or double: the estimators of
/// gradient/equilibrium_propagation.hpp with β given, for networks alone.
///   ∇̂ = 1/(βB) Σ_n Σ_i α_i ∂θE(φ̂_{iβ,n}),   on a circle ∇̂ = 1/(NB) Σ_n Σ_k ∂θE(φ̂_{b_k,n})/b_k
/// Products with the clamped inputs are made once for all phases; each layer's weight gradient is one matrix
/// product for all phases; samples are divided among the cores in blocks that depend on nothing but the
/// batch, so results are the same for every number of threads. Nothing is allocated once a batch of the
/// largest size was seen.
template <class S>
class Propagation {
 public:
  /// Samples × parameters from which on a gradient is divided among threads.
  static constexpr Index least_divided = Index{1} << 22;

  Propagation(Architecture architecture, PropagationOptions options);
  ~Propagation();

  const Architecture& architecture() const;
  const PropagationOptions& options() const;

  /// Inputs and targets have one sample a column. `states` (Σn_k × batch, a sample's layers one after the
  /// other; null: start at rest) is where the free phase starts from, and where it ended. `gradient` has the
  /// size of θ.
  BatchOutcome gradient(const S* theta, const S* inputs, const S* targets, Index batch, S* states,
                        S* gradient);
  /// Signs and noise of a batch follow from the seed and the number of gradients before it: this many.
  void seek(std::uint64_t gradients);
  /// The free phase alone; `outputs` (n_K × batch) may be null.
  BatchOutcome settle(const S* theta, const S* inputs, const S* targets, Index batch, S* outputs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

extern template class Propagation<float>;
extern template class Propagation<double>;

}  // namespace bilevel::networks
