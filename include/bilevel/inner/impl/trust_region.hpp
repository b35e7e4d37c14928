#pragma once

#include <bilevel/inner/trust_region.hpp>

namespace bilevel {

template <Vector V>
TrustRegion<V>::TrustRegion(TrustRegionOptions options) : options_(options) {
  options_.validate().throw_if_any();
}

template <Vector V>
void TrustRegion<V>::check(Nudged<V>& nudged, const State<V>&) {
  if (!nudged.capabilities().curvature)
    throw InvalidInput(
        "trust-region: the problem offers first derivatives only; use lbfgs, or ask for "
        "with_difference_products()");
  negative_ = 0;
}

template <Vector V>
std::optional<Stop> TrustRegion<V>::begin(Nudged<V>&, State<V>& state) {
  while (work_.size() < 6) work_.push_back(Space<V>::zeros_like(state.phi));
  radius_ = options_.first_radius;
  products_ = options_.max_products > 0 ? options_.max_products
                                        : 2 * static_cast<long>(Space<V>::size(state.phi)) + 10;
  return {};
}

template <Vector V>
std::optional<Stop> TrustRegion<V>::minimise_model(const Nudged<V>& nudged, Curvature<V>& curvature,
                                                   const State<V>& state, Model& model) {
  V &p = work_[0], &r = work_[1], &d = work_[2], &hd = work_[3];
  Space<V>::scale(0, p);
  Space<V>::copy(state.gradient, r);
  Space<V>::copy(r, d);
  Space<V>::scale(-1, d);
  const double target = std::min(0.5, std::sqrt(state.gradient_norm)) * state.gradient_norm;
  double rr = state.gradient_norm * state.gradient_norm, pp = 0, pd = 0, dd = rr;
  model = {};
  for (long k = 0; k < products_; ++k) {
    if (auto stop = nudged.asked_to_stop()) return stop;
    curvature.times(d, hd);
    const double curvature_along = Space<V>::dot(d, hd);
    if (!std::isfinite(curvature_along))
      return Stop{Status::not_finite,
                  fmt::format("the Hessian product is not finite at iteration {}", state.iteration)};
    double length = rr / curvature_along;
    const bool negative = curvature_along <= 0;
    if (negative || pp + 2 * length * pd + length * length * dd >= radius_ * radius_) {
      // The positive root of ‖p + t·d‖ = Δ, in the form without cancellation.
      const double rest = std::max(0.0, radius_ * radius_ - pp), root = std::sqrt(pd * pd + dd * rest);
      length = pd > 0 ? rest / (pd + root) : (root - pd) / dd;
      negative_ += negative;
      model.at_boundary = true;
    }
    Space<V>::axpy(length, d, p);
    Space<V>::axpy(length, hd, r);
    if (model.at_boundary) break;
    const double rr_before = rr;
    rr = Space<V>::dot(r, r);
    if (std::sqrt(rr) <= target) break;
    Space<V>::scale(rr / rr_before, d);
    Space<V>::axpy(-1, r, d);
    pp = Space<V>::dot(p, p);
    pd = Space<V>::dot(p, d);
    dd = Space<V>::dot(d, d);
  }
  model.length = norm(p);
  // gᵀp + ½pᵀHp with Hp = r − g.
  model.predicted = -0.5 * (Space<V>::dot(state.gradient, p) + Space<V>::dot(r, p));
  return {};
}

template <Vector V>
std::optional<Stop> TrustRegion<V>::advance(Nudged<V>& nudged, State<V>& state) {
  Curvature<V>& curvature = nudged.curvature(state.phi);
  V &p = work_[0], &phi = work_[4], &gradient = work_[5];
  Model model;
  while (true) {
    if (auto stop = minimise_model(nudged, curvature, state, model)) return stop;
    Space<V>::copy(state.phi, phi);
    Space<V>::axpy(1, p, phi);
    const double value = nudged.value_and_gradient(phi, gradient);
    const bool outside = nudged.outside(value);
    const double gradient_norm = outside ? unknown : norm(gradient);
    if (!outside)
      if (auto stop = nudged.fault(value, gradient, gradient_norm, state.iteration + 1)) return stop;

    double ratio = outside ? -1 : (state.value - value) / model.predicted;
    // Where promise and change of the value are both within rounding, the gradient judges.
    const bool flattens = !outside && model.predicted <= state.value_noise() &&
                          std::abs(value - state.value) <= state.value_noise() &&
                          gradient_norm < state.gradient_norm;
    if (flattens) ratio = 1;
    if (!(ratio >= 0.25)) {
      radius_ = 0.25 * std::min(radius_, model.length);
    } else if (ratio > 0.75 && model.at_boundary) {
      radius_ *= 2;
    }
    if ((ratio > 1e-4 && value < state.value) || flattens) {
      std::swap(state.phi, phi);
      std::swap(state.gradient, gradient);
      state.value = value;
      state.gradient_norm = gradient_norm;
      return {};
    }
    if (!(radius_ >
          0.5 * unit_roundoff<V>() * std::max(norm(state.phi), std::numeric_limits<float>::min() * 1.0)) ||
        !(model.predicted > 0)) {
      if (outside && std::isnan(value)) return nudged.fault(value, gradient, unknown, state.iteration + 1);
      return Stop{Status::stalled,
                  fmt::format("no step decreases the loss: radius {:.3g}, predicted decrease {:.3g}, value "
                              "{:.10g} at the trial",
                              radius_, model.predicted, value)};
    }
  }
}

template <Vector V>
std::string TrustRegion<V>::note() const {
  return negative_ == 0 ? std::string() : fmt::format("negative curvature was met {} times", negative_);
}

}  // namespace bilevel
