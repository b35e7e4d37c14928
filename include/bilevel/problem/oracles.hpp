#pragma once

#include <concepts>
#include <type_traits>

#include <bilevel/problem/equilibrium.hpp>

namespace bilevel {

// What a plain struct offers, one concept for each member, so that an error can name the one at fault.
// `T` may be a reference. Members may be functions or callable objects.

template <class T, class V>
concept OffersStarts = requires(const std::remove_reference_t<T>& t) {
  { t.initial_phi() } -> std::convertible_to<V>;
  { t.initial_theta() } -> std::convertible_to<V>;
};
template <class T, class V>
concept OffersInner = requires(T& t, const V& phi, const V& theta, Wanted<V> wanted) {
  { t.inner(phi, theta, wanted) } -> std::convertible_to<double>;
};
template <class T, class V>
concept OffersResidual = requires(T& t, const V& phi, const V& theta, V& out) {
  t.residual(phi, theta, out);
};
template <class T, class V>
concept OffersOuter = requires(T& t, const V& phi, const V& theta, Wanted<V> wanted) {
  { t.outer(phi, theta, wanted) } -> std::convertible_to<double>;
};

template <class T, class V>
concept OffersHessianTimes = requires(T& t, const V& phi, const V& theta, double beta, const V& v, V& out) {
  t.hessian_times(phi, theta, beta, v, out);
};
template <class T, class V>
concept OffersHessianTransposeTimes = requires(T& t, const V& phi, const V& theta, double beta, const V& v,
                                               V& out) {
  t.hessian_transpose_times(phi, theta, beta, v, out);
};
template <class T, class V>
concept OffersCrossTimes = requires(T& t, const V& phi, const V& theta, double beta, const V& v, V& out) {
  t.cross_times(phi, theta, beta, v, out);
};
template <class T, class V>
concept OffersCrossApply = requires(T& t, const V& phi, const V& theta, double beta, const V& u, V& out) {
  t.cross_apply(phi, theta, beta, u, out);
};
template <class T, class V>
concept OffersDense = requires(T& t, const V& phi, const V& theta, double beta, Eigen::MatrixXd& out) {
  t.dense(phi, theta, beta, out);
};
template <class T, class V>
concept OffersCrossNorm = requires(T& t, const V& phi, const V& theta, double beta) {
  { t.cross_norm(phi, theta, beta) } -> std::convertible_to<double>;
};
template <class T, class V>
concept OffersConstants = requires(T& t, const V& theta, const V& center, double radius) {
  { t.constants(theta, center, radius) } -> std::convertible_to<Constants>;
};
template <class T, class V>
concept OffersRounding = requires(T& t, const V& phi, const V& theta, const V& pi) {
  { t.rounding(phi, theta, pi) } -> std::convertible_to<Rounding>;
};

template <class T, class V>
concept OffersPhiConstraints = requires(const std::remove_reference_t<T>& t) {
  { t.phi_constraints() } -> std::convertible_to<PhiConstraints>;
};

/// Second derivatives: the three products that phase 2 and its gradient need.
template <class T, class V>
concept OffersSecondOrder = OffersHessianTimes<T, V> && OffersCrossTimes<T, V> && OffersCrossApply<T, V>;

/// A plain struct that can be a Problem<V>:
///
///   V initial_phi() const, initial_theta() const
///   double inner(phi, theta, Wanted<V>)      L_in, and ∂φ and/or ∂θ into wanted.phi, wanted.theta
///   double outer(phi, theta, Wanted<V>)      L_out likewise
/// and, all three or none,
///   hessian_times(phi, theta, beta, v, out)  out = ∂φ²(L_in + β·L_out)·v
///   cross_times(phi, theta, beta, v, out)    out = χᵀ·v,  χ = ∂θ∂φ(L_in + β·L_out)
///   cross_apply(phi, theta, beta, u, out)    out = χ·u
/// and, each on its own,
///   dense(phi, theta, beta, matrix), cross_norm(phi, theta, beta), constants(theta, center, radius),
///   rounding(phi, theta, pi), PhiConstraints phi_constraints() const, residual(phi, theta, out) where it is cheaper than asking inner for ∂φ,
///   validate() → Violations, called once, before any work.
template <class T, class V>
concept Oracles = Vector<V> && OffersStarts<T, V> && OffersInner<T, V> && OffersOuter<T, V>;

/// A plain struct that can be an Equilibrium<V>: `residual(phi, theta, out)` in place of `inner`. Its
/// Jacobian need not be symmetric, so the products also comprise hessian_transpose_times.
template <class T, class V>
concept ResidualOracles =
    Vector<V> && OffersStarts<T, V> && !OffersInner<T, V> && OffersResidual<T, V> && OffersOuter<T, V>;

}  // namespace bilevel
