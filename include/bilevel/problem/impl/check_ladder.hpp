#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

/// A derivative measured by differences.
struct LadderDerivative {
  double value = unknown;  ///< NaN where the function was not finite near the point
  double noise = unknown;  ///< what rounding alone can have changed it by
  double step = unknown;
};

/// f′(0) by central differences D(h) = (f(h) − f(−h)) / 2h on a ladder of steps h = scale·2^−3, scale·2^−5, …
/// down to scale·u^0.6. Neighbours are extrapolated, E = (16·D(h/4) − D(h)) / 15, which removes the h² term
/// of the error (Ridders). The value returned is that of the plateau, where three neighbouring E differ least
/// beyond the noise: the choice does not look at the claimed derivative, so a wrong claim cannot be met by
/// accident on one of many steps. Noise of f is read off the smallest steps, where the error is rounding
/// alone.
template <class Function>
LadderDerivative differentiate_on_ladder(Function&& f, double scale, double unit_roundoff) {
  std::vector<double> steps, quotients;
  double largest = 0;
  for (double h = 0.125; h >= std::pow(unit_roundoff, 0.6); h /= 4) {
    const double step = h * scale, above = f(step), below = f(-step);
    if (!std::isfinite(above) || !std::isfinite(below)) {
      // A large step may leave the domain (a logarithm); what lies below it counts afresh.
      steps.clear();
      quotients.clear();
      largest = 0;
      continue;
    }
    steps.push_back(step);
    quotients.push_back((above - below) / (2 * step));
    largest = std::max({largest, std::abs(above), std::abs(below)});
  }
  const std::size_t rungs = steps.size();
  if (rungs < 5) return {};

  double noise = unit_roundoff * largest;
  for (std::size_t k = rungs - 3; k + 1 < rungs; ++k)
    noise = std::max(noise, std::abs(quotients[k + 1] - quotients[k]) * steps[k + 1]);

  std::vector<double> extrapolated;
  for (std::size_t k = 0; k + 1 < rungs; ++k)
    extrapolated.push_back((16 * quotients[k + 1] - quotients[k]) / 15);
  LadderDerivative best;
  double least = everywhere;
  for (std::size_t k = 0; k + 2 < extrapolated.size(); ++k) {
    const double spread = std::max(std::abs(extrapolated[k + 1] - extrapolated[k]),
                                   std::abs(extrapolated[k + 2] - extrapolated[k + 1])) +
                          noise / steps[k + 2];
    if (spread < least) {
      least = spread;
      // What was read off a few rungs is one draw of the noise: several times as much is ordinary.
      best = {extrapolated[k + 1], 8 * noise / steps[k + 2], steps[k + 2]};
    }
  }
  return best;
}

}  // namespace bilevel
