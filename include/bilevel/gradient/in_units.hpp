#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <bilevel/gradient/forwarding.hpp>
#include <bilevel/problem/units.hpp>

namespace bilevel {

/// An estimator of a problem that has units: adopts those of θ before each estimate and gives φ and π, also
/// the warm ones, in their true size. `units` is that problem, which must outlive this.
template <Vector V>
class InUnits final : public Forwarding<V> {
 public:
  InUnits(std::unique_ptr<Estimator<V>> wrapped, Units<V>& units)
      : Forwarding<V>(std::move(wrapped)), units_(units) {}

  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override {
    units_.adopt_units(theta);
    const V& unit = units_.units();
    const auto rescaled = [&](const std::optional<V>& x) -> std::optional<V> {
      if (!x || Space<V>::size(*x) != Space<V>::size(unit)) return {};
      V own = duplicate(*x);
      Space<V>::divide(unit, own);
      return own;
    };
    const Warm<V> own{rescaled(warm.phi), rescaled(warm.pi)};
    Estimate<V> e = Forwarding<V>::estimate(theta, own);
    // π·H = g becomes (π/unit)·(unit·H·unit) = unit·g.
    Space<V>::multiply(unit, e.phi);
    Space<V>::multiply(unit, e.pi);
    return e;
  }

 private:
  Units<V>& units_;
};

}  // namespace bilevel
