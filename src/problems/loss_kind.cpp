#include <bilevel/problems/loss_kind.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "problems/complex_functions.hpp"

namespace bilevel::problems {
namespace {

using kernels::Loss;
using Target = LossKind::Target;
using Complex = ContinuedLoss::Complex;

constexpr double unbounded = std::numeric_limits<double>::infinity();

bool any_label(double) {
  return true;
}
bool two_labels(double y) {
  return y == 1 || y == -1;
}
bool zero_or_more(double y) {
  return y >= 0;
}
/// log(1 + exp(z)).
double softplus(double z) {
  return std::log1p(std::exp(-std::abs(z))) + std::max(0.0, z);
}
/// Losses that are ½·slope² where they are not flat.
double slope_of_square(double, double mean, double, const LabelRange&) {
  return std::sqrt(2 * std::max(0.0, mean));
}

constexpr ContinuedLoss continued_squared{[](Complex m, double y) { return m - y; },
                                          [](Complex, double) { return Complex(1); }, unbounded};
// σ has its poles at odd multiples of iπ; labels are ±1.
constexpr ContinuedLoss continued_logistic{[](Complex m, double y) { return -y * complex_logistic(-y * m); },
                                           [](Complex m, double y) { return complex_logistic_slope(y * m); },
                                           std::numbers::pi};

constexpr LossKind squared{
    .loss = Loss::squared,
    .model = "ridge",
    .title = "a ridge regression",
    .formula = "½ (m_i − y_i)²",
    .wants = "a number",
    .takes = any_label,
    .target = Target::number,
    .value = [](double m, double y, double) { return 0.5 * (m - y) * (m - y); },
    .slope = [](double m, double y, double) { return m - y; },
    .shape = [](double, const LabelRange&) -> LossShape { return {1, 0, unbounded, false, 0, 1, 1}; },
    .continued = &continued_squared,
    .slope_size = slope_of_square};

constexpr LossKind logistic{.loss = Loss::logistic,
                            .model = "logistic",
                            .title = "a logistic regression",
                            .formula = "log(1 + exp(−y_i m_i))",
                            .wants = "-1 and 1",
                            .takes = two_labels,
                            .target = Target::classes,
                            .probable = true,
                            .value = [](double m, double y, double) { return softplus(-y * m); },
                            .slope = [](double m, double y, double) { return -y / (1 + std::exp(y * m)); },
                            // σ′ ≤ ¼ and |σ″| ≤ 1/(6√3); |σ″| = σ′|1 − 2σ| ≤ σ′
                            .shape = [](double, const LabelRange&) -> LossShape {
                              return {0.25, 0.0962250448649377, 1, false, 1, 0.25};
                            },
                            .continued = &continued_logistic,
                            .slope_size = [](double, double, double, const LabelRange&) { return 1.0; }};

constexpr LossKind poisson{
    .loss = Loss::poisson,
    .model = "poisson",
    .title = "a Poisson regression",
    .formula = "exp(m_i) − y_i m_i",
    .wants = "counts, 0 or more",
    .takes = zero_or_more,
    .target = Target::positive,
    .value = [](double m, double y, double) { return std::exp(m) - y * m; },
    .slope = [](double m, double y, double) { return std::exp(m) - y; },
    // loss″ = loss‴ = exp(m), whose mean is that of the labels at the optimum
    .shape = [](double, const LabelRange& labels) -> LossShape {
      return {unbounded, unbounded, unbounded, false, 1, std::max(labels.mean, 1e-3)};
    },
    // (exp(m) − y)² ≤ (max exp(m) + max y)²
    .slope_size = [](double, double, double largest_curvature,
                     const LabelRange& labels) { return largest_curvature + labels.largest; }};

constexpr LossKind huber{
    .loss = Loss::huber,
    .model = "huber",
    .title = "a Huber regression",
    .formula = "h(m_i − y_i)",
    .legend = "h(r) = ½r² where |r| ≤ k, k|r| − ½k² beyond",
    .wants = "a number",
    .takes = any_label,
    .target = Target::number,
    .parameter = "huber-threshold",
    .parameter_help =
        "Where Huber's loss turns linear, in units of the target (default: 1.345 standard deviations)",
    .usual_parameter = [](double deviation) { return 1.345 * deviation; },
    .value =
        [](double m, double y, double k) {
          const double r = std::abs(m - y);
          return r <= k ? 0.5 * r * r : k * (r - 0.5 * k);
        },
    .slope = [](double m, double y, double k) { return std::clamp(m - y, -k, k); },
    .distance_to_kink = [](double m, double y, double k) { return std::abs(std::abs(m - y) - k); },
    .shape = [](double k, const LabelRange&) -> LossShape { return {1, 0, k, true, 0, 1}; },
    .slope_size = [](double k, double, double, const LabelRange&) { return k; }};

constexpr LossKind squared_hinge{
    .loss = Loss::squared_hinge,
    .model = "squared-hinge",
    .title = "a squared-hinge classifier",
    .formula = "½ max(0, 1 − y_i m_i)²",
    .wants = "-1 and 1",
    .takes = two_labels,
    .target = Target::classes,
    .value =
        [](double m, double y, double) {
          const double gap = std::max(0.0, 1 - y * m);
          return 0.5 * gap * gap;
        },
    .slope = [](double m, double y, double) { return -y * std::max(0.0, 1 - y * m); },
    .distance_to_kink = [](double m, double y, double) { return std::abs(1 - y * m); },
    .shape = [](double, const LabelRange&) -> LossShape { return {1, 0, unbounded, true, 0, 1}; },
    .slope_size = slope_of_square};

constexpr LossKind gamma_deviance{
    .loss = Loss::gamma,
    .model = "gamma",
    .title = "a gamma regression",
    .formula = "y_i exp(−m_i) + m_i",
    .wants = "amounts above 0",
    .takes = [](double y) { return y > 0; },
    .target = Target::positive,
    .value = [](double m, double y, double) { return y * std::exp(-m) + m; },
    .slope = [](double m, double y, double) { return 1 - y * std::exp(-m); },
    // loss″ = |loss‴| = y·exp(−m), whose mean is 1 at the optimum
    .shape = [](double, const LabelRange&) -> LossShape {
      return {unbounded, unbounded, unbounded, false, 1, 1};
    },
    // −loss″ < 1 − y·exp(−m) < 1
    .slope_size = [](double, double, double largest_curvature,
                     const LabelRange&) { return std::max(1.0, largest_curvature); }};

// With σ = α·exp(m)/(1 + α·exp(m)): loss′ = σ/α − y(1 − σ), loss″ = (1/α + y)·σ(1 − σ) and loss‴ = (1 −
// 2σ)·loss″. As a sum of two positive terms, which the usual form is up to y·log α, the loss cancels nowhere.
constexpr LossKind negative_binomial{
    .loss = Loss::negative_binomial,
    .model = "negative-binomial",
    .title = "a negative-binomial regression",
    .formula = "log(1 + α exp(m_i))/α + y_i log(1 + exp(−m_i)/α)",
    .legend = "α is the dispersion: the variance is exp(m_i) + α exp(2m_i)",
    .wants = "counts, 0 or more",
    .takes = zero_or_more,
    .target = Target::positive,
    .parameter = "dispersion",
    .parameter_help =
        "By how much counts vary more than Poisson's: a variance of μ + X·μ² at a mean of μ, X from 0.0001 "
        "to "
        "10000 (default: 1)",
    // Its logarithm is added to margins: rounding() has room for the error of a small one.
    .least_parameter = 1e-4,
    .largest_parameter = 1e4,
    .value =
        [](double m, double y, double alpha) {
          const double z = m + std::log(alpha);
          return softplus(z) / alpha + y * softplus(-z);
        },
    .slope =
        [](double m, double y, double alpha) {
          const double e = std::exp(-std::abs(m + std::log(alpha))), near = e / (1 + e);
          const bool above = m + std::log(alpha) >= 0;
          return (above ? 1 - near : near) / alpha - y * (above ? near : 1 - near);
        },
    // Bounded by ¼(1/α + y), but at large counts far below that where it matters.
    .shape = [](double alpha, const LabelRange& labels) -> LossShape {
      const double mean = std::max(labels.mean, 1e-3);
      return {unbounded, unbounded, unbounded, false, 1, mean / (1 + alpha * mean)};
    },
    .slope_size = [](double alpha, double, double,
                     const LabelRange& labels) { return 1 / alpha + labels.largest; }};

constexpr std::array kinds{squared,       logistic,       poisson,          huber,
                           squared_hinge, gamma_deviance, negative_binomial};
static_assert(kinds.size() == kernels::losses);
static_assert([] {
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k].loss != static_cast<Loss>(k)) return false;
  return true;
}());

}  // namespace

double LossKind::predicted(double margin) const {
  return target == Target::positive ? std::exp(margin) : margin;
}

const LossKind& kind_of(Loss loss) {
  return kinds.at(static_cast<std::size_t>(loss));
}

std::span<const LossKind> loss_kinds() {
  return kinds;
}

}  // namespace bilevel::problems
