#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <bilevel/adjoint/adjoint_solver.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/minimal_residual.hpp>

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

  /// The most that `product(x, out)`, A or a part of it, stretches a vector in so many steps of the power
  /// method. Works on the growth of ‖A·x‖, so that the signs of a symmetric A's eigenvalues do not matter.
  /// Stops with not_finite or singular where there is no such number. x and out are its workspace.
  template <class Product>
  double largest_stretch(std::uint64_t seed, long steps, V& x, V& out, Product&& product);

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

extern template class LinearRun<Eigen::VectorXd>;
extern template class LinearRun<Eigen::VectorXf>;

}  // namespace bilevel
