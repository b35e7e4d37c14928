#pragma once

#include <bilevel/inner/curvature_scale.hpp>
#include <bilevel/inner/step.hpp>

namespace bilevel {

template <Vector V>
void CurvatureScale<V>::check(Nudged<V>& nudged, const V& phi, bool needed, std::string_view who) {
  const Constants c = nudged.constants(phi, everywhere);
  smoothness_ = c.smoothness > 0 ? c.smoothness : unknown;
  mu_ = c.mu > 0 ? c.mu : unknown;
  quadratic_ = c.hessian_lipschitz == 0;
  source_ = "the problem's constants";
  bytes_ = 0;
  if (needed && std::isnan(smoothness_) && !nudged.capabilities().curvature)
    throw InvalidInput(
        fmt::format("{}: step = 0 asks for 1/L, but the problem knows no smoothness constant and has no "
                    "curvature to measure it on: set step, or use gradient-descent-backtracking",
                    who));
}

template <Vector V>
std::optional<Stop> CurvatureScale<V>::measure(Nudged<V>& nudged, const V& phi) {
  if (!std::isnan(smoothness_)) return {};
  // ‖Hᵏv‖/‖Hᵏ⁻¹v‖ approaches ‖H‖ from below; 30 products from a random v come within a few per cent
  // up to millions of variables, and the factor covers the rest and a little growth along the way.
  constexpr int products = 30;
  constexpr double margin = 1.2;
  V v = Space<V>::zeros_like(phi), hv = Space<V>::zeros_like(phi);
  bytes_ = 2 * bytes_of(v);
  Space<V>::random(1, v);
  Space<V>::scale(1 / norm(v), v);
  Curvature<V>& curvature = nudged.curvature(phi);
  double largest = 0;
  for (int k = 0; k < products; ++k) {
    curvature.times(v, hv);
    const double length = norm(hv);
    if (!std::isfinite(length))
      return Stop{Status::not_finite,
                  "the Hessian product is not finite at iteration 0, while L was measured"};
    if (length == 0) break;
    largest = std::max(largest, length);
    Space<V>::copy(hv, v);
    Space<V>::scale(1 / length, v);
  }
  if (largest == 0)
    return Stop{Status::singular,
                "the Hessian at the start is zero, which gives no step length 1/L: set step"};
  smoothness_ = margin * largest;
  source_ = "the power method at the start";
  return {};
}

}  // namespace bilevel
