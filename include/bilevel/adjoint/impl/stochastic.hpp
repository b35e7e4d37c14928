#pragma once

#include <bilevel/adjoint/impl/linear_run.hpp>
#include <bilevel/adjoint/stochastic.hpp>

namespace bilevel {

template <Vector V>
LinearSolution<V> Stochastic<V>::solve(LinearOperator<V>& a, const V& b, const V* warm) {
  using S = Space<V>;
  LinearRun<V> run("sgd", a, b, warm, options_, 10000);
  if (!run.running()) return run.finish(0);

  const auto zero = [&] { return S::zeros_like(b); };
  Workspace w{zero(), zero(), zero()};
  const bool estimated = options_.step == 0;
  double step = estimated ? estimated_step(a, run, w) : options_.step;
  S::copy(run.x(), w.x);
  long next_look = options_.first_look, halvings = estimated ? 10 : 0;
  while (run.next_iteration()) {
    drawn(a, w.x, w.product);
    S::axpy(-step, w.product, w.x);
    S::axpy(step, b, w.x);
    if (w.averaged++ == 0) {
      S::copy(w.x, w.mean);
    } else {
      S::scale(1 - 1 / static_cast<double>(w.averaged), w.mean);
      S::axpy(1 / static_cast<double>(w.averaged), w.x, w.mean);
    }
    const long done = run.solution().iterations;
    if (done < next_look && done < run.limit()) continue;
    next_look = 2 * done;
    if (look(run, w) || !run.running()) continue;
    // Begin again from the best so far.
    S::copy(run.x(), w.x);
    drawn(a, w.x, w.product);
    if (!all_finite(w.product)) {
      run.stop_not_finite("a product with drawn rows");
    } else if (halvings-- <= 0) {
      run.stop(Status::diverged, fmt::format("the iterates run away at α = {:.6g}", step));
    }
    step /= 2;
  }
  return run.finish(3 * bytes_of(b), fmt::format("α = {:.6g}", step));
}

template <Vector V>
void Stochastic<V>::drawn(LinearOperator<V>& a, const V& x, V& out) const {
  if (!a.drawn_apply(x, out))
    throw InvalidInput("sgd: this problem draws no rows for products (Curvature::drawn_times); use cg");
}

template <Vector V>
double Stochastic<V>::estimated_step(LinearOperator<V>& a, LinearRun<V>& run, Workspace& w) const {
  const double largest = run.largest_stretch(options_.seed, options_.power_steps, w.x, w.product,
                                             [&](const V& x, V& out) { drawn(a, x, out); });
  return run.running() ? 0.5 / largest : 0;
}

/// Offers the mean and the last iterate; false where they have run away: not finite, or far worse than x = 0.
template <Vector V>
bool Stochastic<V>::look(LinearRun<V>& run, Workspace& w) const {
  constexpr double too_large = 10;
  w.averaged = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const V* each : {&w.mean, &w.x}) {
    if (!run.running() || !all_finite(*each)) continue;
    run.residual_of(*each, w.product);
    const double residual = norm(w.product);
    if (residual < least) least = residual;
    run.offer(*each, w.product, residual);
  }
  return !run.running() || least <= too_large * run.solution().rhs_norm;
}

}  // namespace bilevel
