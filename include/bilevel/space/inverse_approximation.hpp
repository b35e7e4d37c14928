#pragma once

#include <bilevel/space/space.hpp>

namespace bilevel {

/// out ≈ A⁻¹·b by a symmetric positive definite map that stays the same while one solve uses it: what a
/// solver of phase 1 knows about its Hessian when it ends, or what a few products have shown.
template <Vector V>
class InverseApproximation {
 public:
  virtual ~InverseApproximation() = default;
  virtual void apply(const V& b, V& out) = 0;  ///< out has b's shape already and is another object
  /// Dimension of the space in which it knows A; 0 for a multiple of the identity.
  virtual Index rank() const = 0;
};

}  // namespace bilevel
