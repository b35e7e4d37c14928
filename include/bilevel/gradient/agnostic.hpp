#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/inner/controlled_system.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct AgnosticOptions {
  /// Nudging strength; > 0, in units of inner loss per outer loss. The bias is O(β²), and O(β) for one-sided
  /// nudges; errors of the resting states are divided by β·ε. The certificate shows which of the two is too
  /// large.
  double beta = 1e-2;
  /// Nudge both ways; otherwise only by +β, for systems that a negative nudge would drive out of a minimum.
  bool central = true;
  /// `enabled` false leaves out the settling at β/2 and the return to β = 0 that the bound comes from.
  CertificateOptions certificate = {};
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;

  Violations validate() const {
    Violations v("agnostic");
    v.positive("beta", beta).not_negative("outer_tolerance", outer_tolerance);
    return v.add(certificate.validate());
  }
};

/// Agnostic equilibrium propagation: the gradient of u ↦ L_out(φ*(u), θ*(u)) with respect to the knobs of a
/// ControlledSystem, from where it rests and nothing else. F's resting value E(u, β) has ∂E/∂β = L_out at β =
/// 0 and ∂E/∂u = (u − θ_β)/ε, since u enters F in the springs alone; the mixed derivative is the same both
/// ways round, so
///   ∇u L_out = −(1/ε)·dθ_β/dβ at β = 0     exactly, for any ε, estimated by
///   ∇̂ = −(θ_{+β} − θ_{−β})/(2βε)   or   −(θ_{+β} − θ_0)/(βε)
/// Errors are estimated: bias by the same at β/2, noise by letting go at β = 0 and looking how far from the
/// first resting state the system returns. A return to somewhere else, or displacements that are not
/// opposite, mean that a nudge crossed into another basin. The system must outlive the estimator unless it is
/// handed over.
template <Vector V>
class Agnostic final : public Estimator<V> {
 public:
  explicit Agnostic(ControlledSystem<V>& system, AgnosticOptions options = {});
  explicit Agnostic(std::unique_ptr<ControlledSystem<V>> system, AgnosticOptions options = {});

  std::string_view name() const override { return "ep-agnostic"; }
  /// `control` is u. The warm φ, where there is one, is where the system starts: nothing tells which start is
  /// better.
  Estimate<V> estimate(const V& control, const Warm<V>& warm) override;
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return system_.initial_phi(); }
  V initial_theta() const override { return system_.initial_control(); }

 private:
  bool settle(const V& control, double beta, const V& start, Rest<V>& rest, Estimate<V>& e);
  double nudge(const V& control, double beta, const Rest<V>& free, V& gradient, Estimate<V>& e);
  void certify_it(const V& control, const Rest<V>& free, double asymmetry, Estimate<V>& e);

  std::unique_ptr<ControlledSystem<V>> owned_;
  ControlledSystem<V>& system_;
  AgnosticOptions options_;
  Rest<V> plus_, minus_;
};

extern template class Agnostic<Eigen::VectorXd>;
extern template class Agnostic<Eigen::VectorXf>;

}  // namespace bilevel
