#pragma once

#include <bilevel/networks/architecture.hpp>

namespace bilevel::networks {

// Steps of weights in single precision, compiled for wide vectors, on all cores where there are many weights.

/// w = keep·w − rate·g, kept at or above `least` (0 for conductances, −∞ for none). keep = 1 − rate·λ is
/// weight decay.
void descent_step(Index count, double keep, double rate, const float* g, float least, float* w);
/// velocity = momentum·velocity + g, then a step along it.
void momentum_step(Index count, double keep, double rate, double momentum, const float* g, float* velocity,
                   float least, float* w);
/// m = β₁m + (1−β₁)g, v = β₂v + (1−β₂)g², w = keep·w − rate·m/(√(correction·v) + ε), kept at or above
/// `least`.
void adam_step(Index count, double keep, double rate, double correction, double beta1, double beta2,
               double epsilon, const float* g, float* m, float* v, float least, float* w);

}  // namespace bilevel::networks
