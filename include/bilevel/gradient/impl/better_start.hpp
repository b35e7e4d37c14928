#pragma once

#include <cmath>
#include <optional>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

/// Where to settle from: the warm state, unless the problem's own start leaves a smaller residual at this θ
/// (the never-worse guard). `scratch` has φ's shape.
template <Vector V>
V better_start(Equilibrium<V>& problem, const V& theta, const std::optional<V>& warm, V& scratch) {
  V initial = problem.initial_phi();
  if (!warm || Space<V>::size(*warm) != Space<V>::size(initial) || !all_finite(*warm)) return initial;
  problem.residual(initial, theta, scratch);
  const double from_initial = norm(scratch);
  problem.residual(*warm, theta, scratch);
  const double from_warm = norm(scratch);
  return from_warm <= from_initial || std::isnan(from_initial) ? *warm : initial;
}

}  // namespace bilevel
