#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/gradient/nudged_phases.hpp>
#include <bilevel/gradient/settle_and_certify.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// On which side of the free phase the system is nudged.
enum class Nudge { forward, central, random_sign };

/// The differences that it takes; `points` counts for `forward` alone.
Stencil stencil_of(Nudge nudge, int points);

struct EquilibriumPropagationOptions {
  /// `forward` settles at 0, β, …, (p−1)β; `central` at ±β; `random_sign` at 0 and ±β, the sign drawn anew
  /// for every estimate, so that the bias cancels over many.
  Nudge nudge = Nudge::forward;
  /// p of `forward`, in 2 … 8: the bias is O(β^(p−1)), errors of the phases are multiplied by the stencil's
  /// noise gain 2, 4, 6.7, 10.7, 17, 28, 46. Two is the least work; more pay where phases are accurate.
  int points = 2;
  /// Nudging strength, finite; negative is allowed. 0, the default, chooses it so that the bias c·β^q and the
  /// noise ε/β of the phases balance: β = (ε/(q·c))^(1/(q+1)).
  double beta = 0;
  /// Of the random signs.
  std::uint64_t seed = 1;
  /// Estimates after which a choice of β that did not earn trust is made anew, at the price of pilot phases;
  /// ≥ 1. In between the choice follows the accuracy of the phases for nothing.
  int patience = 5;
  bool certificate = true;
  /// The gradient norm that counts as zero in the verdict (the outer loop sets its own).
  double outer_tolerance = 1e-6;
  /// The share of the gradient that the bound may be of (CertificateOptions::trust); in (0, 1].
  double trust = Certificate::usual_trust;

  Violations validate() const;
};

/// `ep-forward-2` … `ep-forward-8`, `ep-central`, `ep-random-sign`.
std::string name(const EquilibriumPropagationOptions& options);

/// Equilibrium propagation (paper, Algorithm 2):
///   ∇̂ = (1/β) Σ_i α_i ∂θL(φ̂_{iβ}, θ, iβ),   L = L_in + β·L_out,   φ̂_t ≈ argmin L(·, θ, t)
/// Only first derivatives of the two losses are asked for, and of the inner solver nothing but the states it
/// returns. The problem and the solver must outlive the estimator.
template <Vector V>
class EquilibriumPropagation final : public Estimator<V> {
 public:
  EquilibriumPropagation(Problem<V>& problem, InnerSolver<V>& inner,
                         EquilibriumPropagationOptions options = {});

  std::string_view name() const override { return name_; }
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  void set_tolerances(double inner, double) override;
  void set_outer_tolerance(double tolerance) override { options_.outer_tolerance = tolerance; }
  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_theta() const override { return problem_.initial_theta(); }

  /// The β that the last estimate used, with its sign; 0 before the first.
  double used_beta() const { return used_beta_; }
  /// Times pilot phases were run to choose β.
  long pilots() const { return pilots_; }

 private:
  bool refuses(double beta, Estimate<V>& e);
  double choose(Estimate<V>& e);
  double run_pilots(Estimate<V>& e);
  double balanced() const;
  void remember_noise(const Sweep<V>& sweep, double gain);
  void certify(const Sweep<V>& sweep, Estimate<V>& e);
  void estimate_bound(const Sweep<V>& sweep, double good_enough, Estimate<V>& e);
  void look_again(const Sweep<V>& sweep, double gain, double bend, double good_enough, Estimate<V>& e);
  Sweep<V> sweep(double beta, double Cost::*clock, Estimate<V>& e);
  bool embedded() const { return options_.nudge == Nudge::forward && options_.points > 2; }
  double limit(Constants c) const;
  /// From the difference of estimates at β and β/2 to the bias at β.
  double richardson() const { return 1 / (1 - std::pow(2.0, -stencil_.order())); }

  // Safety factors of the estimated bound, calibrated by EquilibriumPropagationBounds in the tests.
  static constexpr double bias_safety = 2, gain_safety = 3;
  // Δ/t may change by this much over the stencil before extrapolation in β means nothing.
  static constexpr double most_nonlinearity = 0.3, pilot_nonlinearity = 0.15;

  EquilibriumPropagationOptions options_;
  Stencil stencil_;
  std::string name_;
  CountedProblem<V> problem_;
  InnerSolver<V>& inner_;
  SettleAndCertify<V> settled_;
  NudgedPhases<V> phases_;
  std::mt19937_64 signs_;
  double used_beta_ = 0;
  // What is remembered of the trade-off: noise ε/β, bias c·β^q, and how strong a nudge may be.
  double noise_ = unknown, rounding_noise_ = 0, bias_ = unknown, strongest_ = everywhere;
  double tolerance_ = unknown;
  int since_trusted_ = 0;
  long pilots_ = 0;
};

extern template class EquilibriumPropagation<Eigen::VectorXd>;
extern template class EquilibriumPropagation<Eigen::VectorXf>;

}  // namespace bilevel
