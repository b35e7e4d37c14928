#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

/// A problem whose products are central differences of its first derivatives, for what has no second
/// ones. With F = ∂φ(L_in + β·L_out) and E = ∂θ(L_in + β·L_out), u the unit roundoff of V:
///
///   J·v  ≈ [F(φ + hv, θ) − F(φ − hv, θ)] / 2h      h = ∛u · max(1, ‖φ‖) / ‖v‖
///   χᵀ·v ≈ [E(φ + hv, θ) − E(φ − hv, θ)] / 2h      the same h
///   χ·w  ≈ [F(φ, θ + hw) − F(φ, θ − hw)] / 2h      h = ∛u · max(1, ‖θ‖) / ‖w‖
///
/// The error is O(h²) from the third derivatives and O(u/h) from rounding; ∛u balances the two where
/// derivatives of all orders are of one size, and leaves a relative error of about u^⅔: ten digits in
/// double, four in float. A product costs two gradients of each loss (of L_in only where β = 0).
///
/// The wrapped problem's constants describe the losses, not these products, and nothing bounds the products'
/// errors: constants and rounding are unknown, so that no certificate built on them is called rigorous.
/// The problem must outlive this object and this object the curvatures that it prepared.
template <Vector V>
class Differenced final : public Problem<V> {
 public:
  explicit Differenced(Problem<V>& problem) : problem_(problem) {}

  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }
  double inner(const V& phi, const V& theta, Wanted<V> wanted) override {
    return problem_.inner(phi, theta, wanted);
  }
  double outer(const V& phi, const V& theta, Wanted<V> wanted) override {
    return problem_.outer(phi, theta, wanted);
  }
  void residual(const V& phi, const V& theta, V& out) override { problem_.residual(phi, theta, out); }
  void linearise(const V& phi, const V& theta, double beta, std::unique_ptr<Curvature<V>>& reuse) override {
    if (!reuse) reuse = std::make_unique<Products>(problem_, phi, theta);
    static_cast<Products&>(*reuse).move_to(phi, theta, beta);
  }
  Capabilities capabilities() const override {
    return {.curvature = true, .symmetric = true, .differenced = true};
  }
  std::string kink(const V& phi, const V& theta) override { return problem_.kink(phi, theta); }
  Holomorphic* holomorphic() override { return problem_.holomorphic(); }
  void obey(const StopToken* stop) override { problem_.obey(stop); }
  const StopToken* stop_token() const override { return problem_.stop_token(); }

 private:
  class Products final : public Curvature<V> {
   public:
    // zeros_like and not the copy constructor: a vector type may share its elements between copies.
    Products(Problem<V>& problem, const V& phi, const V& theta)
        : problem_(problem),
          phi_(Space<V>::zeros_like(phi)),
          moved_phi_(Space<V>::zeros_like(phi)),
          below_phi_(Space<V>::zeros_like(phi)),
          outer_phi_(Space<V>::zeros_like(phi)),
          theta_(Space<V>::zeros_like(theta)),
          moved_theta_(Space<V>::zeros_like(theta)),
          below_theta_(Space<V>::zeros_like(theta)),
          outer_theta_(Space<V>::zeros_like(theta)) {}

    void move_to(const V& phi, const V& theta, double beta) {
      Space<V>::copy(phi, phi_);
      Space<V>::copy(theta, theta_);
      beta_ = beta;
    }
    void times(const V& v, V& out) override {
      const double h = step(phi_, v);
      if (h == 0) return Space<V>::scale(0, out);
      shift(phi_, -h, v, moved_phi_);
      phi_gradient(moved_phi_, theta_, below_phi_);
      shift(phi_, h, v, moved_phi_);
      phi_gradient(moved_phi_, theta_, out);
      divide_difference(below_phi_, h, out);
    }
    void cross_times(const V& v, V& out) override {
      const double h = step(phi_, v);
      if (h == 0) return Space<V>::scale(0, out);
      shift(phi_, -h, v, moved_phi_);
      theta_gradient(moved_phi_, below_theta_);
      shift(phi_, h, v, moved_phi_);
      theta_gradient(moved_phi_, out);
      divide_difference(below_theta_, h, out);
    }
    void cross_apply(const V& w, V& out) override {
      const double h = step(theta_, w);
      if (h == 0) return Space<V>::scale(0, out);
      shift(theta_, -h, w, moved_theta_);
      phi_gradient(phi_, moved_theta_, below_phi_);
      shift(theta_, h, w, moved_theta_);
      phi_gradient(phi_, moved_theta_, out);
      divide_difference(below_phi_, h, out);
    }

   private:
    /// 0 for a zero direction, whose product is zero without any difference.
    static double step(const V& x, const V& direction) {
      const double length = norm(direction);
      return length == 0 ? 0 : std::cbrt(unit_roundoff<V>()) * std::max(1.0, norm(x)) / length;
    }
    static void shift(const V& x, double h, const V& direction, V& out) {
      Space<V>::copy(x, out);
      Space<V>::axpy(h, direction, out);
    }
    static void divide_difference(const V& below, double h, V& above) {
      Space<V>::axpy(-1, below, above);
      Space<V>::scale(1 / (2 * h), above);
    }
    void phi_gradient(const V& phi, const V& theta, V& out) {
      problem_.residual(phi, theta, out);
      if (beta_ == 0) return;
      problem_.outer(phi, theta, {.phi = &outer_phi_});
      Space<V>::axpy(beta_, outer_phi_, out);
    }
    void theta_gradient(const V& phi, V& out) {
      problem_.inner(phi, theta_, {.theta = &out});
      if (beta_ == 0) return;
      problem_.outer(phi, theta_, {.theta = &outer_theta_});
      Space<V>::axpy(beta_, outer_theta_, out);
    }

    Problem<V>& problem_;
    V phi_, moved_phi_, below_phi_, outer_phi_;
    V theta_, moved_theta_, below_theta_, outer_theta_;
    double beta_ = 0;
  };

  Problem<V>& problem_;
};

template <Vector V>
Differenced<V> with_difference_products(Problem<V>& problem) {
  return Differenced<V>(problem);
}

}  // namespace bilevel
