#pragma once

#include <bilevel/space/space.hpp>

namespace bilevel {

/// A problem whose φ has natural units that change with θ: strongly penalised coefficients are small and
/// stiff, free ones are large and soft. Between two calls of adopt_units the problem speaks of ψ = T⁻¹φ, with
/// T held fixed: φ*(θ), its losses and their outer gradient stay what they are, while steps, residuals and
/// the norms of a certificate are measured where the curvature is of order one.
template <Vector V>
class Units {
 public:
  virtual ~Units() = default;
  virtual void adopt_units(const V& theta) = 0;
  /// The same where a settled φ, in its true size, is known to be near.
  virtual void adopt_units(const V& theta, const V& /*phi*/) { adopt_units(theta); }
  virtual void to_own(V& x) const = 0;   ///< x ← T⁻¹·x
  virtual void to_true(V& x) const = 0;  ///< x ← T·x
};

}  // namespace bilevel
