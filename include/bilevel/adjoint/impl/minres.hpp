#pragma once

#include <bilevel/adjoint/minres.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>

namespace bilevel {

template <Vector V>
LinearSolution<V> Minres<V>::solve(LinearOperator<V>& a, const V& b, const V* warm) {
  if (!a.symmetric()) throw InvalidInput("minres: A is not symmetric; use gmres, bicgstab or direct");
  LinearRun<V> run("minres", a, b, warm, options_);
  if (!run.running()) return run.finish(0);

  const auto zero = [&] { return Space<V>::zeros_like(b); };
  Workspace work{zero(), zero(), zero(),
                 zero(), zero(), zero(),
                 zero(), zero(), Tridiagonal(std::min(options_.ritz_steps, run.limit()))};
  for (bool first = true; run.running() && run.solution().iterations < run.limit(); first = false)
    cycle(run, work, first);
  const auto [smallest, largest] = work.lanczos.extremes();
  run.solution().smallest_ritz = smallest;
  run.solution().largest_ritz = largest;
  const bool indefinite =
      smallest < -100 * rounding_level(b) * std::max(std::abs(smallest), std::abs(largest));
  return run.finish(8 * bytes_of(b) + work.lanczos.bytes(),
                    indefinite
                        ? fmt::format("A is not positive definite: it has a Ritz value of {:.6g}", smallest)
                        : std::string());
}

template <Vector V>
void Minres<V>::cycle(LinearRun<V>& run, Workspace& work, bool first) const {
  using S = Space<V>;
  const double before = run.residual_norm();
  const double level = rounding_level(work.x);
  const double u = unit_roundoff<V>();
  S::copy(run.x(), work.x);
  V *older = &work.older, *v = &work.v, *next = &work.next;
  V *w1 = &work.w1, *w2 = &work.w2, *w3 = &work.w3;
  S::scale(0, *older);
  S::scale(0, *w1);
  S::scale(0, *w2);
  S::copy(run.residual(), *v);
  S::scale(1 / before, *v);

  // T_k = Q_k R_k by Givens rotations (c, s); R has the three diagonals γ, δ, ε. The residual norm of
  // the k-th iterate is φ̄_k = s_1·…·s_k·‖r_0‖, and ‖A·r_{k−1}‖ = φ̄_{k−1}·√(γ̄_k² + δ̄_{k+1}²).
  double coupling = 0;  // β_k of the Lanczos process
  double c = -1, s = 0, delta_bar = 0, epsilon_next = 0, claimed = before, scale = 0;
  double lowest = 1;
  bool exhausted = false, exploded = false;
  while (claimed > run.target() && !exhausted && run.next_iteration()) {
    run.apply(*v, *next);
    const double alpha = S::dot(*v, *next);
    if (!std::isfinite(alpha)) {
      run.stop_not_finite("the product A·v");
      break;
    }
    if (first) work.lanczos.append(alpha, coupling);
    S::axpy(-coupling, *older, *next);
    S::axpy(-alpha, *v, *next);
    const double beta = norm(*next);
    if (!std::isfinite(beta)) {
      run.stop_not_finite("the product A·v");
      break;
    }
    scale = std::max(scale, std::hypot(alpha, std::hypot(beta, coupling)));

    const double epsilon = epsilon_next;
    const double delta = c * delta_bar + s * alpha;
    const double gamma_bar = s * delta_bar - c * alpha;
    epsilon_next = s * beta;
    delta_bar = -c * beta;
    // Where b has a part outside A's range, ‖A·r‖ falls to about √u and rises again while x grows along
    // the null space; the x at the lowest point is the one to keep.
    const double vanishing = std::hypot(gamma_bar, delta_bar) / scale;
    if (!(vanishing > 0)) {
      exploded = true;
      break;
    }
    if (vanishing < std::min(lowest, 10 * std::sqrt(u))) {
      lowest = vanishing;
      S::copy(work.x, work.steady);
    }
    const double gamma = std::hypot(gamma_bar, beta);
    exhausted = beta <= level * scale;
    c = gamma_bar / gamma;
    s = beta / gamma;
    const double phi = c * claimed;
    claimed *= s;

    S::copy(*v, *w3);
    S::axpy(-epsilon, *w1, *w3);
    S::axpy(-delta, *w2, *w3);
    S::scale(1 / gamma, *w3);
    S::axpy(phi, *w3, work.x);
    if (!exhausted) S::scale(1 / beta, *next);
    coupling = beta;
    // Past u·‖A‖·‖x‖ the recurrence describes a residual that no x in this arithmetic has.
    if (lowest < 1) {
      const double attainable = u * scale * norm(work.x);
      exploded = !(attainable < 0.01 * run.rhs_norm());
      if (exploded || attainable > claimed) break;
    }

    V* const freed_v = older;
    older = v;
    v = next;
    next = freed_v;
    V* const freed_w = w1;
    w1 = w2;
    w2 = w3;
    w3 = freed_w;
  }
  run.offer(work.x);
  if (lowest < 1 && run.running()) run.offer(work.steady);
  if (!run.running()) return;
  if (exploded) {
    run.apply(run.residual(), *next);
    const double vanishing = norm(*next) / run.residual_norm();
    if (vanishing <= 100 * std::sqrt(u) * scale)
      return run.stop(
          Status::singular,
          fmt::format(
              "‖A·r‖/‖r‖ = {:.3g} while ‖A‖ is at least {:.3g}, and a smaller residual needs an x of "
              "more than 0.01·‖b‖/(u·‖A‖): A is singular to working precision and b is not in its range",
              vanishing, scale));
  }
  if (run.solution().iterations < run.limit() || claimed <= run.target())
    run.demand_progress(before, claimed);
}

}  // namespace bilevel
