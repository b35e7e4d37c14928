#pragma once

#include <bilevel/inner/wolfe_search.hpp>

namespace bilevel {

template <Vector V>
WolfeSearch<V>::WolfeSearch(const V& like)
    : phi_(Space<V>::zeros_like(like)), gradient_(Space<V>::zeros_like(like)) {}

template <Vector V>
std::optional<Stop> WolfeSearch<V>::evaluate(Nudged<V>& nudged, const State<V>& state, const V& direction,
                                             double length) {
  Space<V>::copy(state.phi, phi_);
  Space<V>::axpy(length, direction, phi_);
  trial_ = {length, nudged.value_and_gradient(phi_, gradient_), unknown};
  if (nudged.outside(trial_.value)) {
    if (std::isnan(trial_.value))
      outside_ = nudged.fault(trial_.value, gradient_, unknown, state.iteration + 1);
    trial_.value = everywhere;
    return {};
  }
  outside_.reset();
  gradient_norm_ = norm(gradient_);
  trial_.slope = Space<V>::dot(gradient_, direction);
  return nudged.fault(trial_.value, gradient_, gradient_norm_, state.iteration + 1);
}

template <Vector V>
void WolfeSearch<V>::accept(State<V>& state) {
  std::swap(state.phi, phi_);
  std::swap(state.gradient, gradient_);
  state.value = trial_.value;
  state.gradient_norm = gradient_norm_;
}

/// Of the cubic with these two values and slopes (Nocedal and Wright 2006, eq. 3.59).
template <Vector V>
double WolfeSearch<V>::minimiser_of_cubic(const Point& a, const Point& b) {
  const double d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.length - b.length);
  const double d2 = std::copysign(std::sqrt(d1 * d1 - a.slope * b.slope), b.length - a.length);
  return b.length - (b.length - a.length) * (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);
}

template <Vector V>
double WolfeSearch<V>::inside(const Point& low, const Point& high, bool bisect) {
  const double width = high.length - low.length;
  double length = low.length + 0.5 * width;
  if (!std::isfinite(high.value)) return low.length + 0.1 * width;
  if (!bisect) {
    const double cubic = minimiser_of_cubic(low, high);
    if (std::isfinite(cubic)) length = cubic;
  }
  // Never so close to an end that the bracket fails to shrink.
  return std::clamp(length, low.length + 0.05 * width, high.length - 0.05 * width);
}

template <Vector V>
std::optional<Stop> WolfeSearch<V>::search(Nudged<V>& nudged, State<V>& state, const V& direction,
                                           double slope, double first) {
  const double noise = state.value_noise();
  outside_.reset();
  const double longest = 3 * state.reach / norm(direction);
  const auto allowed = [&](double length) { return state.value + sufficient_decrease * length * slope; };

  // The bracket: ℓ still descends steeply at `low`; at `high` it has risen or turned upwards.
  Point low{0, state.value, slope}, high{};
  bool bracketed = false;
  double length = std::min(first, longest), width_before = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < max_trials; ++trial) {
    if (auto stop = evaluate(nudged, state, direction, length)) return stop;
    const Point& t = trial_;
    const bool level = std::abs(t.value - state.value) <= noise;
    const bool wolfe = t.value <= allowed(length) && std::abs(t.slope) <= -slope_fraction * slope;
    const bool approximate_wolfe =
        level && t.slope <= (2 * sufficient_decrease - 1) * slope && t.slope >= slope_fraction * slope;
    if (wolfe || approximate_wolfe) return accept(state), std::nullopt;
    const bool descends = t.slope < 0 && (t.value <= allowed(length) || level);
    if (!descends) {
      high = t;
      bracketed = true;
    } else if (length >= longest) {
      return accept(state), std::nullopt;
    } else {
      const Point before = low;
      low = t;
      if (!bracketed) {
        const double cubic = minimiser_of_cubic(before, low);
        const double wish = std::isfinite(cubic) ? cubic : 10 * length;
        length = std::min(std::clamp(wish, 2 * length, 10 * length), longest);
        continue;
      }
    }
    const double width = high.length - low.length;
    if (width <= 2 * unit_roundoff<V>() * high.length) break;
    length = inside(low, high, width > 0.66 * width_before);
    width_before = width;
  }
  // A kink or noise: no Wolfe point was found, but the lower end may still be a gain.
  if (low.length > 0) {
    if (auto stop = evaluate(nudged, state, direction, low.length)) return stop;
    if (trial_.value < state.value) return accept(state), std::nullopt;
  }
  if (outside_) return outside_;
  return Stop{Status::stalled,
              fmt::format("no step satisfies the Wolfe conditions: slope {:.3g}, last length {:.3g} with "
                          "value {:.10g} and slope {:.3g}",
                          slope, trial_.length, trial_.value, trial_.slope)};
}

}  // namespace bilevel
