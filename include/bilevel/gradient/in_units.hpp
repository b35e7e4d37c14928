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
    const Index size = Space<V>::size(this->initial_phi());
    const auto fits = [&](const std::optional<V>& x) { return x && Space<V>::size(*x) == size; };
    fits(warm.phi) ? units_.adopt_units(theta, *warm.phi) : units_.adopt_units(theta);
    const auto rescaled = [&](const std::optional<V>& x) -> std::optional<V> {
      if (!fits(x)) return {};
      V own = duplicate(*x);
      units_.to_own(own);
      return own;
    };
    const Warm<V> own{rescaled(warm.phi), rescaled(warm.pi)};
    Estimate<V> e = Forwarding<V>::estimate(theta, own);
    // π·H = g becomes (T⁻¹π)·(TᵀHT) = Tᵀg.
    units_.to_true(e.phi);
    units_.to_true(e.pi);
    return e;
  }

 private:
  Units<V>& units_;
};

}  // namespace bilevel
