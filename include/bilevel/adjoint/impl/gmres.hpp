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
  const auto zero = [&] { return Space<V>::zeros_like(b); };
  Workspace w{zero(),
              {},
              Eigen::MatrixXd::Zero(length + 1, length),
              Eigen::VectorXd::Zero(length),
              Eigen::VectorXd::Zero(length),
              Eigen::VectorXd::Zero(length + 1)};
  for (Index i = 0; i <= length; ++i) w.basis.push_back(zero());
  while (run.running() && run.solution().iterations < run.limit()) cycle(run, w);
  return run.finish(static_cast<std::size_t>(length + 2) * bytes_of(b) +
                    static_cast<std::size_t>((length + 1) * (length + 3)) * sizeof(double));
}

/// Takes A·v_k, in basis[k + 1], apart along v_0 … v_k. False where nothing is left but rounding.
template <Vector V>
bool Gmres<V>::orthogonalise(Workspace& w, Index k, double& length) const {
  using S = Space<V>;
  V& next = w.basis[static_cast<std::size_t>(k + 1)];
  length = norm(next);
  if (!std::isfinite(length)) return false;
  w.triangle.col(k).setZero();
  double left = length;
  for (int pass = 0; pass < 2; ++pass) {
    const double start = left;
    for (Index i = 0; i <= k; ++i) {
      const V& v = w.basis[static_cast<std::size_t>(i)];
      const double along = S::dot(v, next);
      S::axpy(-along, v, next);
      w.triangle(i, k) += along;
    }
    left = norm(next);
    // Little was lost to cancellation, so what is left is orthogonal; twice is enough (Kahan, Parlett).
    if (left > 0.7 * start) break;
  }
  if (left <= rounding_level(next) * length) return false;
  w.triangle(k + 1, k) = left;
  S::scale(1 / left, next);
  return true;
}

template <Vector V>
void Gmres<V>::rotate(Workspace& w, Index k) const {
  for (Index i = 0; i < k; ++i) {
    const double upper = w.triangle(i, k), lower = w.triangle(i + 1, k);
    w.triangle(i, k) = w.cosine[i] * upper + w.sine[i] * lower;
    w.triangle(i + 1, k) = w.cosine[i] * lower - w.sine[i] * upper;
  }
  const double upper = w.triangle(k, k), lower = w.triangle(k + 1, k);
  const double radius = std::hypot(upper, lower);
  w.cosine[k] = radius > 0 ? upper / radius : 1;
  w.sine[k] = radius > 0 ? lower / radius : 0;
  w.triangle(k, k) = radius;
  w.triangle(k + 1, k) = 0;
  w.g[k + 1] = -w.sine[k] * w.g[k];
  w.g[k] *= w.cosine[k];
}

template <Vector V>
void Gmres<V>::cycle(LinearRun<V>& run, Workspace& w) const {
  using S = Space<V>;
  const Index length = w.triangle.cols();
  const double before = run.residual_norm();
  const double level = rounding_level(w.x);
  S::copy(run.residual(), w.basis[0]);
  S::scale(1 / before, w.basis[0]);
  w.g.setZero();
  w.g[0] = before;

  Index k = 0;
  double scale = 0, claimed = before;
  bool exhausted = false;
  while (k < length && claimed > run.target() && !exhausted && run.next_iteration()) {
    run.apply(w.basis[static_cast<std::size_t>(k)], w.basis[static_cast<std::size_t>(k + 1)]);
    double stretch = 0;
    exhausted = !orthogonalise(w, k, stretch);
    if (!std::isfinite(stretch)) {
      run.stop_not_finite("the product A·v");
      break;
    }
    scale = std::max(scale, stretch);
    rotate(w, k);
    ++k;
    claimed = std::abs(w.g[k]);
  }

  // A last pivot that is rounding belongs to a null direction of A, along which no step makes sense.
  double pivot = k > 0 ? w.triangle(k - 1, k - 1) : 0;
  const bool deficient = k > 0 && pivot <= level * scale;
  if (deficient) {
    --k;
    claimed = std::hypot(w.g[k], w.g[k + 1]);
  }
  S::copy(run.x(), w.x);
  for (Index i = k - 1; i >= 0; --i) {
    for (Index j = i + 1; j < k; ++j) w.g[i] -= w.triangle(i, j) * w.g[j];
    w.g[i] /= w.triangle(i, i);
    S::axpy(w.g[i], w.basis[static_cast<std::size_t>(i)], w.x);
  }
  run.offer(w.x);
  if (!run.running()) return;
  const double after = run.residual_norm();
  if (deficient && after > 0.5 * before) {
    run.stop(Status::singular,
             fmt::format("the Krylov space ends with a pivot of {:.3g} while ‖A‖ is at least {:.3g}: A is "
                         "singular on it",
                         pivot, scale));
  } else if (claimed <= run.target() || exhausted) {
    run.demand_progress(before, claimed);
  } else if (k == length && after > 0.99 * before) {
    run.stop(Status::stalled,
             fmt::format("a cycle of {} steps lowered the residual from {:.6g} to {:.6g} only; a longer "
                         "restart may help",
                         length, before, after));
  }
}

}  // namespace bilevel
