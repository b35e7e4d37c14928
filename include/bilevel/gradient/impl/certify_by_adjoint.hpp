#pragma once

#include <utility>

#include <bilevel/gradient/impl/settle_and_certify.hpp>
#include <bilevel/problem/gamma.hpp>

namespace bilevel {

/// Judges a gradient ∇̂ that was not assembled from an adjoint at φ̂, with the help of one that is: any π̂ (here
/// e.pi) gives ∇̃ = ∂θ L_out − π̂χ̂ with a bound of its own, and
///   ‖∇ − ∇̂‖ ≤ bound(∇̃) + ‖∇̂ − ∇̃‖,
/// tight where π̂ is the adjoint that ∇̂ is equivalent to. One Hessian and one cross product. `curvature` is
/// that at φ̂ with β = 0.
template <Vector V>
void certify_by_adjoint(SettleAndCertify<V>& settled, Curvature<V>& curvature, const V& theta,
                        const ImplicitOptions& options, Estimate<V>& e) {
  if (!options.certificate.enabled) return settled.certify(theta, &curvature, {unknown}, options, e);
  V residual = Space<V>::zeros_like(e.phi), by_adjoint = Space<V>::zeros_like(theta);
  curvature.transpose_times(e.pi, residual);
  Space<V>::scale(-1, residual);
  Space<V>::axpy(1, settled.outer_phi(), residual);
  curvature.cross_times(e.pi, by_adjoint);
  Space<V>::scale(-1, by_adjoint);
  Space<V>::axpy(1, settled.outer_theta(), by_adjoint);

  std::swap(e.gradient, by_adjoint);
  settled.certify(theta, &curvature, {.residual_norm = norm(residual)}, options, e);
  std::swap(e.gradient, by_adjoint);

  if (!all_finite(e.gradient)) e.status = Status::not_finite;
  Space<V>::axpy(-1, e.gradient, by_adjoint);
  // The difference of each element was rounded once, in V's precision, and its norm as a sum.
  const double size = static_cast<double>(Space<V>::size(theta));
  const double distance = norm(by_adjoint) * (1 + gamma(2, unit_roundoff<V>())) * (1 + gamma(size + 8));
  Certificate& c = e.certificate;
  c.bound = (c.bound + distance) * (1 + gamma(2));
  c.theorem_bound = (c.theorem_bound + distance) * (1 + gamma(2));
  if (c.kind != Kind::none)
    c.reason += fmt::format("; the gradient lies {:.3g} from that of its adjoint", distance);
  c.judge(norm(e.gradient), options.outer_tolerance, succeeded(e.status));
}

}  // namespace bilevel
