#pragma once

#include <bilevel/inner/nudged.hpp>

namespace bilevel {

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

}  // namespace bilevel
