#include <bilevel/gradient/sum_of_estimators.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <bilevel/problem/gamma.hpp>
#include "threads/side_by_side.hpp"

namespace bilevel {

using Vec = Eigen::VectorXd;

namespace {

/// The larger of two where NaN, "not known", wins.
double worse(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? unknown : std::max(a, b);
}

}  // namespace

Estimate<Vec> combine(const std::vector<double>& weights, const std::vector<Estimate<Vec>>& estimates,
                      double outer_tolerance) {
  if (estimates.empty() || weights.size() != estimates.size())
    throw InvalidInput(fmt::format("combine: {} weights for {} estimates", weights.size(), estimates.size()));
  for (const auto& e : estimates) {
    if (e.gradient.size() != estimates[0].gradient.size())
      throw InvalidInput(fmt::format("combine: one gradient has {} elements, another {}",
                                     estimates[0].gradient.size(), e.gradient.size()));
    if (e.pi.size() != e.phi.size())
      throw InvalidInput(
          fmt::format("combine: an estimate has {} elements of phi and {} of pi", e.phi.size(), e.pi.size()));
  }
  Estimate<Vec> sum;
  sum.gradient = Vec::Zero(estimates[0].gradient.size());
  sum.outer_value = sum.corrected_value = 0;
  sum.status = sum.inner_status = sum.adjoint_status = Status::converged;
  Certificate& c = sum.certificate;
  c.kind = Kind::rigorous;
  c.bound = c.theorem_bound = c.inner_residual = c.adjoint_residual = c.delta = c.delta_prime = 0;
  c.mu = everywhere;
  c.smoothness = 0;
  Index phis = 0;
  double rounding = 0;
  for (const auto& e : estimates) phis += e.phi.size();
  sum.phi.resize(phis);
  sum.pi.resize(phis);
  Index place = 0;
  for (std::size_t k = 0; k < estimates.size(); ++k) {
    const Estimate<Vec>& e = estimates[k];
    const double weight = weights[k], size = std::abs(weight);
    sum.gradient += weight * e.gradient;
    rounding += size * e.gradient.norm();
    sum.outer_value += weight * e.outer_value;
    sum.corrected_value += weight * e.corrected_value;
    sum.phi.segment(place, e.phi.size()) = e.phi;
    sum.pi.segment(place, e.phi.size()) = e.pi;
    place += e.phi.size();
    const Certificate& own = e.certificate;
    c.kind = std::min(c.kind, own.kind);
    c.bound += size * own.bound;
    c.theorem_bound += size * own.theorem_bound;
    c.inner_residual = worse(c.inner_residual, own.inner_residual);
    c.adjoint_residual = worse(c.adjoint_residual, own.adjoint_residual);
    c.delta = worse(c.delta, own.delta);
    c.delta_prime = worse(c.delta_prime, own.delta_prime);
    c.mu = -worse(-c.mu, -own.mu);
    c.trust = k == 0 ? own.trust : std::min(c.trust, own.trust);
    if (c.doubt.empty()) c.doubt = own.doubt;
    c.smoothness = worse(c.smoothness, own.smoothness);
    if (k == 0 || own.kind == c.kind) {
      c.reason = own.reason;
      c.mu_source = own.mu_source;
      c.smoothness_source = own.smoothness_source;
    }
    sum.cost += e.cost;
    sum.inner_iterations += e.inner_iterations;
    sum.adjoint_iterations += e.adjoint_iterations;
    if (succeeded(sum.inner_status)) sum.inner_status = e.inner_status;
    if (succeeded(sum.adjoint_status)) sum.adjoint_status = e.adjoint_status;
    if (succeeded(sum.status)) {
      sum.status = e.status;
      sum.message = fmt::format("part {} of {}: {}", k + 1, estimates.size(), e.message);
    }
    sum.choice = e.choice;
  }
  c.bound += gamma(static_cast<double>(estimates.size()) + 4) * rounding;
  if (!sum.gradient.allFinite()) sum.status = Status::not_finite;
  c.judge(sum.gradient.norm(), outer_tolerance, succeeded(sum.status));
  return sum;
}

SumOfEstimators::SumOfEstimators(std::vector<std::unique_ptr<Estimator<Vec>>> estimators,
                                 std::vector<double> weights)
    : estimators_(std::move(estimators)), weights_(std::move(weights)) {
  if (estimators_.empty() || weights_.size() != estimators_.size())
    throw InvalidInput(
        fmt::format("sum of estimators: {} weights for {} estimators", weights_.size(), estimators_.size()));
  for (const auto& estimator : estimators_)
    if (!estimator) throw InvalidInput("sum of estimators: one of them is null");
  const Index thetas = estimators_.front()->initial_theta().size();
  for (const auto& estimator : estimators_) {
    if (estimator->initial_theta().size() != thetas)
      throw InvalidInput(fmt::format("sum of estimators: one problem has {} parameters, another {}", thetas,
                                     estimator->initial_theta().size()));
    sizes_.push_back(estimator->initial_phi().size());
  }
}

Estimate<Vec> SumOfEstimators::estimate(const Vec& theta, const Warm<Vec>& warm) {
  std::vector<Estimate<Vec>> parts(estimators_.size());
  std::vector<Index> starts(estimators_.size(), 0);
  for (std::size_t k = 1; k < starts.size(); ++k) starts[k] = starts[k - 1] + sizes_[k - 1];
  const Index phis = starts.back() + sizes_.back();
  const auto part = [&](const std::optional<Vec>& whole, std::size_t k) -> std::optional<Vec> {
    if (!whole || whole->size() != phis) return {};
    return Vec(whole->segment(starts[k], sizes_[k]));
  };
  side_by_side(parts.size(), [&](std::size_t k) {
    parts[k] = estimators_[k]->estimate(theta, {part(warm.phi, k), part(warm.pi, k)});
  });
  return combine(weights_, parts, outer_tolerance_);
}

void SumOfEstimators::set_tolerances(double inner, double adjoint) {
  for (auto& estimator : estimators_) estimator->set_tolerances(inner, adjoint);
}

void SumOfEstimators::set_outer_tolerance(double tolerance) {
  outer_tolerance_ = tolerance;
  for (auto& estimator : estimators_) estimator->set_outer_tolerance(tolerance);
}

Vec SumOfEstimators::initial_phi() const {
  Vec phi(0);
  for (const auto& estimator : estimators_) {
    const Vec own = estimator->initial_phi();
    phi.conservativeResize(phi.size() + own.size());
    phi.tail(own.size()) = own;
  }
  return phi;
}

}  // namespace bilevel
