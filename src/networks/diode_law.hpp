#pragma once

#include <cmath>
#include <numbers>

#include <bilevel/networks/circuit.hpp>

namespace bilevel::networks {

/// Current, slope and co-content ∫₀ᵘ i of a diode at u volts: see Diode.
struct DiodeLaw {
  /// exp is continued by its tangent from here on, so that trial points of a line search stay finite. No
  /// circuit rests there: the current is beyond 1e200 times Is.
  static constexpr double steepest = 500;

  DiodeLaw(const Diode& diode, double gmin)
      : is(diode.saturation_current), v(diode.thermal_volts()), shunt(gmin) {}

  double current(double u) const {
    const double ratio = u / v;
    if (ratio > steepest) return is * (std::exp(steepest) * (1 + ratio - steepest) - 1) + shunt * u;
    if (ratio >= -3) return is * std::expm1(ratio) + shunt * u;
    return -is * (1 + cube(ratio)) + shunt * u;
  }
  double slope(double u) const {
    const double ratio = u / v;
    if (ratio >= -3) return is / v * std::exp(std::min(ratio, steepest)) + shunt;
    return 3 * is * cube(ratio) / u + shunt;
  }
  double content(double u) const {
    const double ratio = u / v, quadratic = 0.5 * shunt * u * u;
    if (ratio > steepest) {
      const double excess = ratio - steepest;
      return is * v * (std::exp(steepest) * (1 + excess + 0.5 * excess * excess) - 1 - ratio) + quadratic;
    }
    if (ratio >= -3) return is * v * (std::expm1(ratio) - ratio) + quadratic;
    // ∫ of −Is(1 + (3/(e·r))³) from −3 to r, and what is above −3.
    const double cubed = 27 * std::exp(-3.0);
    return is * v * (std::expm1(-3.0) + 3 - (ratio + 3) + 0.5 * cubed * (1 / (ratio * ratio) - 1.0 / 9)) +
           quadratic;
  }

  double is, v, shunt;

 private:
  static double cube(double ratio) {
    const double x = 3 / (ratio * std::numbers::e);
    return x * x * x;
  }
};

}  // namespace bilevel::networks
