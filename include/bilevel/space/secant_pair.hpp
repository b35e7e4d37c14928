#pragma once

#include <bilevel/space/space.hpp>

namespace bilevel {

/// What L-BFGS remembers of a step.
template <Vector V>
struct SecantPair {
  V s, y;                  ///< the step and the change of the gradient along it
  double curvature = 0;    ///< sᵀy, among the variables that are free; a pair without positive one is passed over
  double coefficient = 0;  ///< of the two-loop recursion
};

/// p ← B⁻¹p by the two-loop recursion (Nocedal and Wright 2006, algorithm 7.4) from B⁻¹ = scale·1 and `count`
/// pairs: pair(0) is the newest. `hold` sets the components of a vector that are not free to zero; p has them at
/// zero already.
template <Vector V, class Pair, class Hold>
void apply_secant_pairs(long count, Pair&& pair, double scale, V& p, Hold&& hold) {
  for (long age = 0; age < count; ++age) {
    SecantPair<V>& k = pair(age);
    if (!(k.curvature > 0)) continue;
    k.coefficient = Space<V>::dot(k.s, p) / k.curvature;
    Space<V>::axpy(-k.coefficient, k.y, p);
    hold(p);
  }
  Space<V>::scale(scale, p);
  for (long age = count - 1; age >= 0; --age) {
    const SecantPair<V>& k = pair(age);
    if (!(k.curvature > 0)) continue;
    Space<V>::axpy(k.coefficient - Space<V>::dot(k.y, p) / k.curvature, k.s, p);
    hold(p);
  }
}

}  // namespace bilevel
