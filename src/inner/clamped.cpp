#include "clamped.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bilevel {
namespace {

using Eigen::Index;
using Vec = Eigen::VectorXd;

struct Line {
  const Vec &g, &lower, &upper, &a;

  double element(Index i, double lambda) const {
    return std::min(std::max(lambda * a[i] - g[i], lower[i]), upper[i]);
  }
  double sum(double lambda) const {
    double total = 0;
    for (Index i = 0; i < a.size(); ++i)
      if (a[i] != 0) total += a[i] * element(i, lambda);
    return total;
  }
  /// Where the sum, linear between these two, equals the total; false where it is constant.
  bool solve(double from, double to, double total, double& lambda) const {
    double slope = 0, rest = total;
    for (Index i = 0; i < a.size(); ++i) {
      if (a[i] == 0) continue;
      // The λ between which the element is free.
      double enters = (lower[i] + g[i]) / a[i], leaves = (upper[i] + g[i]) / a[i];
      if (enters > leaves) std::swap(enters, leaves);
      if (lower[i] < upper[i] && enters <= from && to <= leaves) {
        slope += a[i] * a[i];
        rest += a[i] * g[i];
      } else {
        rest -= a[i] * ((leaves <= from) == (a[i] > 0) ? upper[i] : lower[i]);
      }
    }
    if (!(slope > 0)) return false;
    lambda = std::clamp(rest / slope, from, to);
    return true;
  }
};

}  // namespace

Clamped clamp(const Vec& g, const Vec& lower, const Vec& upper, const Vec& a, double total, double size) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const Index n = g.size();
  const Line line{g, lower, upper, a};
  Clamped c;
  c.x = c.force = Vec::Zero(n);
  c.held.assign(static_cast<std::size_t>(n), 0);
  c.feasible = g.allFinite();
  if (!c.feasible) return c;
  double lambda = 0;
  std::vector<double> meets;
  bool moves = false;  // some element that the equality pulls at is not fixed
  for (Index i = 0; i < a.size(); ++i) {
    if (a[i] == 0 || lower[i] == upper[i]) continue;
    moves = true;
    for (const double bound : {lower[i], upper[i]})
      if (std::isfinite(bound)) meets.push_back((bound + g[i]) / a[i]);
  }
  if (moves) {
    std::sort(meets.begin(), meets.end());
    const auto after =
        std::partition_point(meets.begin(), meets.end(), [&](double at) { return line.sum(at) < total; });
    const double from = after == meets.begin() ? -infinite : *(after - 1),
                 to = after == meets.end() ? infinite : *after;
    if (!line.solve(from, to, total, lambda)) lambda = std::isfinite(to) ? to : from;
  }
  c.multiplier = lambda;
  double scale = size, reached = 0;
  Index weakest = -1;
  for (Index i = 0; i < n; ++i) {
    const double pull = a.size() ? lambda * a[i] : 0;
    c.x[i] = std::min(std::max(pull - g[i], lower[i]), upper[i]);
    c.force[i] = c.x[i] + g[i] - pull;
    int& held = c.held[static_cast<std::size_t>(i)];
    if (lower[i] == upper[i])
      held = c.force[i] < 0 ? 1 : -1;
    else if (c.x[i] == lower[i] && pull - g[i] < lower[i])
      held = -1;
    else if (c.x[i] == upper[i] && pull - g[i] > upper[i])
      held = 1;
    else
      c.force[i] = 0;
    if (a.size() == 0 || a[i] == 0) continue;
    reached += a[i] * c.x[i];
    scale += std::abs(a[i]) * (std::abs(c.x[i]) + std::abs(g[i]));
    if (held == 0) c.equality = true;
    if (lower[i] < upper[i] &&
        (weakest < 0 || std::abs(c.force[i] / a[i]) < std::abs(c.force[weakest] / a[weakest])))
      weakest = i;
  }
  if (a.size() == 0) return c;
  c.feasible = std::abs(reached - total) <= 1e-13 * scale;
  if (!c.equality && weakest >= 0) {
    // At a corner λ is that of the element that would leave it first, which nothing holds then.
    c.held[static_cast<std::size_t>(weakest)] = 0;
    c.force[weakest] = 0;
    c.equality = true;
  }
  return c;
}

}  // namespace bilevel
