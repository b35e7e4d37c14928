#pragma once

#include <bilevel/adjoint/direct.hpp>
#include <bilevel/adjoint/impl/dense_factor.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>

namespace bilevel {

template <Vector V>
LinearSolution<V> Direct<V>::solve(LinearOperator<V>& a, const V& b, const V*) {
  LinearRun<V> run("direct", a, b, nullptr, options_);
  if (!run.running()) return run.finish(0);

  if (solve_sparse(a, b, run)) return run.finish(sparse_.bytes() + 3 * bytes_of(b));
  Eigen::MatrixXd dense = matrix(a, run);
  if (!run.running()) return run.finish(0);
  if (!dense.allFinite()) {
    run.stop_not_finite("the matrix of A");
    return run.finish(0);
  }
  const auto held = std::make_shared<const DenseFactor>(std::move(dense), a.symmetric(), unit_roundoff<V>());
  const DenseFactor& factor = *held;
  auto& solution = run.solution();
  if (!factor.singular()) solution.factor = held;
  solution.factorizations = factor.factorizations();
  solution.iterations = 1;
  if (factor.has_eigenvalues()) {
    solution.smallest_ritz = factor.smallest_eigenvalue();
    solution.largest_ritz = factor.largest_eigenvalue();
  }
  // What the matrix is outranks how small the residual got.
  if (factor.singular())
    run.stop(Status::singular, factor.finding());
  else if (factor.indefinite())
    run.stop(Status::negative_curvature, factor.finding());

  if (!refine(
          b, [&](const auto& right, auto& x) { factor.solve(right, x); }, run))
    return run.finish(factor.bytes() + 3 * bytes_of(b));
  run.stop(Status::stalled,
           fmt::format(
               "rounding keeps the residual above the target, with a reciprocal condition number of {:.3g}",
               factor.reciprocal_condition()));
  return run.finish(factor.bytes() + 3 * bytes_of(b),
                    factor.singular() || factor.indefinite() ? std::string() : factor.finding());
}

/// x = A⁻¹b by a factor, with a step of iterative refinement; false where that is not finite.
template <Vector V>
template <class Solve>
bool Direct<V>::refine(const V& b, const Solve& solve, LinearRun<V>& run) {
  const Index n = Space<V>::size(b);
  Eigen::VectorXd host(n), right(n);
  V x = Space<V>::zeros_like(b), correction = Space<V>::zeros_like(b), residual = Space<V>::zeros_like(b);
  Space<V>::to_host(b, right.data());
  solve(right, host);
  Space<V>::from_host(host.data(), x);
  run.residual_of(x, residual);
  const double residual_norm = norm(residual);
  if (!std::isfinite(residual_norm)) {
    run.stop_not_finite("the residual b − A·x");
    return false;
  }
  run.offer(x, residual, residual_norm);
  if (residual_norm > run.target()) {
    Space<V>::to_host(residual, right.data());
    solve(right, host);
    Space<V>::from_host(host.data(), correction);
    Space<V>::axpy(1, correction, x);
    run.offer(x);
  }
  return true;
}

/// A with few entries and positive definite; false where it is neither, or where its whole matrix is small
/// enough to say more about it.
template <Vector V>
bool Direct<V>::solve_sparse(LinearOperator<V>& a, const V& b, LinearRun<V>& run) {
  SparseMatrix matrix;
  if (!a.symmetric() || a.sparse(matrix) == 0) return false;
  run.solution().factorizations = 1;
  run.solution().iterations = 1;
  const bool definite = sparse_.compute(matrix);
  if (!definite && Space<V>::size(b) <= options_.assembly_limit) return false;
  if (!definite) {
    run.stop(Status::negative_curvature,
             fmt::format("the matrix, of {} entries, is not positive definite to working precision",
                         matrix.values.size()));
    return true;
  }
  if (refine(
          b,
          [&](const auto& right, auto& x) {
            x = right;
            sparse_.solve_in_place(x);
          },
          run))
    run.stop(Status::stalled, "rounding keeps the residual above the target");
  return true;
}

template <Vector V>
Eigen::MatrixXd Direct<V>::matrix(LinearOperator<V>& a, LinearRun<V>& run) const {
  const Index n = Space<V>::size(run.x());
  Eigen::MatrixXd dense;
  if (a.dense(dense)) {
    if (dense.rows() != n || dense.cols() != n)
      throw InvalidInput(fmt::format("direct: the matrix of A is {}x{} and b has {} elements", dense.rows(),
                                     dense.cols(), n));
    return dense;
  }
  if (n > options_.assembly_limit)
    throw InvalidInput(
        fmt::format("direct: A cannot give its matrix, and {} products are more than assembly_limit = {} "
                    "allows; use an iterative solver",
                    n, options_.assembly_limit));
  dense.resize(n, n);
  V unit = Space<V>::zeros_like(run.x()), column = Space<V>::zeros_like(run.x());
  for (Index j = 0; j < n; ++j) {
    Space<V>::unit(j, unit);
    run.apply(unit, column);
    Space<V>::to_host(column, dense.col(j).data());
    if (dense.col(j).allFinite()) continue;
    run.stop_not_finite(fmt::format("column {} of A", j));
    break;
  }
  return dense;
}

}  // namespace bilevel
