#pragma once

#include <bilevel/gradient/impl/agnostic.hpp>
#include <bilevel/gradient/spring_agnostic.hpp>
#include <bilevel/inner/impl/spring_controlled.hpp>

namespace bilevel {

template <Vector V>
Estimate<V> SpringAgnostic<V>::estimate(const V& theta, const Warm<V>& warm) {
  Estimate<V> soft = from_soft_.estimate(theta, warm);
  Estimate<V> e = from_stiff_.estimate(theta, {.phi = soft.phi, .pi = {}});
  e.cost += soft.cost;
  V change = duplicate(soft.gradient);
  Space<V>::axpy(-1, e.gradient, change);
  const double springs = norm(change);
  Certificate& c = e.certificate;
  if (!std::isfinite(springs)) {
    c.kind = Kind::none;
  } else {
    c.bound += 2 * springs;
    c.reason += fmt::format("; the springs account for about {:.3g}", springs);
  }
  c.judge(norm(e.gradient), options_.outer_tolerance, succeeded(e.status));
  return e;
}

}  // namespace bilevel
