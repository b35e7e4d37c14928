#pragma once

#include <memory>
#include <optional>

#include <bilevel/inner/stop.hpp>
#include <bilevel/outcome/cost.hpp>
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

template <Vector V>
Nudged<V>::Nudged(Problem<V>& problem)
    : problem_(problem), theta_(Space<V>::zeros_like(problem.initial_theta())) {}

template <Vector V>
void Nudged<V>::set(const V& theta, double beta) {
  Space<V>::copy(theta, theta_);
  beta_ = beta;
  outer_value_ = 0;
  if (beta != 0 && !outer_gradient_) outer_gradient_ = Space<V>::zeros_like(problem_.initial_phi());
}

template <Vector V>
double Nudged<V>::value(const V& phi) {
  inner_value_ = problem_.inner(phi, theta_, {});
  if (beta_ == 0) return inner_value_;
  outer_value_ = problem_.outer(phi, theta_, {});
  return inner_value_ + beta_ * outer_value_;
}

template <Vector V>
double Nudged<V>::value_and_gradient(const V& phi, V& gradient) {
  inner_value_ = problem_.inner(phi, theta_, {.phi = &gradient});
  if (beta_ == 0) return inner_value_;
  outer_value_ = problem_.outer(phi, theta_, {.phi = &*outer_gradient_});
  Space<V>::axpy(beta_, *outer_gradient_, gradient);
  return inner_value_ + beta_ * outer_value_;
}

template <Vector V>
Curvature<V>& Nudged<V>::curvature(const V& phi) {
  problem_.linearise(phi, theta_, beta_, curvature_);
  return *curvature_;
}

template <Vector V>
Constants Nudged<V>::constants(const V& center, double radius) {
  Constants c = problem_.constants(theta_, center, radius);
  if (beta_ != 0) {
    c.smoothness += std::abs(beta_) * c.outer_smoothness;
    c.mu -= std::abs(beta_) * c.outer_smoothness;
  }
  return c;
}

template <Vector V>
std::optional<Stop> Nudged<V>::fault(double value, const V& gradient, double gradient_norm,
                                     long iteration) const {
  if (std::isfinite(value) && std::isfinite(gradient_norm * gradient_norm)) return {};
  const auto blame = [&](std::string_view oracle, double number) {
    return Stop{Status::not_finite, fmt::format("{} is {} at iteration {}", oracle, number, iteration)};
  };
  if (!std::isfinite(inner_value_)) return blame("the inner value", inner_value_);
  if (!std::isfinite(outer_value_)) return blame("the outer value", outer_value_);
  if (!std::isfinite(value)) return blame("the nudged value", value);
  if (outer_gradient_ && beta_ != 0 && !all_finite(*outer_gradient_))
    return blame("the outer gradient", Space<V>::max_abs(*outer_gradient_));
  if (!all_finite(gradient)) return blame("the inner gradient", Space<V>::max_abs(gradient));
  // Every element is finite and only the sum of their squares overflowed.
  return Stop{Status::diverged, fmt::format("the gradient's largest element is {:.3g} at iteration {}",
                                            Space<V>::max_abs(gradient), iteration)};
}

extern template class Nudged<Eigen::VectorXd>;
extern template class Nudged<Eigen::VectorXf>;

}  // namespace bilevel
