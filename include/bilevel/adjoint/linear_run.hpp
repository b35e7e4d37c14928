#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <bilevel/adjoint/adjoint_solver.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What every solver of phase 2 does in the same way, for the length of one solve: checks of the
/// input, the warm start and its guard, counting, the best x with its true residual b − A·x, and
/// how it ended. A solver runs its recurrence from x() and residual(), offers what it found, and
/// begins again from the best while running().
template <Vector V>
class LinearRun {
 public:
  /// Throws InvalidInput where b or warm cannot be used. `iterations` replaces the limit that
  /// max_iterations = 0 stands for. A warm start is used where it is better than zero.
  LinearRun(std::string_view solver, LinearOperator<V>& a, const V& b, const V* warm,
            const AdjointOptions& options, long iterations = 0);

  bool running() const { return solution_.status == Status::not_run; }
  const V& x() const { return solution_.x; }       ///< the best so far
  const V& residual() const { return residual_; }  ///< b − A·x(), evaluated and not recurred
  double residual_norm() const { return solution_.residual_norm; }
  double rhs_norm() const { return solution_.rhs_norm; }
  double target() const { return solution_.target; }
  long limit() const { return limit_; }

  /// Counts one more iteration; false, uncounted, where there may be none. A run that nobody stopped
  /// finishes with iteration_limit.
  bool next_iteration();
  void apply(const V& v, V& out);        ///< out = A·v, counted
  void residual_of(const V& x, V& out);  ///< out = b − A·x, counted

  /// Evaluates the residual of x afresh and keeps x where it is better than what there was; stops
  /// with converged at the target. True where x was kept.
  bool offer(const V& x);
  /// The same for an x whose residual has just been evaluated.
  bool offer(const V& x, const V& residual, double residual_norm);
  /// Takes x whether it is better or not: for methods whose answer is defined by their length.
  void replace(const V& x, const V& residual, double residual_norm);
  /// After a recurrence has claimed `claimed` and its x was offered: stops with stalled where
  /// beginning again is pointless because the true residual is not even half of `before`.
  void demand_progress(double before, double claimed);

  /// The first reason counts, later ones are not heard.
  void stop(Status status, std::string reason);
  /// Stops with not_finite: `what` had NaN or infinity in it.
  void stop_not_finite(std::string_view what);

  /// The solution with its message: the reason, `note`, and the numbers.
  LinearSolution<V> finish(std::size_t bytes, std::string_view note = {});

  LinearSolution<V>& solution() { return solution_; }

 private:
  /// Stops with interrupted or time_limit where somebody wants it.
  bool asked_to_stop();

  std::string solver_;
  LinearOperator<V>& a_;
  const V& b_;
  LinearSolution<V> solution_;
  V residual_;
  V fresh_;
  long limit_ = 0;
  std::string reason_;
};

/// Relative size below which an inner product of two of V's vectors is rounding: the error of a sum
/// of n terms grows like √n·u when the single errors are independent.
template <Vector V>
double rounding_level(const V& x) {
  return 4 * std::sqrt(static_cast<double>(std::max<Index>(1, Space<V>::size(x)))) * unit_roundoff<V>();
}

template <Vector V>
LinearRun<V>::LinearRun(std::string_view solver, LinearOperator<V>& a, const V& b, const V* warm,
                        const AdjointOptions& options, long iterations)
    : solver_(solver), a_(a), b_(b), residual_(duplicate(b)), fresh_(Space<V>::zeros_like(b)) {
  const Index n = Space<V>::size(b);
  if (!all_finite(b)) throw InvalidInput(fmt::format("{}: b has a NaN or infinite element", solver_));
  if (warm && Space<V>::size(*warm) != n)
    throw InvalidInput(
        fmt::format("{}: the warm start has {} elements and b has {}", solver_, Space<V>::size(*warm), n));
  const double rhs = norm(b);
  // The recurrences work with squares of norms.
  if (!std::isfinite(rhs * rhs) || (rhs * rhs == 0 && rhs > 0))
    throw InvalidInput(
        fmt::format("{}: the square of ‖b‖ leaves the range of double (max |b_i| = {:.3g}); "
                    "rescale the system",
                    solver_, Space<V>::max_abs(b)));
  if (iterations == 0) iterations = 10 * static_cast<long>(n) + 100;
  limit_ = options.max_iterations > 0 ? options.max_iterations : iterations;
  solution_.x = Space<V>::zeros_like(b);
  solution_.rhs_norm = rhs;
  solution_.residual_norm = rhs;
  solution_.target = std::max(options.relative_tolerance * rhs, options.absolute_tolerance);
  if (rhs == 0) {
    stop(Status::converged, n == 0 ? "the system is empty" : "b = 0, so x = 0");
  } else if (rhs <= solution_.target) {
    stop(Status::converged, "x = 0 meets the target");
  } else if (!asked_to_stop() && warm && all_finite(*warm)) {
    offer(*warm);
  }
}

template <Vector V>
bool LinearRun<V>::next_iteration() {
  if (!running() || solution_.iterations >= limit_ || asked_to_stop()) return false;
  ++solution_.iterations;
  return true;
}

template <Vector V>
bool LinearRun<V>::asked_to_stop() {
  const auto why = stop_wanted(a_.stop_token());
  if (why) stop(*why, std::string(sentence(*why)));
  return why.has_value();
}

template <Vector V>
void LinearRun<V>::apply(const V& v, V& out) {
  ++solution_.products;
  a_.apply(v, out);
  if (Space<V>::size(out) != Space<V>::size(b_))
    throw InvalidInput(fmt::format("{}: a product with A has {} elements and b has {}", solver_,
                                   Space<V>::size(out), Space<V>::size(b_)));
}

template <Vector V>
void LinearRun<V>::residual_of(const V& x, V& out) {
  apply(x, out);
  Space<V>::scale(-1, out);
  Space<V>::axpy(1, b_, out);
}

template <Vector V>
bool LinearRun<V>::offer(const V& x) {
  residual_of(x, fresh_);
  return offer(x, fresh_, norm(fresh_));
}

template <Vector V>
bool LinearRun<V>::offer(const V& x, const V& residual, double residual_norm) {
  // Written so that NaN is refused.
  if (!(residual_norm < solution_.residual_norm)) return false;
  replace(x, residual, residual_norm);
  if (residual_norm <= solution_.target) stop(Status::converged, "the requested residual was reached");
  return true;
}

template <Vector V>
void LinearRun<V>::replace(const V& x, const V& residual, double residual_norm) {
  Space<V>::copy(x, solution_.x);
  Space<V>::copy(residual, residual_);
  solution_.residual_norm = residual_norm;
}

template <Vector V>
void LinearRun<V>::demand_progress(double before, double claimed) {
  if (!running() || solution_.residual_norm <= 0.5 * before) return;
  stop(
      Status::stalled,
      fmt::format("the recurrence reported a residual of {:.3g}, the true one is {:.3g}, and beginning again "
                  "no longer lowers it",
                  claimed, solution_.residual_norm));
}

template <Vector V>
void LinearRun<V>::stop(Status status, std::string reason) {
  if (!running()) return;
  solution_.status = status;
  reason_ = std::move(reason);
}

template <Vector V>
void LinearRun<V>::stop_not_finite(std::string_view what) {
  stop(Status::not_finite, fmt::format("{} is not finite at iteration {} (product {})", what,
                                       solution_.iterations, solution_.products));
}

template <Vector V>
LinearSolution<V> LinearRun<V>::finish(std::size_t bytes, std::string_view note) {
  if (running()) stop(Status::iteration_limit, fmt::format("the limit of {} iterations was reached", limit_));
  solution_.bytes = bytes + bytes_of(residual_) + bytes_of(fresh_);
  solution_.message =
      fmt::format("{}: {}{}{}; residual {:.3g}, target {:.3g}, ‖b‖ {:.3g}, {} iterations, {} products",
                  solver_, reason_, note.empty() ? "" : "; ", note, solution_.residual_norm, solution_.target,
                  solution_.rhs_norm, solution_.iterations, solution_.products);
  return std::move(solution_);
}

extern template class LinearRun<Eigen::VectorXd>;
extern template class LinearRun<Eigen::VectorXf>;

}  // namespace bilevel
