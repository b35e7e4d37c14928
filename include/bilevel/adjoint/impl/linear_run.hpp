#pragma once

#include <bilevel/adjoint/linear_run.hpp>

namespace bilevel {

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
template <class Product>
double LinearRun<V>::largest_stretch(std::uint64_t seed, long steps, V& x, V& out, Product&& product) {
  Space<V>::random(seed, x);
  double largest = 0;
  for (long k = 0; k < steps; ++k) {
    Space<V>::scale(1 / norm(x), x);
    product(x, out);
    const double stretch = norm(out);
    if (!std::isfinite(stretch)) {
      stop_not_finite("a product of the power method");
      return 0;
    }
    largest = std::max(largest, stretch);
    if (stretch == 0) break;
    Space<V>::copy(out, x);
  }
  if (largest == 0) stop(Status::singular, "A maps a random vector to zero");
  return largest;
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

}  // namespace bilevel
