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

template <Vector V>
Estimate<V> FiniteDifference<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> e;
  if (!solves_.begin(theta, warm, e)) return e;
  const Index n = Space<V>::size(theta);
  theta_.resize(static_cast<std::size_t>(n));
  Space<V>::to_host(theta, theta_.data());
  moved_ = rounded_ = theta_;
  point_ = Space<V>::zeros_like(theta);
  const double step = options_.step > 0 ? options_.step : solves_.relative_step(options_.order);

  Eigen::VectorXd h(n), slope(n), second_difference(n);
  Eigen::VectorXd truncation = Eigen::VectorXd::Constant(n, unknown);
  const auto third = [&](Index i, double at_one, double at_two) {  // |D(2h) − D(h)|/3 = h²|f‴|/6 + …
    truncation[i] = std::abs(at_two - at_one) / 3;
  };
  for (Index i = 0; i < n; ++i) {
    h[i] = step * std::max(1.0, std::abs(theta_[static_cast<std::size_t>(i)]));
    const Pair one = pair(i, h[i]);
    slope[i] = one.slope();
    second_difference[i] = std::abs(one.plus - 2 * e.outer_value + one.minus) / (h[i] * h[i]);
    if (options_.order == 4) {
      const double two = pair(i, 2 * h[i]).slope();
      third(i, slope[i], two);
      slope[i] = (4 * slope[i] - two) / 3;
    }
  }
  long probed = 0;
  if (options_.order == 2) {
    std::vector<Index> sharpest(static_cast<std::size_t>(n));
    std::iota(sharpest.begin(), sharpest.end(), 0);
    probed = std::min<long>(options_.probes, n);
    std::partial_sort(sharpest.begin(), sharpest.begin() + probed, sharpest.end(), [&](Index a, Index b) {
      return second_difference[a] != second_difference[b] ? second_difference[a] > second_difference[b]
                                                          : a < b;
    });
    double largest = 0;  // of |f‴|/6
    for (long p = 0; p < probed; ++p) {
      const Index i = sharpest[static_cast<std::size_t>(p)];
      third(i, slope[i], pair(i, 2 * h[i]).slope());
      largest = std::max(largest, truncation[i] / (h[i] * h[i]));
    }
    for (Index i = 0; i < n; ++i)
      if (std::isnan(truncation[i])) truncation[i] = largest * h[i] * h[i];
  }

  // Of order 2: |ε₊ + ε₋|/2h; of order 4: (8·2 + 2)ε/12h. The truncation seen is that of order 2; order 4 has
  // less.
  const double noise = (options_.order == 2 ? 1.0 : 1.5) * solves_.noise();
  const double factor = options_.order == 2 ? 2 : 1;
  const double from_noise = (noise * h.cwiseInverse()).norm(), from_truncation = factor * truncation.norm();
  Space<V>::from_host(slope.data(), e.gradient);
  e.certificate.kind = Kind::estimated;
  e.certificate.bound = (noise * h.cwiseInverse() + factor * truncation).norm();
  e.certificate.reason = fmt::format(
      "differences of whole solves: {:.3g} from values accurate to {:.3g}, {:.3g} from "
      "truncation, seen between h and 2h",
      from_noise, solves_.noise(), from_truncation);
  const long pairs = (options_.order == 2 ? n : 2 * n) + probed;
  solves_.conclude(
      fmt::format("; differences: {} solves for {} parameters, order {}, h = {:.3g}·max(1, |θ_i|)", 2 * pairs,
                  n, options_.order, step),
      options_.outer_tolerance, e);
  return e;
}

}  // namespace bilevel
