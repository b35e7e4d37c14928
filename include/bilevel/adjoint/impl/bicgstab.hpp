#pragma once

#include <bilevel/adjoint/bicgstab.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>

namespace bilevel {

template <Vector V>
LinearSolution<V> Bicgstab<V>::solve(LinearOperator<V>& a, const V& b, const V* warm) {
  LinearRun<V> run("bicgstab", a, b, warm, options_);
  if (!run.running()) return run.finish(0);

  const auto zero = [&] { return Space<V>::zeros_like(b); };
  Workspace w{zero(), zero(), zero(), zero(), zero(), zero(), zero(), zero()};
  long restarts = 0;
  while (run.running() && run.solution().iterations < run.limit()) {
    const double before = run.residual_norm();
    const Breakdown breakdown = cycle(run, w, restarts);
    if (breakdown.divisor.empty()) continue;
    restarts = run.residual_norm() <= 0.5 * before ? 0 : restarts + 1;
    if (restarts > options_.max_restarts)
      run.stop(Status::breakdown,
               fmt::format("{} = {:.3g} relative to its factors is zero to rounding, {} times in a row",
                           breakdown.divisor, breakdown.value, restarts));
  }
  return run.finish(8 * bytes_of(b));
}

template <Vector V>
auto Bicgstab<V>::cycle(LinearRun<V>& run, Workspace& w, long restarts) const -> Breakdown {
  using S = Space<V>;
  const double level = unit_roundoff<V>();
  const double before = run.residual_norm();
  S::copy(run.x(), w.x);
  S::copy(run.residual(), w.r);
  S::copy(w.r, w.p);
  // The usual shadow is r itself; where that has broken down, a random one is as good and another one.
  if (restarts == 0) {
    S::copy(w.r, w.shadow);
  } else {
    S::random(options_.seed + static_cast<std::uint64_t>(restarts), w.shadow);
  }
  const double shadow_norm = norm(w.shadow);
  double rho = S::dot(w.shadow, w.r);
  double r_norm = before, lowest_norm = before;
  bool lowest_kept = false;
  Breakdown breakdown;
  // |divisor| against the product of its factors' norms
  const auto vanishes = [&](std::string_view what, double value, double size) {
    if (std::abs(value) > level * size) return false;
    breakdown = {what, size > 0 ? value / size : 0.0};
    return true;
  };

  while (r_norm > run.target()) {
    if (vanishes("r̂ᵀr", rho, shadow_norm * r_norm) || !run.next_iteration()) break;
    run.apply(w.p, w.v);
    const double shadow_v = S::dot(w.shadow, w.v);
    if (!std::isfinite(shadow_v)) {
      // A direction beside which r is nothing, twice over, has not got there by A.
      if (!(norm(w.p) * level * level <= before))
        breakdown = {"‖r_0‖/‖p‖", 0};
      else
        run.stop_not_finite("the product A·p");
      break;
    }
    if (vanishes("r̂ᵀA·p", shadow_v, shadow_norm * norm(w.v))) break;
    const double alpha = rho / shadow_v;
    S::copy(w.r, w.s);
    S::axpy(-alpha, w.v, w.s);
    const double s_norm = norm(w.s);
    if (s_norm <= run.target()) {
      S::axpy(alpha, w.p, w.x);
      r_norm = s_norm;
      break;
    }
    run.apply(w.s, w.t);
    const double ts = S::dot(w.t, w.s), t_norm = norm(w.t);
    if (!std::isfinite(ts) || !std::isfinite(t_norm)) {
      run.stop_not_finite("the product A·s");
      break;
    }
    if (vanishes("sᵀA·s", ts, t_norm * s_norm)) {
      // The first half of the step stands, and is worth keeping where it helps.
      if (s_norm < r_norm) {
        S::axpy(alpha, w.p, w.x);
        r_norm = s_norm;
      }
      break;
    }
    const double omega = ts / t_norm / t_norm;
    S::copy(w.s, w.r);
    S::axpy(-omega, w.t, w.r);
    const double next_norm = norm(w.r);
    if (next_norm > r_norm && r_norm < lowest_norm) {
      S::copy(w.x, w.lowest);
      lowest_norm = r_norm;
      lowest_kept = true;
    }
    S::axpy(alpha, w.p, w.x);
    S::axpy(omega, w.s, w.x);
    r_norm = next_norm;
    // A residual this large has lost every digit of the ones before it: the same as a zero divisor.
    if (!(r_norm * unit_roundoff<V>() <= before)) {
      breakdown = {"‖r_0‖/‖r‖", before / r_norm};
      break;
    }
    const double next_rho = S::dot(w.shadow, w.r);
    S::axpy(-omega, w.v, w.p);
    S::scale(next_rho / rho * (alpha / omega), w.p);
    S::axpy(1, w.r, w.p);
    rho = next_rho;
  }
  const double claimed = std::min(r_norm, lowest_norm);
  if (r_norm <= lowest_norm) {
    run.offer(w.x);
  } else if (lowest_kept) {
    run.offer(w.lowest);
  }
  if (r_norm <= run.target()) run.demand_progress(before, claimed);
  return breakdown;
}

}  // namespace bilevel
