#pragma once

#include <bilevel/gradient/differenced_solves.hpp>
#include <bilevel/gradient/impl/second_look.hpp>
#include <bilevel/gradient/impl/settled_value.hpp>

namespace bilevel {

template <Vector V>
typename DifferencedSolves<V>::Point DifferencedSolves<V>::look(const V& phi, const V& theta) {
  problem_.residual(phi, theta, residual_);
  return {problem_.outer(phi, theta, {}), norm(residual_)};
}

template <Vector V>
void DifferencedSolves<V>::observe(const Point& before, const Point& after, double rounding, double& slope) {
  const double change = std::abs(before.value - after.value);
  if (before.residual > 2 * after.residual && change > rounding && std::isfinite(change))
    slope = std::max(slope, change / (before.residual - after.residual));
}

template <Vector V>
Settled<V> DifferencedSolves<V>::settle(const V& start, const V& theta) {
  Settled<V> settled = value_.from(start, theta);
  cost_ += settled.cost;
  ++solves_;
  return settled;
}

/// A solver asked for a tolerance, until this goes.
template <Vector V>
class Asked {
 public:
  Asked(InnerSolver<V>& solver, double tolerance, double after) : solver_(solver), after_(after) {
    solver_.set_tolerance(tolerance);
  }
  ~Asked() { solver_.set_tolerance(after_); }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

 private:
  InnerSolver<V>& solver_;
  double after_;
};

/// What a solve leaves lies where its solver is slow, in soft directions that the way it came says little of.
/// Settled on to a tenth of it, the value moves by nearly all of its error.
template <Vector V>
void DifferencedSolves<V>::refine(const Settled<V>& from, const V& theta) {
  if (!(tolerance_ > 0) || !succeeded(from.status) || !(from.residual_norm > 0.1 * tolerance_)) return;
  ++refined_;
  const Asked<V> asked(solver_, 0.1 * tolerance_, tolerance_);
  const Settled<V> finer = settle(from.phi, theta);
  observe({from.value, from.residual_norm}, {finer.value, finer.residual_norm}, rounding_, fine_slope_);
}

template <Vector V>
bool DifferencedSolves<V>::begin(const V& theta, const Warm<V>& warm, Estimate<V>& e) {
  require_shapes<V>(problem_, nullptr, &theta, "estimate");
  problem_.cost() = {};
  cost_ = {};
  solves_ = 0;
  worst_ = Status::converged;
  trouble_.clear();
  unstable_.clear();
  fine_slope_ = coarse_slope_ = soft_slope_ = 0;
  stood_still_ = refined_ = 0;
  e.gradient = Space<V>::zeros_like(theta);
  Space<V>::fill(unknown, e.gradient);
  e.pi = Space<V>::zeros_like(residual_);

  const V start = better_start<V>(problem_, theta, warm.phi, residual_);
  const Point before = look(start, theta);
  Settled<V> settled = settle(start, theta);
  e.outer_value = e.corrected_value = settled.value;
  e.inner_status = e.status = settled.status;
  e.adjoint_status = Status::not_run;
  e.inner_iterations = settled.iterations;
  e.message = fmt::format("free solve by {}", settled.message);
  const Point after{settled.value, settled.residual_norm};
  const double magnitude =
      std::max(std::abs(after.value), std::isfinite(before.value) ? std::abs(before.value) : 0);
  scale_ = magnitude > 0 ? magnitude : 1;
  rounding_ = 4 * unit_roundoff<V>() * scale_;
  residual_left_ = free_residual_ = after.residual;
  tolerance_ = std::isfinite(settled.tolerance) ? settled.tolerance : 0;
  e.phi = duplicate(settled.phi);
  free_ = e.phi;
  if (e.status == Status::not_finite) {
    e.certificate.reason = e.message;
    conclude("", 0, e);
    return false;
  }
  observe(before, after, rounding_, coarse_slope_);
  if (tolerance_ > 0) {
    // A solve of a tenth of the accuracy leaves residuals of the same kind: how much did they matter?
    const Asked<V> asked(solver_, 10 * tolerance_, tolerance_);
    const Settled<V> loose = settle(start, theta);
    observe({loose.value, loose.residual_norm}, after, rounding_, fine_slope_);
  }
  refine(settled, theta);
  push(theta, after);
  if (unstable_.empty()) look_at_curvature(theta);
  return true;
}

/// A saddle settles too, and values seen from there are those of another branch: give the state a push in a
/// random direction, far enough for the solver to take notice, and see whether it comes back.
template <Vector V>
void DifferencedSolves<V>::push(const V& theta, const Point& free) {
  V direction = Space<V>::zeros_like(free_), pushed = Space<V>::zeros_like(free_);
  Space<V>::random(1, direction);
  Space<V>::scale(1 / norm(direction), direction);
  const double noticed = 10 * std::max(free.residual, tolerance_),
               farthest = 0.1 * std::max(1.0, norm(free_));
  double length = 1e-4 * std::max(1.0, norm(free_));
  Point before{};
  for (;; length = std::min(10 * length, farthest)) {
    Space<V>::copy(free_, pushed);
    Space<V>::axpy(length, direction, pushed);
    before = look(pushed, theta);
    if (!(before.residual <= noticed)) break;
    if (length >= farthest) {
      unstable_ = fmt::format(
          "its residual of {:.3g} (asked for {:.3g}) hides what a push does; settle more "
          "accurately",
          free.residual, tolerance_);
      return;
    }
  }
  observe(before, free, rounding_, fine_slope_);
  Settled<V> back = settle(pushed, theta);
  const Point after{back.value, back.residual_norm};
  observe(before, after, rounding_, fine_slope_);
  const double change = std::abs(after.value - free.value);
  if (!std::isfinite(change)) {
    unstable_ = fmt::format("pushed by {:.3g}, the state {}", length, back.message);
    return;
  }
  Space<V>::axpy(-1, free_, back.phi);
  const double distance = norm(back.phi);
  const double error = safety * slope() * (after.residual + free.residual) + rounding_;
  if (distance > 10 * length && change > 10 * error)
    unstable_ =
        fmt::format("pushed by {:.3g}, the state went {:.3g} away and the outer loss from {:.6g} to {:.6g}",
                    length, distance, free.value, after.value);
  else if (distance > length && !succeeded(back.status) && back.status != Status::not_run)
    unstable_ = fmt::format("pushed by {:.3g}, the state went {:.3g} away and did not settle: {}", length,
                            distance, back.message);
}

/// Newton's method comes back to a saddle, and values that do not feel its unstable direction agree. In the
/// direction of least curvature λ, v, a residual weighs the most: |∂φ L_out·v|/λ.
template <Vector V>
void DifferencedSolves<V>::look_at_curvature(const V& theta) {
  if (!problem_.capabilities().symmetric) return;
  problem_.residual(free_, theta, residual_);
  const double spent = 2 * cost_.gradient_equivalents();  // what follows costs as much, at least
  const LeastCurvature<V> least =
      least_curvature<V>(problem_, theta, free_, residual_, affordable_looks(spent), 2);
  if (least.negative() && !(problem_.constants(theta, free_, 0).mu > 0)) {
    unstable_ = fmt::format("the inner loss bends downwards there (curvature {:.3g})", least.value);
    return;
  }
  if (!(least.value > least.error)) return;
  const auto outer = [&](double step) {
    Space<V>::copy(free_, residual_);
    Space<V>::axpy(step, least.direction, residual_);
    return problem_.outer(residual_, theta, {});
  };
  const double change = std::abs(outer(least.step) - outer(-least.step)) / (2 * least.step);
  if (change > rounding_ / least.step) soft_slope_ = change / least.value;
}

template <Vector V>
double DifferencedSolves<V>::value(const V& theta) {
  const Point before = look(free_, theta);
  const Settled<V> settled = settle(free_, theta);
  if (succeeded(worst_) && !succeeded(settled.status)) {
    worst_ = settled.status;
    trouble_ =
        fmt::format("; solve {} ended {}: {}", solves_, bilevel::name(settled.status), settled.message);
  }
  if (settled.status == Status::not_finite) worst_ = settled.status;
  const Point after{settled.value, settled.residual_norm};
  observe(before, after, rounding_, fine_slope_);
  if (refined_ < 2) refine(settled, theta);
  Space<V>::copy(settled.phi, residual_);
  Space<V>::axpy(-1, free_, residual_);
  if (Space<V>::max_abs(residual_) == 0 && before.residual > 2 * free_residual_) ++stood_still_;
  residual_left_ = std::max(residual_left_, after.residual);
  return settled.value;
}

template <Vector V>
double DifferencedSolves<V>::relative_step(int order) const {
  const double foreseen =
      std::max(std::max(slope(), soft_slope_ / safety) * std::max(residual_left_, tolerance_), rounding_);
  return std::min(0.1, std::pow(foreseen / scale_, 1.0 / (order + 1)));
}

template <Vector V>
void DifferencedSolves<V>::conclude(std::string_view message, double outer_tolerance, Estimate<V>& e) {
  if (succeeded(e.status)) e.status = worst_;
  if (!all_finite(e.gradient)) {
    e.status = Status::not_finite;
    e.certificate.kind = Kind::none;
    e.certificate.bound = everywhere;
    e.certificate.reason = "there is no gradient: " + (trouble_.empty() ? e.message : trouble_.substr(2));
  }
  if (!unstable_.empty()) {
    e.certificate.kind = Kind::none;
    e.certificate.bound = everywhere;
    e.certificate.reason = "the free solution is not a stable one: " + unstable_;
  }
  if (stood_still_ > 0) {
    e.certificate.kind = Kind::none;
    e.certificate.bound = everywhere;
    e.certificate.reason = fmt::format(
        "{} of {} solves found the free state good enough at another θ, so their values say nothing: the "
        "inner "
        "tolerance is too loose for these steps",
        stood_still_, solves_);
  }
  e.certificate.inner_residual = residual_left_;
  e.certificate.judge(norm(e.gradient), outer_tolerance, succeeded(e.status));
  e.message += message;
  e.message += trouble_;
  e.cost += cost_;
  e.cost += problem_.cost();
  e.cost.bytes = std::max(e.cost.bytes, cost_.bytes + 4 * bytes_of(residual_) + 6 * bytes_of(e.gradient));
}

}  // namespace bilevel
