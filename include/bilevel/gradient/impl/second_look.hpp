#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include <bilevel/gradient/second_look.hpp>
#include <bilevel/space/impl/lanczos.hpp>

namespace bilevel {

namespace detail {

/// A length that is short against φ; of a state at zero nothing is known but that it is of size one.
template <Vector V>
double short_step(const V& phi, double fraction) {
  const double size = norm(phi);
  return fraction * (size > 0 ? size : 1);
}

}  // namespace detail

template <Vector V>
LeastCurvature<V> least_curvature(Equilibrium<V>& problem, const V& theta, const V& phi, const V& residual,
                                  Index most, std::uint64_t seed) {
  const double u = unit_roundoff<V>();
  V moved = Space<V>::zeros_like(phi), there = Space<V>::zeros_like(phi), start = Space<V>::zeros_like(phi);
  const auto residual_at = [&](double step, const V& direction, V& out) {
    Space<V>::copy(phi, moved);
    Space<V>::axpy(step, direction, moved);
    problem.residual(moved, theta, out);
  };
  const double near = detail::short_step(phi, std::sqrt(u));
  const auto apply = [&](const V& x, V& out) {
    residual_at(near, x, out);
    Space<V>::axpy(-1, residual, out);
    Space<V>::scale(1 / near, out);
  };
  Space<V>::random(seed, start);
  Lanczos<V> lanczos(apply, start,
                     {.basis = std::min(Space<V>::size(phi), std::max<Index>(most, 2)), .sweeps = 1});
  const RitzEnds ends = lanczos.run();
  if (std::isnan(ends.smallest)) return {};
  // Once more over a longer step and to both sides: short differences see curvature to √u of the largest
  // only.
  LeastCurvature<V> least;
  least.direction = lanczos.smallest_vector();
  Space<V>::scale(1 / norm(least.direction), least.direction);
  const V& lowest = least.direction;
  const double far = least.step = detail::short_step(phi, std::cbrt(u));
  residual_at(far, lowest, there);
  residual_at(-far, lowest, start);
  Space<V>::axpy(-1, start, there);
  least.value = Space<V>::dot(lowest, there) / (2 * far);
  least.error = 8 * u * (norm(residual) + std::abs(ends.largest) * (norm(phi) + far)) / far;
  return least;
}

template <Vector V>
AdjointLook look_at_adjoint(Problem<V>& problem, const Claimed<V>& c, double nudged) {
  AdjointLook look;
  const double length = norm(c.pi);
  if (!(length > 0) || !std::isfinite(length)) {
    look.residual = norm(c.outer_phi);
    return look;
  }
  const double step =
      std::max(detail::short_step(c.phi, std::sqrt(unit_roundoff<V>())), 1e-3 * nudged) / length;
  V moved = Space<V>::zeros_like(c.phi), cross = Space<V>::zeros_like(c.theta),
    worst = Space<V>::zeros_like(c.phi);
  V sides[2] = {Space<V>::zeros_like(c.phi), Space<V>::zeros_like(c.phi)};
  for (int side = 0; side < 2; ++side) {
    V& s = sides[side];
    const double t = side == 0 ? step : -step;
    Space<V>::copy(c.phi, moved);
    Space<V>::axpy(t, c.pi, moved);
    problem.inner(moved, c.theta, {.phi = &s, .theta = &cross});
    // s = ∂φ L_out − (r(φ + tπ) − r(φ))/t
    Space<V>::axpy(-1, c.residual, s);
    Space<V>::scale(-1 / t, s);
    Space<V>::axpy(1, c.outer_phi, s);
    Space<V>::axpy(-1, c.inner_theta, cross);
    Space<V>::scale(-1 / t, cross);
    Space<V>::axpy(1, c.outer_theta, cross);
    Space<V>::axpy(-1, c.gradient, cross);
    look.distance = std::max(look.distance, norm(cross));
    if (const double size = norm(s); !(size <= look.residual)) {
      look.residual = size;
      Space<V>::copy(s, worst);
    }
  }
  look.noise = 2 * c.residual_error / step;
  if (const double size = norm(worst); size > 0 && std::isfinite(size)) {
    const double along = step * length / size;
    Space<V>::copy(c.phi, moved);
    Space<V>::axpy(along, worst, moved);
    problem.residual(moved, c.theta, worst);
    Space<V>::axpy(-1, c.residual, worst);
    look.stiffness = norm(worst) / (along * size);
  }
  Space<V>::axpy(-1, sides[1], sides[0]);
  look.one_sided = norm(sides[0]);
  return look;
}

template <Vector V>
void look_beside(Equilibrium<V>& problem, InnerSolver<V>& solver, const V& theta, const Solution<V>& here,
                 Estimate<V>& e) {
  Certificate& c = e.certificate;
  struct Value {
    double value, residual;
    bool moved;
  };
  V scratch = Space<V>::zeros_like(here.phi);
  const auto look = [&](const V& phi, const V& at) {
    problem.residual(phi, at, scratch);
    Value seen{problem.outer(phi, at, {}), norm(scratch), false};
    Space<V>::copy(phi, scratch);
    Space<V>::axpy(-1, here.phi, scratch);
    seen.moved = Space<V>::max_abs(scratch) > 0;
    return seen;
  };
  const auto settle = [&](const V& start, const V& at) {
    Solution<V> s = solver.solve(at, 0, start);
    s.cost.seconds_inner = 0;  // all of this is the certificate's
    e.cost += s.cost;
    return look(s.phi, at);
  };
  const Value free = look(here.phi, theta);
  const double scale = std::abs(free.value) > 0 ? std::abs(free.value) : 1.0, pi = norm(e.pi),
               rounding = 4 * unit_roundoff<V>() * scale;
  // Values are wrong by π·r for what their solves left. A solver that does not say what it was to reach may
  // leave a residual on purpose; whether it repeats itself is all that can be asked.
  const bool told = std::isfinite(here.tolerance);
  double noise = rounding;
  if (told)
    noise += 4 * pi * std::max(free.residual, here.tolerance);
  else
    noise += 4 * std::abs(settle(e.phi, theta).value - free.value);
  double step = std::clamp(std::cbrt(noise / scale), 1e-7, 0.01);

  const auto n = static_cast<std::size_t>(Space<V>::size(theta));
  std::vector<double> at(n), way(n), gradient(n), right(n), left(n);
  V point = Space<V>::zeros_like(theta);
  Space<V>::random(5, point);
  Space<V>::to_host(point, way.data());
  Space<V>::to_host(theta, at.data());
  Space<V>::to_host(e.gradient, gradient.data());
  // In units of θ as a whole: an element that is nearly zero may be so against a bound.
  const double root_mean_square = norm(theta) / std::sqrt(static_cast<double>(n));
  for (std::size_t i = 0; i < n; ++i)
    way[i] = std::copysign(std::max(std::abs(at[i]), root_mean_square > 0 ? root_mean_square : 1.0), way[i]);
  const auto beside = [&](double sign, std::vector<double>& reached) {
    for (std::size_t i = 0; i < n; ++i) reached[i] = at[i] + sign * step * way[i];
    Space<V>::from_host(reached.data(), point);
    Space<V>::to_host(point, reached.data());
    const Value there = settle(here.phi, point);
    if (told) noise = std::max(noise, 4 * pi * there.residual + rounding);
    return there;
  };
  Value plus = beside(1, right), minus = beside(-1, left);
  // Where a solver finds the state good enough still, further; such solves are one look at the residual.
  for (; !plus.moved && !minus.moved; step *= 10) {
    if (step > 0.01) {
      if (told) {
        c.doubt = fmt::format("{} finds the state good enough over {:.0f} % of θ, too loose to agree or not",
                              solver.name(), 100 * step);
        c.reason += "; doubtful: " + c.doubt;
      }
      return;
    }
    plus = beside(10, right);
    minus = beside(-10, left);
  }
  double claimed = 0, length = 0;
  for (std::size_t i = 0; i < n; ++i) {
    claimed += gradient[i] * (right[i] - left[i]);
    length = std::hypot(length, right[i] - left[i]);
  }
  const double missed = std::abs(plus.value - minus.value - claimed);
  if (missed <= c.bound * length + 2 * noise + 1e-4 * std::abs(claimed)) return;
  c.bound += missed / length;
  c.doubt = fmt::format(
      "solved anew beside θ by {}, the outer loss changes by {:.4g} where the gradient says {:.4g}",
      solver.name(), plus.value - minus.value, claimed);
  c.reason += "; doubtful: " + c.doubt;
}

}  // namespace bilevel
