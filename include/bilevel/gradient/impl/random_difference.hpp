#pragma once

#include <bilevel/gradient/impl/differenced_solves.hpp>
#include <bilevel/gradient/random_difference.hpp>

namespace bilevel {

/// Mixes seed and θ by the finaliser of SplitMix64.
template <Vector V>
std::uint64_t RandomDifference<V>::seed_at(const V& theta) {
  host_.resize(static_cast<std::size_t>(Space<V>::size(theta)));
  Space<V>::to_host(theta, host_.data());
  std::uint64_t state = options_.seed;
  const auto stir = [&](std::uint64_t word) {
    state += word + 0x9e3779b97f4a7c15U;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
    state ^= state >> 31;
  };
  stir(0);
  for (const double element : host_) stir(std::bit_cast<std::uint64_t>(element));
  return state;
}

template <Vector V>
void RandomDifference<V>::draw(std::uint64_t seed, V& direction) {
  Space<V>::random(seed, direction);
  if (options_.directions == Directions::gaussian) return;
  Space<V>::to_host(direction, host_.data());
  for (double& element : host_) element = element < 0 ? -1 : 1;
  Space<V>::from_host(host_.data(), direction);
}

template <Vector V>
typename RandomDifference<V>::Pair RandomDifference<V>::pair(const V& theta, const V& direction, double sigma,
                                                             double between) {
  const auto value = [&](double step) {
    Space<V>::copy(theta, point_);
    Space<V>::axpy(step, direction, point_);
    return solves_.value(point_);
  };
  const double plus = value(sigma), minus = value(-sigma);
  return {(plus - minus) / (2 * sigma), (plus - 2 * between + minus) / sigma};
}

template <Vector V>
Estimate<V> RandomDifference<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  e.certificate.trust = options_.trust;
  if (!solves_.begin(theta, warm, e)) return e;
  const Index n = Space<V>::size(theta);
  const long pairs = options_.pairs > 0 ? options_.pairs : std::max<long>(least_pairs, 4 * (n + 1));
  const double sigma = options_.sigma > 0
                           ? options_.sigma
                           : solves_.relative_step(2) * std::max(1.0, Space<V>::max_abs(theta));
  const std::uint64_t seed = seed_at(theta);
  point_ = Space<V>::zeros_like(theta);
  V direction = Space<V>::zeros_like(theta);

  // Σ D ε, and what its variance needs: Σ D² and Σ ‖Dε‖².
  Space<V>::scale(0, e.gradient);
  double squares = 0, lengths = 0, bias = 0;
  for (long k = 0; k < pairs; ++k) {
    draw(seed + static_cast<std::uint64_t>(k), direction);
    const Pair one = pair(theta, direction, sigma, e.outer_value);
    const double d = one.slope;
    Space<V>::axpy(d, direction, e.gradient);
    squares += d * d;
    lengths += d * d * Space<V>::dot(direction, direction);
    // D(2σ) − D(σ) = 3·(σ²/6) f‴[ε, ε, ε]; the bias E[(σ²/6) f‴[ε, ε, ε]·ε] is at most its root mean square.
    if (k < probes) {
      const Pair two = pair(theta, direction, 2 * sigma, e.outer_value);
      const FiveValues five{d, one.bend, two.slope, two.bend};
      double seen = std::abs(two.slope - d) / 3;
      if (five.rough(solves_.noise() / sigma)) seen = std::max(seen, five.kink() / 2);
      bias = std::isnan(seen) ? seen : std::max(bias, seen);
    }
  }
  // Steps of σ know nothing of a loss that changes over less, as where θ itself is far smaller.
  if (const double size = Space<V>::max_abs(theta); size > 0 && size < 0.1) {
    draw(seed, direction);
    const double closer = size * sigma;
    const double seen = std::abs(pair(theta, direction, closer, e.outer_value).slope -
                                 pair(theta, direction, sigma, e.outer_value).slope);
    if (seen > 2 * bias + 4 * solves_.noise() / closer) bias = std::max(bias, seen);
  }
  const double m = static_cast<double>(pairs);
  Space<V>::scale(1 / m, e.gradient);

  // From the sample where it is larger: it sees what is not linear. From the formula where the draws happen
  // to agree: two equal directions have no variance, and say nothing.
  const double formula =
      (static_cast<double>(n) + (options_.directions == Directions::gaussian ? 1 : -1)) * (squares / m) / m;
  const double sample =
      pairs > 1 ? std::max(0.0, (lengths - m * Space<V>::dot(e.gradient, e.gradient)) / (m * (m - 1))) : 0;
  const double standard_error = std::sqrt(std::max(formula, sample));
  const double noise = solves_.noise() / sigma;
  Certificate& c = e.certificate;
  if (pairs >= least_pairs) {
    c.kind = Kind::estimated;
    c.bound = quantile * standard_error + 2 * bias + noise;
    c.reason = fmt::format(
        "{} random directions: {} standard errors of {:.3g}, bias {:.3g} from σ = {:.3g}, {:.3g} from "
        "values accurate to {:.3g}",
        pairs, quantile, standard_error, 2 * bias, sigma, noise, solves_.noise());
  } else {
    c.reason =
        fmt::format("{} random directions say nothing about their variance; {} would", pairs, least_pairs);
  }
  solves_.conclude(fmt::format("; {} solves for {} parameters in {} random directions, σ = {:.3g}",
                               2 * (pairs + std::min(pairs, probes)), n, pairs, sigma),
                   options_.outer_tolerance, e);
  return e;
}

}  // namespace bilevel
