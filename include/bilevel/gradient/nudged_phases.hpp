#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <bilevel/gradient/second_look.hpp>
#include <bilevel/gradient/stencil.hpp>
#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/problem/counted.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// What is left of one phase, settled at nudging strength t, once its state is gone. Δ = φ̂_t − φ̂_0.
struct NudgedPhase {
  double t = 0;
  double weight = 0;            ///< α of the stencil
  double residual = unknown;    ///< ‖∂φ(L_in + t·L_out)(φ̂_t)‖, as computed
  double residual_error = 0;    ///< rounding error of the same
  double theta_error = 0;       ///< rounding error of ∂θ(L_in + t·L_out)(φ̂_t)
  bool rounding_known = false;  ///< the last two are proven, not guessed
  double distance = 0;          ///< ‖Δ‖
  double delta = unknown;       ///< proven: a stationary point lies within; NaN where nothing is
  double mu = unknown;          ///< of L_in + t·L_out on that ball
  double energy = 0;            ///< L_in(φ̂_t) − L_in(φ̂_0)
  double energy_error = 0;      ///< rounding level of the same
  double work = 0;              ///< the same by the trapezoidal rule from ∂φ L_in at both ends
  double curvature_along = 0;  ///< Δ·(∂φ L_in(φ̂_t) − ∂φ L_in(φ̂_0)): positive for a positive definite Hessian
  double stiffness = unknown;         ///< ‖∂φ L_in(φ̂_t) − ∂φ L_in(φ̂_0)‖/‖Δ‖
  double nudged_stiffness = unknown;  ///< the same of L_in + t·L_out
  double cross = 0;                   ///< ‖∂θ L_in(φ̂_t) − ∂θ L_in(φ̂_0)‖/‖Δ‖
  double outer_theta_change = 0;      ///< ‖∂θ L_out(φ̂_t) − ∂θ L_out(φ̂_0)‖
};

/// All phases of a stencil at one β, and what they give.
template <Vector V>
struct Sweep {
  double beta = 0;
  V gradient;                         ///< (1/β) Σ α_i ∂θL(φ̂_{iβ}, θ, iβ)
  V lower;                            ///< the same by the stencil of one point less, where there is one
  V pi;                               ///< −(1/β) Σ α_i φ̂_{iβ} ≈ π
  std::vector<NudgedPhase> phases;    ///< the free one first
  double assembly_error = 0;          ///< rounding error of the sums above
  double nonlinearity = unknown;      ///< how much Δ/t changes from the first to the last point, relative
  Status status = Status::converged;  ///< of the first phase that failed
  std::string message;
  long iterations = 0;
  Cost cost;

  bool usable() const { return status != Status::diverged && status != Status::not_finite; }
};

/// Runs phase 1 again under nudging, and measures every phase afresh: only first derivatives of the losses
/// are asked for, and of the solver nothing but the state it returns.
template <Vector V>
class NudgedPhases {
 public:
  NudgedPhases(CountedProblem<V>& problem, InnerSolver<V>& solver);

  /// The free phase has settled at φ̂_0 with ∂φ L_in = `residual` and ∂φ L_out = `outer_phi`.
  void begin(const V& theta, const V& phi, const V& residual, const V& outer_phi, const V& outer_theta);
  /// Settles at every point of the stencil: forward ones each from the one before, the others from φ̂_0.
  Sweep<V> sweep(const Stencil& stencil, double beta);

  /// What one step in a random direction shows of the curvatures: rough scales, for where nothing is known.
  struct Probe {
    double stiffness;         ///< ≈ ‖∂φ² L_in‖ in the Frobenius norm
    double random_stiffness;  ///< ‖Hv‖/‖v‖ of that direction v alone
    double outer_stiffness;   ///< ≈ ‖∂φ² L_out‖
    double cross;             ///< ≈ ‖χ‖
  };
  const Probe& probe();
  /// The least of ‖H r‖/‖r‖ along the residual of the free phase and along the largest of the last sweep:
  /// where their errors lie. Infinite if both are zero.
  double stiffness_along_residuals();
  /// ‖∂θ L_in(φ′) − ∂θ L_in(φ̂_0)‖/‖φ′ − φ̂_0‖ where φ′ lies as far along those residuals as a curvature of
  /// `mu` lets them be from rest: χ may vanish where a state has not moved yet. 0 where that is no way at
  /// all.
  double cross_towards_rest(double mu);
  /// Second looks at the free state and at what a sweep made of it; `most` evaluations for the first.
  LeastCurvature<V> least_curvature(Index most);
  AdjointLook look_at_adjoint(const Sweep<V>& sweep);

  const V& theta() const { return theta_; }
  const V& phi() const { return phi_; }
  const NudgedPhase& free_phase() const { return free_; }
  double outer_phi_norm() const { return outer_phi_norm_; }
  std::size_t bytes() const { return 12 * bytes_of(phi_) + 7 * bytes_of(theta_); }

 private:
  double probe_step(V& direction);
  void measure(const V& phi, double t, double inner_norm, double outer_norm, double theta_norm,
               double outer_theta_norm, NudgedPhase& record);
  void find_stationary_point(const V& phi, NudgedPhase& record);
  V settle(double t, const V& start, Sweep<V>& s);
  bool compare_with_free(const V& phi, NudgedPhase& record, Sweep<V>& s);
  void assemble(std::size_t count, NudgedPhase& record, Sweep<V>& s);
  void follow_secant(bool last, double t, Sweep<V>& s);
  void blame(double t, Status status, const std::string& why, Sweep<V>& s) const;

  CountedProblem<V>& problem_;
  InnerSolver<V>& solver_;
  V theta_, phi_, residual_, free_outer_phi_, inner_theta_, nothing_;
  V difference_, inner_phi_, outer_phi_, theta_difference_, outer_theta_, first_secant_, moved_,
      worst_residual_, free_outer_theta_;
  double inner_value_ = unknown, outer_phi_norm_ = unknown;
  double worst_ = 0;  // of the weighed residuals of a sweep; worst_residual_ is its
  NudgedPhase free_;
  Probe probe_{};
  bool probed_ = false;
};

extern template class NudgedPhases<Eigen::VectorXd>;
extern template class NudgedPhases<Eigen::VectorXf>;

}  // namespace bilevel
