#pragma once

#include <cmath>

#include <bilevel/space/space.hpp>

namespace bilevel {

/// What every Adam of the library is made of (Kingma and Ba 2015): of the gradients g of iterations k = 1, 2, …
///   m ← b₁m + (1 − b₁)g,   v ← b₂v + (1 − b₂)g²,
/// means whose weights add up to 1 − b₁ᵏ and 1 − b₂ᵏ; a step goes along −m/(1 − b₁ᵏ) over √(v/(1 − b₂ᵏ)). The
/// inner minimiser adds the maximum of AMSGrad, the outer optimiser projects; the weights of a network take the
/// same step in one pass over memory (networks/weight_steps.hpp).
struct AdamMoments {
  double first_decay = 0.9;     ///< b₁, in [0, 1)
  double second_decay = 0.999;  ///< b₂, in [0, 1)

  double first_weight(double k) const { return 1 - std::pow(first_decay, k); }
  double second_weight(double k) const { return 1 - std::pow(second_decay, k); }

  /// `square` is scratch, and g² afterwards.
  template <Vector V>
  void update(const V& gradient, V& m, V& v, V& square) const {
    Space<V>::scale(first_decay, m);
    Space<V>::axpy(1 - first_decay, gradient, m);
    Space<V>::copy(gradient, square);
    Space<V>::multiply(gradient, square);
    Space<V>::scale(second_decay, v);
    Space<V>::axpy(1 - second_decay, square, v);
  }
};

}  // namespace bilevel
