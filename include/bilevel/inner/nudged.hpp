#pragma once

#include <memory>
#include <optional>

#include <bilevel/inner/stop.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What phase 1 minimises: φ ↦ L_in(φ, θ) + β·L_out(φ, θ) at a fixed θ and β. The outer loss is
/// never called while β = 0. The problem must outlive this object.
template <Vector V>
class Nudged {
 public:
  explicit Nudged(Problem<V>& problem);
  // The prepared curvature counts into this object's ledger.
  Nudged(const Nudged&) = delete;
  Nudged& operator=(const Nudged&) = delete;

  void set(const V& theta, double beta);

  double value(const V& phi);
  double value_and_gradient(const V& phi, V& gradient);
  /// The curvature at phi, in storage that the next call overwrites.
  Curvature<V>& curvature(const V& phi);
  /// Constants of the problem on a ball, with μ and L those of L_in + β·L_out: the Hessian of β·L_out
  /// lies within ±|β|·outer_smoothness, so L grows and μ shrinks by as much.
  Constants constants(const V& center, double radius);
  Capabilities capabilities() const { return problem_.capabilities(); }

  /// Empty where the last evaluation, which gave this value and gradient, was finite; otherwise the
  /// oracle to blame and the iteration whose iterate it was asked about.
  std::optional<Stop> fault(double value, const V& gradient, double gradient_norm, long iteration) const;

  /// Whether the last evaluation, which gave this value, was outside of the inner loss's domain: a value of
  /// +∞, or an inner value of NaN. At a trial of a search that is a step too far; at an iterate NaN is a
  /// fault.
  bool outside(double value) const { return value == everywhere || std::isnan(inner_value_); }

  /// Where somebody wants phase 1 to end before it has settled.
  std::optional<Stop> asked_to_stop() const {
    const auto why = stop_wanted(problem_.stop_token());
    return why ? std::optional(Stop{*why, std::string(sentence(*why))}) : std::nullopt;
  }

  double beta() const { return beta_; }
  Cost& cost() { return problem_.cost(); }
  std::size_t bytes() const { return outer_gradient_ ? bytes_of(*outer_gradient_) : 0; }

 private:
  CountedProblem<V> problem_;
  V theta_;
  double beta_ = 0;
  double inner_value_ = unknown, outer_value_ = unknown;
  std::optional<V> outer_gradient_;  // ∂φ L_out, allocated when a β ≠ 0 first needs it
  std::unique_ptr<Curvature<V>> curvature_;
};

extern template class Nudged<Eigen::VectorXd>;
extern template class Nudged<Eigen::VectorXf>;

}  // namespace bilevel
