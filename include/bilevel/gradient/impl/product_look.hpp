#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/space/space.hpp>

namespace bilevel::detail {

/// How far the two products that a gradient is made of are from differences of first derivatives.
struct ProductLook {
  bool disagrees = false;  ///< by more than truncation and rounding explain, over steps of any length
  double adjoint = 0;      ///< of π̂Ĥ
  double cross = 0;        ///< of π̂χ̂
};

/// The step along v over which no element of x moves by more than ∛u of its length: its size, or a thousandth
/// of their mean where it is smaller than that; one where nothing is known.
template <Vector V>
double natural_step(const V& x, const V& v) {
  const double size = norm(x);
  const double least = size > 0 ? 1e-3 * size / std::sqrt(static_cast<double>(Space<V>::size(x))) : 1;
  V length = duplicate(x), ratio = Space<V>::zeros_like(x);
  Space<V>::scale(1 / least, length);
  Space<V>::multiply(length, length);
  Space<V>::fill(1, ratio);
  Space<V>::axpy(1, ratio, length);
  Space<V>::sqrt(length);
  Space<V>::copy(v, ratio);
  Space<V>::divide(length, ratio);
  return std::cbrt(unit_roundoff<V>()) * least / Space<V>::max_abs(ratio);
}

/// The second look at products. Of a loss along π̂, which is what the gradient is made of: two gradients, with
/// ∂θL_in beside ∂φL_in, show both products. Of something that minimises nothing along a random direction of
/// φ, and one of θ: four residuals. Where a difference disagrees, shorter and longer steps are tried: what is
/// smooth agrees at one of them; a kink, or a product that is not the derivative, at none.
template <Vector V>
class ProductLooker {
 public:
  ProductLooker(Equilibrium<V>& problem, Curvature<V>& curvature, const Phases<V>& phases, std::uint64_t seed)
      : problem_(problem),
        p_(phases),
        of_loss_(problem.minimises()),
        seed_(seed),
        moved_(duplicate(phases.phi)),
        moved_theta_(duplicate(phases.theta)),
        above_(Space<V>::zeros_like(phases.phi)),
        below_(Space<V>::zeros_like(phases.phi)),
        adjoint_(duplicate(phases.outer_phi)),
        theta_above_(Space<V>::zeros_like(phases.theta)),
        theta_below_(Space<V>::zeros_like(phases.theta)),
        cross_(duplicate(phases.outer_theta)),
        way_(duplicate(phases.pi)) {
    Space<V>::axpy(-1, phases.gradient, cross_);
    pi_norm_ = norm(phases.pi);
    if (of_loss_) return;
    Space<V>::random(seed + 21, way_);
    along_.emplace(Space<V>::zeros_like(phases.phi));
    curvature.times(way_, *along_);
    theta_way_.emplace(Space<V>::zeros_like(phases.theta));
    Space<V>::random(seed + 22, *theta_way_);
  }

  ProductLook run() {
    if (!(pi_norm_ > 0) || !std::isfinite(pi_norm_)) return {};
    const Seen first = look(1);
    if (first.agrees({})) return {};
    const Terms terms = size_of_terms();
    if (first.agrees(terms)) return {};
    Seen nearest = first;
    for (const double share : {1.0 / 4, 1.0 / 32, 1.0 / 1024, 1.0 / 32768, 32.0, 1024.0}) {
      if (stop_wanted(problem_.stop_token())) break;
      // A longer step hides a kink: it says something where the first disagreed by rounding.
      if (share > 1 && !first.agrees({1e3 * terms.phi, 1e3 * terms.theta})) break;
      const Seen seen = look(share);
      if (seen.tells_of(first, terms) && seen.agrees(terms)) return {};
      if (!(nearest.missed() <= seen.missed())) nearest = seen;
    }
    ProductLook found{.disagrees = true};
    if (std::isfinite(nearest.missed())) {
      found.adjoint = nearest.adjoint.share() * norm(adjoint_);
      found.cross = nearest.cross.share() * nearest.cross.size;
    }
    return found;
  }

 private:
  /// The sizes of what derivatives are sums of, which a small derivative does not show.
  struct Terms {
    double phi = 0, theta = 0;
  };
  struct Compared {
    double missed = 0, size = 0;      // of the product
    double slack = 0;                 // what it is known to miss by
    double derivative = 0, step = 1;  // of what was subtracted, and over which step
    static double tolerance() { return std::max(1e-6, 30 * std::pow(unit_roundoff<V>(), 2.0 / 3)); }
    double share() const { return missed == 0 ? 0 : missed / size; }
    double roundoff(double terms) const { return 64 * unit_roundoff<V>() * (derivative + terms) / step; }
    bool agrees(double terms) const { return missed <= tolerance() * size + slack + roundoff(terms); }
    /// Whether rounding is not what an agreement would be due to: a short step hides everything.
    bool tells_of(const Compared& first, double terms) const {
      return first.agrees(terms) ||
             roundoff(terms) <= (std::isfinite(first.missed) ? 0.5 * first.missed : 0.05 * size);
    }
  };
  struct Seen {
    Compared adjoint, cross;
    double missed() const { return adjoint.share() + cross.share(); }
    bool agrees(const Terms& t) const { return adjoint.agrees(t.phi) && cross.agrees(t.theta); }
    bool tells_of(const Seen& first, const Terms& t) const {
      return adjoint.tells_of(first.adjoint, t.phi) && cross.tells_of(first.cross, t.theta);
    }
  };

  void derivatives_at(double step, const V& way, V& phi, V* theta) {
    Space<V>::copy(p_.phi, moved_);
    Space<V>::axpy(step, way, moved_);
    if (of_loss_)
      problem_.derivatives(moved_, p_.theta, phi, *theta);
    else
      problem_.residual(moved_, p_.theta, phi);
  }
  void residual_at(double step, V& out) {
    Space<V>::copy(p_.theta, moved_theta_);
    Space<V>::axpy(step, *theta_way_, moved_theta_);
    problem_.residual(p_.phi, moved_theta_, out);
  }
  /// above = (above − below)/2h; returns the size of the two.
  static double divide(double step, const V& below, V& above) {
    const double size = norm(above) + norm(below);
    Space<V>::axpy(-1, below, above);
    Space<V>::scale(1 / (2 * step), above);
    return size;
  }
  static double distance(const V& a, V& b) {
    Space<V>::axpy(-1, a, b);
    return norm(b);
  }

  Seen look(double share) {
    Seen seen;
    Compared &a = seen.adjoint, &c = seen.cross;
    a.step = c.step = share * natural_step(p_.phi, way_);
    derivatives_at(a.step, way_, above_, &theta_above_);
    derivatives_at(-a.step, way_, below_, &theta_below_);
    a.derivative = divide(a.step, below_, above_);
    if (of_loss_) {
      a.size = norm(adjoint_);
      a.slack = p_.adjoint_residual;
      a.missed = distance(adjoint_, above_);
      c.derivative = divide(c.step, theta_below_, theta_above_);
      c.size = norm(cross_) + norm(p_.gradient);
      c.missed = distance(cross_, theta_above_);
      return seen;
    }
    // J along the direction, and Jᵀ and χᵀ by what they say of it.
    a.size = norm(*along_);
    a.slack = p_.adjoint_residual * norm(way_) / pi_norm_;
    const double transposed =
        std::abs(Space<V>::dot(p_.pi, above_) - Space<V>::dot(adjoint_, way_)) / pi_norm_;
    a.missed = std::max(distance(*along_, above_), transposed);
    c.step = share * natural_step(p_.theta, *theta_way_);
    residual_at(c.step, above_);
    residual_at(-c.step, below_);
    c.derivative = pi_norm_ * divide(c.step, below_, above_);
    c.size = pi_norm_ * norm(above_) + norm(p_.gradient);
    c.missed = std::abs(Space<V>::dot(p_.pi, above_) - Space<V>::dot(cross_, *theta_way_));
    return seen;
  }

  /// By how the derivatives change where every element of φ moves by a share of itself.
  Terms size_of_terms() {
    V own = Space<V>::zeros_like(p_.phi);
    Space<V>::random(seed_ + 23, own);
    Space<V>::multiply(p_.phi, own);
    const double size = norm(own);
    if (!(size > 0)) return {};
    const double step = natural_step(p_.phi, own);
    derivatives_at(step, own, above_, &theta_above_);
    derivatives_at(-step, own, below_, &theta_below_);
    divide(step, below_, above_);
    if (!of_loss_) return {norm(above_), pi_norm_ * norm(above_)};
    divide(step, theta_below_, theta_above_);
    return {norm(above_), norm(theta_above_)};
  }

  Equilibrium<V>& problem_;
  const Phases<V>& p_;
  const bool of_loss_;
  std::uint64_t seed_;
  V moved_, moved_theta_, above_, below_;
  V adjoint_;  // π̂Ĥ, as phase 2 has solved for it: the products may be of another loss by now
  V theta_above_, theta_below_, cross_;
  V way_;                               // of φ
  std::optional<V> theta_way_, along_;  // of θ, and J·way
  double pi_norm_ = 0;
};

}  // namespace bilevel::detail
