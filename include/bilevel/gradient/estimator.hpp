#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <bilevel/gradient/certificate.hpp>
#include <bilevel/outcome/cost.hpp>
#include <bilevel/outcome/status.hpp>

namespace bilevel {

/// What an earlier estimate left for the next one to start from.
template <Vector V>
struct Warm {
  std::optional<V> phi = {};
  std::optional<V> pi = {};
};

/// An outer gradient, how far to trust it, and what it cost.
template <Vector V>
struct Estimate {
  V gradient;
  double outer_value = unknown;  ///< L_out(φ̂, θ)
  /// L_out(φ̂, θ) − π̂·∂φ L_in(φ̂): since L_out(φ*) ≈ L_out(φ̂) − ĝĤ⁻¹∂φ L_in(φ̂), its error is of second
  /// order in the inner error where the plain value's is of first order. Line searches use this one.
  double corrected_value = unknown;
  V phi;
  V pi;
  Certificate certificate;
  Cost cost;
  Status status = Status::not_run;  ///< of the first phase that failed, else converged
  Status inner_status = Status::not_run;
  Status adjoint_status = Status::not_run;
  long inner_iterations = 0;
  long adjoint_iterations = 0;
  std::string message;
  std::string choice;  ///< where the method was chosen automatically: which, and why; the head of `message`
};

/// A way to ∇θ L_out(φ*(θ), θ).
template <Vector V>
class Estimator {
 public:
  virtual ~Estimator() = default;
  virtual std::string_view name() const = 0;
  virtual Estimate<V> estimate(const V& theta, const Warm<V>& warm) = 0;
  /// Residual norm of phase 1, and residual of phase 2 relative to ‖ĝ‖, to reach from now on.
  virtual void set_tolerances(double /*inner*/, double /*adjoint*/) {}
  /// The norm below which an outer gradient counts as zero; part of the verdict.
  virtual void set_outer_tolerance(double /*tolerance*/) {}
  /// The problem's, for starts and shapes.
  virtual V initial_phi() const = 0;
  virtual V initial_theta() const = 0;
};

}  // namespace bilevel
