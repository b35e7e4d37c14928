#pragma once

#include <bilevel/gradient/finite_difference.hpp>
#include <bilevel/gradient/impl/differenced_solves.hpp>

namespace bilevel {

template <Vector V>
typename FiniteDifference<V>::Pair FiniteDifference<V>::pair(Index i, double h) {
  const auto k = static_cast<std::size_t>(i);
  const auto value = [&](double to, double& reached) {
    moved_[k] = to;
    Space<V>::from_host(moved_.data(), point_);
    moved_[k] = theta_[k];
    Space<V>::to_host(point_, rounded_.data());
    reached = rounded_[k];
    return solves_.value(point_);
  };
  double right = 0, left = 0;
  Pair p{};
  p.plus = value(theta_[k] + h, right);
  p.minus = value(theta_[k] - h, left);
  p.distance = right - left;
  return p;
}

/// Whether an element is far smaller than the steps take it for.
inline bool tiny(const std::vector<double>& theta) {
  return std::any_of(theta.begin(), theta.end(), [](double x) { return x != 0 && std::abs(x) < 0.1; });
}

/// Steps of h know nothing of a loss that changes over less, as where θ itself is far smaller. One pair much
/// nearer to θ, along random signs in all elements at once, must answer as the differences say.
template <Vector V>
void FiniteDifference<V>::look_closer(const Eigen::VectorXd& h, const Eigen::VectorXd& slope,
                                      const Eigen::VectorXd& error, double step, Certificate& c) {
  const Index n = h.size();
  Eigen::VectorXd way(n), reached(n);
  V signs = Space<V>::zeros_like(point_);
  Space<V>::random(3, signs);
  Space<V>::to_host(signs, way.data());
  for (Index i = 0; i < n; ++i) {
    const double size = std::abs(theta_[static_cast<std::size_t>(i)]);
    way[i] = std::copysign(size > 0 && size < 1 ? step * size : h[i] / 8, way[i]);
  }
  const auto value = [&](double sign) {
    for (Index i = 0; i < n; ++i)
      moved_[static_cast<std::size_t>(i)] = theta_[static_cast<std::size_t>(i)] + sign * way[i];
    Space<V>::from_host(moved_.data(), point_);
    Space<V>::to_host(point_, rounded_.data());
    const Eigen::Map<const Eigen::VectorXd> at(rounded_.data(), n);
    reached = sign > 0 ? Eigen::VectorXd(at) : Eigen::VectorXd(reached - at);
    return solves_.value(point_);
  };
  const double plus = value(1), seen = plus - value(-1);
  moved_ = theta_;
  const double missed = std::abs(seen - reached.dot(slope)),
               explained = 2 * solves_.noise() + reached.cwiseAbs().dot(error);
  if (!(missed > explained)) return;
  c.bound += std::sqrt(static_cast<double>(n)) * missed / reached.norm();
  c.doubt = fmt::format(
      "over steps of {:.3g} the outer loss changes by {:.4g} and not by {:.4g}: it changes over less "
      "than the differences",
      reached.cwiseAbs().maxCoeff() / 2, seen, reached.dot(slope));
  c.reason += "; doubtful: " + c.doubt;
}

template <Vector V>
Estimate<V> FiniteDifference<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  e.certificate.trust = options_.trust;
  if (!solves_.begin(theta, warm, e)) return e;
  const Index n = Space<V>::size(theta);
  theta_.resize(static_cast<std::size_t>(n));
  Space<V>::to_host(theta, theta_.data());
  moved_ = rounded_ = theta_;
  point_ = Space<V>::zeros_like(theta);
  const double step = options_.step > 0 ? options_.step : solves_.relative_step(options_.order);

  Eigen::VectorXd h(n), slope(n), second_difference(n);
  Eigen::VectorXd truncation = Eigen::VectorXd::Constant(n, unknown);
  Eigen::VectorXd bend(n), kinks = Eigen::VectorXd::Zero(n);
  // |D(2h) − D(h)|/3 = h²|f‴|/6 + …; more where the slope jumps within 2h.
  const auto look_wider = [&](Index i, double slope_at_one, const Pair& two) {
    const FiveValues five{slope_at_one, bend[i], two.slope(), two.bend(e.outer_value)};
    truncation[i] = std::abs(five.wide_slope - five.slope) / 3;
    if (five.rough(solves_.noise() / h[i])) kinks[i] = five.kink();
  };
  for (Index i = 0; i < n; ++i) {
    h[i] = step * std::max(1.0, std::abs(theta_[static_cast<std::size_t>(i)]));
    const Pair one = pair(i, h[i]);
    slope[i] = one.slope();
    bend[i] = one.bend(e.outer_value);
    second_difference[i] = std::abs(bend[i]) / h[i];
    if (options_.order == 4) {
      const Pair two = pair(i, 2 * h[i]);
      look_wider(i, slope[i], two);
      slope[i] = (4 * slope[i] - two.slope()) / 3;
    }
  }
  long probed = 0;
  if (options_.order == 2) {
    std::vector<Index> sharpest(static_cast<std::size_t>(n));
    std::iota(sharpest.begin(), sharpest.end(), 0);
    const long least = std::min<long>(options_.probes, n);
    std::sort(sharpest.begin(), sharpest.end(), [&](Index a, Index b) {
      return second_difference[a] != second_difference[b] ? second_difference[a] > second_difference[b]
                                                          : a < b;
    });
    double largest = 0;  // of |f‴|/6
    for (bool kinked = false; probed < least || (kinked && probed < n); ++probed) {
      const Index i = sharpest[static_cast<std::size_t>(probed)];
      look_wider(i, slope[i], pair(i, 2 * h[i]));
      kinked = kinks[i] > 0;
      if (!kinked) largest = std::max(largest, truncation[i] / (h[i] * h[i]));
    }
    for (Index i = 0; i < n; ++i)
      if (std::isnan(truncation[i])) truncation[i] = largest * h[i] * h[i];
  }

  // Of order 2: |ε₊ + ε₋|/2h; of order 4: (8·2 + 2)ε/12h. The truncation seen is that of order 2; order 4 has
  // less.
  const double noise = (options_.order == 2 ? 1.0 : 1.5) * solves_.noise();
  const double factor = options_.order == 2 ? 2 : 1;
  truncation = (factor * truncation).cwiseMax(kinks);
  const Eigen::VectorXd error = noise * h.cwiseInverse() + truncation;
  const double from_noise = (noise * h.cwiseInverse()).norm(), from_truncation = truncation.norm();
  Space<V>::from_host(slope.data(), e.gradient);
  e.certificate.kind = Kind::estimated;
  e.certificate.bound = error.norm();
  e.certificate.reason = fmt::format(
      "differences of whole solves: {:.3g} from values accurate to {:.3g}, {:.3g} from "
      "truncation, seen between h and 2h{}",
      from_noise, solves_.noise(), from_truncation, kinks.norm() > 0 ? ", where there are kinks" : "");
  const bool closer = tiny(theta_);
  if (closer) look_closer(h, slope, error, step, e.certificate);
  const long pairs = (options_.order == 2 ? n : 2 * n) + probed + (closer ? 1 : 0);
  solves_.conclude(
      fmt::format("; differences: {} solves for {} parameters, order {}, h = {:.3g}·max(1, |θ_i|)", 2 * pairs,
                  n, options_.order, step),
      options_.outer_tolerance, e);
  return e;
}

}  // namespace bilevel
