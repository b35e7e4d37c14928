#pragma once

#include <type_traits>

#include <bilevel/problem/check_report.hpp>
#include <bilevel/problem/equilibrium.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Checks everything that a problem claims about itself at the point (φ, θ): see CheckReport. What it offers
/// is checked, what it does not is listed; a Problem passed as an Equilibrium is checked as a Problem.
///
///   finite              values and first derivatives at the point are finite
///   inner-phi, inner-theta, outer-phi, outer-theta   first derivatives against differences of the values
///   value-consistent    values and derivatives are the same whatever else is wanted, and outputs overwritten
///   residual            residual(φ, θ) is ∂φ L_in
///   hessian-difference  J·v against differences of the residual
///   hessian-symmetric   ⟨w, Jv⟩ = ⟨Jᵀw, v⟩, and = ⟨v, Jw⟩ where symmetry is claimed
///   cross-adjoint       ⟨v, χu⟩ = ⟨χᵀv, u⟩
///   cross-difference    χ·u against differences of the residual along θ
///   cross-norm          the claimed bound of ‖χ‖ is not exceeded by a product
///   dense, diagonal     against products
///   nudged              all of the products again at β ≠ 0
///   constants           claimed constants against what is met on the ball (a spot check, not a proof)
template <Vector V>
CheckReport check_derivatives(Equilibrium<V>& equilibrium, const std::type_identity_t<V>& phi,
                              const std::type_identity_t<V>& theta, const CheckOptions& options = {});

}  // namespace bilevel
