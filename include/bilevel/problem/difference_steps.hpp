#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

namespace bilevel {

/// How a difference quotient Q changes with its step: the relative differences of Q(h) to Q(h/8), and of
/// Q(h/8) to Q(h/64). Not finite where a loss was not.
struct QuotientChange {
  double wide, narrow;

  /// Of steps so short that nothing changes at all.
  static QuotientChange nothing() { return {0, 1}; }
};

/// The step of a central difference along one direction, from where its quotient begins to bend. With
///   Q(h) = Q(0)·(1 + (h/ℓ)² + …) + noise/h
/// the change grows with h where the loss bends, and as h falls where there is nothing but rounding. The
/// search climbs from `shortest`, where there is: a loss that bends at two lengths looks straight again
/// beyond the first. The step is ∛u·ℓ, which balances both.
inline double difference_step(const std::function<QuotientChange(double)>& change, double shortest,
                              double roundoff) {
  constexpr double rung = 64, chaos = 0.3;
  constexpr int rungs_up = 13, rungs_down = 4, straight_enough = 3;
  // A quotient that changes by less is as good as it need be. Where the loss does not bend along this
  // direction it may along others that are mixed with it: the step stays well below the length that was
  // looked at.
  const double exact = 5 * std::cbrt(roundoff * roundoff), share = 3 * std::cbrt(roundoff);
  double quietest = shortest, least = chaos, straight = 0;
  int seen_straight = 0;
  for (int k = 0; k < rungs_up + rungs_down; ++k) {
    const bool down = k >= rungs_up;
    const double h = shortest * std::pow(rung, down ? rungs_up - 1 - k : k);
    QuotientChange q = change(h);
    if (!std::isfinite(q.wide) || !std::isfinite(q.narrow)) q = {1, 1};
    const double worst = std::max(q.wide, q.narrow);
    if (worst < least) {
      least = worst;
      quietest = h;
    }
    if (worst <= exact) {
      straight = h;
      if (++seen_straight == straight_enough || down) return share * straight;
    } else if (q.wide <= chaos && 4 * q.narrow <= q.wide) {
      return share * h / std::sqrt(q.wide);
    } else if (q.wide > chaos && straight > 0 && h <= 2 * rung * straight) {
      return share * straight;
    }
  }
  // Noise or kinks whatever the step, or the one rung that would have shown more was too long: the quietest.
  return quietest / 8;
}

}  // namespace bilevel
