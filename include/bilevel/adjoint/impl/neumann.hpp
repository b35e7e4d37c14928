#pragma once

#include <bilevel/adjoint/impl/linear_run.hpp>
#include <bilevel/adjoint/neumann.hpp>

namespace bilevel {

template <Vector V>
LinearSolution<V> Neumann<V>::solve(LinearOperator<V>& a, const V& b, const V* warm) {
  const long usual = std::max<long>(10 * static_cast<long>(Space<V>::size(b)) + 100, 10000);
  LinearRun<V> run("neumann", a, b, warm, options_, usual);
  if (!run.running()) return run.finish(0);

  const auto zero = [&] { return Space<V>::zeros_like(b); };
  Workspace w{zero(), zero(), zero()};
  const bool estimated = options_.step == 0;
  double step = estimated ? estimated_step(run, w) : options_.step;
  if (options_.terms > 0) {
    if (run.running()) partial_sum(run, w, step);
    return run.finish(3 * bytes_of(b), fmt::format("α = {:.6g}", step));
  }
  for (int halvings = estimated ? 4 : 0; run.running() && run.solution().iterations < run.limit();
       --halvings) {
    const double growth = iterate(run, w, step, a.symmetric());
    if (growth <= 1 || !run.running()) continue;
    // The residual has turned towards the direction that grows; its curvature says whether a
    // shorter step could help.
    run.apply(w.r, w.next);
    const double quotient = Space<V>::dot(w.r, w.next) / Space<V>::dot(w.r, w.r);
    if (halvings <= 0 || (quotient < 0 && a.symmetric()) || run.solution().iterations >= run.limit())
      run.stop(Status::diverged,
               fmt::format("the residual grows by a factor of {:.6g} a step, rᵀAr/rᵀr = {:.6g}{}", growth,
                           quotient, quotient < 0 ? ": no step size converges along r" : ""));
    if (run.running()) step /= 2;
  }
  return run.finish(3 * bytes_of(b), fmt::format("α = {:.6g}", step));
}

/// 1/L.
template <Vector V>
double Neumann<V>::estimated_step(LinearRun<V>& run, Workspace& w) const {
  const double largest = run.largest_stretch(options_.seed, options_.power_steps, w.x, w.next,
                                             [&](const V& x, V& out) { run.apply(x, out); });
  if (!run.running()) return 0;
  const double shortfall = 0.871 * std::log(static_cast<double>(Space<V>::size(w.x))) /
                           static_cast<double>(options_.power_steps - 1);
  return 1 / (largest * (1 + shortfall));
}

template <Vector V>
void Neumann<V>::partial_sum(LinearRun<V>& run, Workspace& w, double step) const {
  using S = Space<V>;
  const double before = run.residual_norm();
  S::copy(run.x(), w.x);
  S::copy(run.residual(), w.r);
  double r_norm = before, growth = 1;
  for (long k = 0; k < options_.terms; ++k) {
    ++run.solution().iterations;
    S::axpy(step, w.r, w.x);
    run.residual_of(w.x, w.r);
    const double next_norm = norm(w.r);
    if (!std::isfinite(next_norm)) return run.stop_not_finite("the residual");
    growth = next_norm / r_norm;
    r_norm = next_norm;
  }
  run.replace(w.x, w.r, r_norm);
  if (r_norm <= run.target()) {
    run.stop(Status::converged, "the requested residual was reached");
  } else if (r_norm > before) {
    run.stop(Status::diverged,
             fmt::format("{} terms left a larger residual than none; it grows by a factor of {:.6g} a step",
                         options_.terms, growth));
  } else {
    run.stop(Status::approximate,
             fmt::format("the series was cut after {} terms; the residual falls by a factor "
                         "of {:.6g} a step",
                         options_.terms, growth));
  }
}

/// Runs until the target, the limit, a stall or divergence; the last of these returns the growth of
/// the residual in one step, above 1, and everything else 1.
template <Vector V>
double Neumann<V>::iterate(LinearRun<V>& run, Workspace& w, double step, bool symmetric) const {
  using S = Space<V>;
  // For a symmetric A log ‖r_k‖ is convex in k: once it has begun to grow it grows for ever. For others a
  // transient of this size is taken for what it looks like.
  constexpr double too_large = 1e6;
  constexpr long window = 100;
  S::copy(run.x(), w.x);
  S::copy(run.residual(), w.r);
  double r_norm = run.residual_norm(), lowest = r_norm, growth = 1, window_start = r_norm;
  long growing = 0, steps = 0;
  while (run.next_iteration()) {
    S::axpy(step, w.r, w.x);
    run.residual_of(w.x, w.next);
    const double next_norm = norm(w.next);
    growth = next_norm / r_norm;
    if (!std::isfinite(next_norm)) {
      run.stop_not_finite("the residual");
      return 1;
    }
    if (next_norm >= r_norm && r_norm < lowest) {
      // One step back, to the last iterate before the residual grew.
      lowest = r_norm;
      S::axpy(-step, w.r, w.x);
      run.offer(w.x, w.r, r_norm);
      S::axpy(step, w.r, w.x);
    }
    growing = next_norm > r_norm ? growing + 1 : 0;
    r_norm = next_norm;
    std::swap(w.r, w.next);
    if (r_norm <= run.target()) {
      run.offer(w.x, w.r, r_norm);
      return 1;
    }
    if (r_norm > too_large * std::min(lowest, run.residual_norm()) || (symmetric && growing >= window))
      return growth;
    if (++steps % window == 0) {
      // At the attainable accuracy the residual neither falls nor grows.
      if (r_norm <= window_start * (1 + 1e-6) && r_norm > window_start * (1 - 1e-9)) {
        run.offer(w.x, w.r, r_norm);
        run.stop(Status::stalled, fmt::format("the residual went from {:.6g} to {:.6g} in {} steps",
                                              window_start, r_norm, window));
        return 1;
      }
      window_start = r_norm;
    }
  }
  run.offer(w.x, w.r, r_norm);
  return r_norm > 10 * run.residual_norm() ? growth : 1;
}

}  // namespace bilevel
