#pragma once

#include <array>

#include <bilevel/adjoint/conjugate_gradient.hpp>
#include <bilevel/adjoint/impl/linear_run.hpp>
#include <bilevel/adjoint/impl/nystrom_sketch.hpp>
#include <bilevel/space/dots.hpp>

namespace bilevel {

template <Vector V>
std::string_view ConjugateGradient<V>::name() const {
  return bilevel::name(options_);
}

template <Vector V>
LinearSolution<V> ConjugateGradient<V>::solve(LinearOperator<V>& a, const V& b, const V* warm) {
  if (!a.symmetric())
    throw InvalidInput(fmt::format("{}: A is not symmetric; use gmres, bicgstab or direct", name()));
  LinearRun<V> run(name(), a, b, warm, options_);
  if (!run.running()) return run.finish(0);

  const bool preconditioned = options_.preconditioner != Preconditioner::none;
  const long ritz_rows = preconditioned ? 0 : std::min(options_.ritz_steps, run.limit());
  const auto zero = [&] { return Space<V>::zeros_like(b); };
  Workspace w{zero(), zero(), zero(), zero(), zero(), zero(), zero(), Tridiagonal(ritz_rows)};
  std::string note;
  if (options_.preconditioner == Preconditioner::jacobi) invert_diagonal(a, run, w.inverse);
  if (options_.preconditioner == Preconditioner::own && !a.precondition(b, w.z))
    throw InvalidInput(fmt::format("{}: A has no preconditioner of its own", name()));
  if (options_.preconditioner == Preconditioner::inherited) {
    if (!(w.approximation = a.inherited()))
      throw InvalidInput(fmt::format("{}: nobody left an inverse of A behind", name()));
    note = fmt::format("preconditioned by an inverse known in {} dimensions", w.approximation->rank());
  }
  if (options_.preconditioner == Preconditioner::nystrom) {
    draw_sketch(run);
    w.approximation = &sketch_;
    note = fmt::format("{} sketch of rank {}", iterations_when_fresh_ < 0 ? "new" : "kept", sketch_.rank());
  }

  for (bool first = true; run.running() && run.solution().iterations < run.limit(); first = false)
    cycle(a, run, w, first);
  if (!w.lanczos.empty()) {
    const auto [smallest, largest] = w.lanczos.extremes();
    run.solution().smallest_ritz = smallest;
    run.solution().largest_ritz = largest;
  }
  if (w.approximation == &sketch_) {
    if (iterations_when_fresh_ < 0) iterations_when_fresh_ = run.solution().iterations;
    sketch_is_worn_ = run.solution().status != Status::converged ||
                      run.solution().iterations > iterations_when_fresh_ + static_cast<long>(sketch_.rank());
  }
  return run.finish(7 * bytes_of(b) + w.lanczos.bytes() + sketch_.bytes(), note);
}

template <Vector V>
void ConjugateGradient<V>::draw_sketch(LinearRun<V>& run) {
  if (options_.keep_sketch && !sketch_is_worn_ && sketch_.fits(run.x())) return;
  sketch_.build(run);
  sketch_is_worn_ = true;  // until the solve has shown what it is worth
  iterations_when_fresh_ = -1;
}

template <Vector V>
void ConjugateGradient<V>::invert_diagonal(LinearOperator<V>& a, LinearRun<V>& run, V& inverse) const {
  if (!a.diagonal(inverse)) throw InvalidInput(fmt::format("{}: A does not know its diagonal", name()));
  const Index n = Space<V>::size(run.x());
  if (Space<V>::size(inverse) != n)
    throw InvalidInput(fmt::format("{}: the diagonal of A has {} elements and b has {}", name(),
                                   Space<V>::size(inverse), n));
  if (!all_finite(inverse)) return run.stop_not_finite("the diagonal of A");
  std::vector<double> host(static_cast<std::size_t>(n));
  Space<V>::to_host(inverse, host.data());
  const double smallest = *std::min_element(host.begin(), host.end());
  // e_iᵀAe_i = A_ii, so a negative element is a direction of negative curvature.
  if (smallest < 0)
    return run.stop(Status::negative_curvature,
                    fmt::format("the diagonal of A has the negative element {:.6g}", smallest));
  // A zero on the diagonal of a semidefinite matrix is a zero row: nothing to scale there.
  for (double& d : host) d = d > 0 ? 1 / d : 1;
  Space<V>::from_host(host.data(), inverse);
}

template <Vector V>
const V& ConjugateGradient<V>::precondition(LinearOperator<V>& a, Workspace& w) const {
  if (options_.preconditioner == Preconditioner::none) return w.r;
  if (w.approximation) {
    w.approximation->apply(w.r, w.z);
  } else if (options_.preconditioner == Preconditioner::own) {
    a.precondition(w.r, w.z);
  } else {
    Space<V>::copy(w.r, w.z);
    Space<V>::multiply(w.inverse, w.z);
  }
  return w.z;
}

/// Classifies pᵀAp. `scale` is the largest |pᵀAp|/pᵀp so far, a lower bound of ‖A‖.
template <Vector V>
bool ConjugateGradient<V>::curvature_is_positive(LinearRun<V>& run, const Workspace& w, double curvature,
                                                 double pp, double& scale) const {
  const double level = rounding_level(w.p);
  if (curvature > 0 && curvature > level * scale * pp) {
    scale = std::max(scale, curvature / pp);
    return true;
  }
  const double stretch = norm(w.q) / std::sqrt(pp);
  const double quotient = curvature / pp;
  const long k = run.solution().iterations;
  if (stretch <= level * scale || stretch == 0) {
    run.stop(Status::singular,
             fmt::format("A·p vanishes at iteration {}: ‖A·p‖/‖p‖ = {:.3g} while ‖A‖ is at least "
                         "{:.3g}, and b has a part along p",
                         k, stretch, std::max(scale, stretch)));
  } else if (std::abs(quotient) <= level * std::max(scale, stretch)) {
    run.stop(Status::breakdown, fmt::format("pᵀAp/pᵀp = {:.3g} is zero to rounding at iteration {} although "
                                            "‖A·p‖/‖p‖ = {:.3g}: A is indefinite",
                                            quotient, k, stretch));
  } else {
    run.stop(Status::negative_curvature,
             fmt::format("pᵀAp/pᵀp = {:.6g} at iteration {}: A is not positive definite", quotient, k));
  }
  return false;
}

template <Vector V>
void ConjugateGradient<V>::cycle(LinearOperator<V>& a, LinearRun<V>& run, Workspace& w, bool first) const {
  using S = Space<V>;
  const bool preconditioned = options_.preconditioner != Preconditioner::none;
  const double before = run.residual_norm();
  S::copy(run.x(), w.x);
  S::copy(run.residual(), w.r);
  double r_norm = before, lowest_norm = before, scale = 0;
  double previous_beta = 0, previous_alpha = 1;
  bool lowest_kept = false;
  S::copy(precondition(a, w), w.p);
  double rz = preconditioned ? S::dot(w.r, w.p) : r_norm * r_norm;

  while (r_norm > run.target()) {
    if (!(rz > 0) || !std::isfinite(rz)) {
      // Only a preconditioner can bring this about: without one rz is ‖r‖², and r was finite.
      if (!std::isfinite(rz)) run.stop_not_finite("rᵀM⁻¹r");
      run.stop(Status::breakdown,
               fmt::format("rᵀM⁻¹r = {:.3g} at iteration {}: the preconditioner is not positive "
                           "definite",
                           rz, run.solution().iterations));
      break;
    }
    if (!run.next_iteration()) break;
    run.apply(w.p, w.q);
    double products[2];
    dots<V>(w.p, std::array<const V*, 2>{&w.q, &w.p}, products);
    const auto [curvature, pp] = products;
    if (!std::isfinite(curvature)) {
      run.stop_not_finite("the product A·p");
      break;
    }
    // Lanczos in CG's coefficients: T_kk = 1/α_k + β_{k−1}/α_{k−1}, T_{k,k+1} = √β_k/α_k.
    if (first)
      w.lanczos.append(curvature / rz + previous_beta / previous_alpha,
                       std::sqrt(previous_beta) / previous_alpha);
    if (!curvature_is_positive(run, w, curvature, pp, scale)) break;
    const double alpha = rz / curvature;
    S::axpy(-alpha, w.q, w.r);
    const double next_norm = norm(w.r);
    if (!std::isfinite(next_norm)) {
      run.stop_not_finite("the residual's recurrence");
      break;
    }
    if (next_norm > r_norm && r_norm < lowest_norm) {
      S::copy(w.x, w.lowest);
      lowest_norm = r_norm;
      lowest_kept = true;
    }
    S::axpy(alpha, w.p, w.x);
    r_norm = next_norm;
    const V& z = precondition(a, w);
    const double next_rz = preconditioned ? S::dot(w.r, z) : r_norm * r_norm;
    const double beta = next_rz / rz;
    S::scale(beta, w.p);
    S::axpy(1, z, w.p);
    rz = next_rz;
    previous_alpha = alpha;
    previous_beta = beta;
  }
  const double claimed = std::min(r_norm, lowest_norm);
  if (r_norm <= lowest_norm) {
    run.offer(w.x);
  } else if (lowest_kept) {
    run.offer(w.lowest);
  }
  if (r_norm <= run.target()) run.demand_progress(before, claimed);
}

}  // namespace bilevel
