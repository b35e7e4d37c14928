#pragma once

#include <bilevel/adjoint/gmres.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>

namespace bilevel {

template <Vector V>
LinearSolution<V> Gmres<V>::solve(LinearOperator<V>& a, const V& b, const V* warm) {
  LinearRun<V> run("gmres", a, b, warm, options_);
  if (!run.running()) return run.finish(0);

  const Index length = std::min<Index>(
      {static_cast<Index>(options_.restart), Space<V>::size(b), static_cast<Index>(run.limit())});
  V x = Space<V>::zeros_like(b);
  MinimalResidual<V> space(b, length);
  while (run.running() && run.solution().iterations < run.limit()) cycle(run, space, x);
  return run.finish(space.bytes() + bytes_of(b));
}

template <Vector V>
void Gmres<V>::cycle(LinearRun<V>& run, MinimalResidual<V>& space, V& x) const {
  const double before = run.residual_norm();
  space.begin(run.residual(), before);
  double claimed = before;
  bool exhausted = false;
  while (space.size() < space.length() && claimed > run.target() && !exhausted && run.next_iteration()) {
    run.apply(space.last(), space.product());
    double stretch = 0;
    exhausted = !space.take(stretch);
    if (!std::isfinite(stretch)) {
      run.stop_not_finite("the product A·v");
      break;
    }
    claimed = space.claimed();
  }

  const double pivot = space.pivot();
  const bool deficient = space.deficient();
  if (deficient) claimed = space.drop_last();
  Space<V>::copy(run.x(), x);
  space.add_to(x);
  run.offer(x);
  if (!run.running()) return;
  const double after = run.residual_norm();
  if (deficient && after > 0.5 * before) {
    run.stop(Status::singular,
             fmt::format("the Krylov space ends with a pivot of {:.3g} while ‖A‖ is at least {:.3g}: A is "
                         "singular on it",
                         pivot, space.largest()));
  } else if (claimed <= run.target() || exhausted) {
    run.demand_progress(before, claimed);
  } else if (space.size() == space.length() && after > 0.99 * before) {
    run.stop(Status::stalled,
             fmt::format("a cycle of {} steps lowered the residual from {:.6g} to {:.6g} only; a longer "
                         "restart may help",
                         space.length(), before, after));
  }
}

}  // namespace bilevel
