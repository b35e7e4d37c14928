#pragma once

#include <memory>
#include <optional>

#include <bilevel/inner/minimiser.hpp>
#include <bilevel/space/eigen.hpp>
#include <bilevel/space/minimal_residual.hpp>

namespace bilevel {

struct NewtonKrylovOptions {
  /// Vectors of φ's size that the Krylov space of a Newton step may have; ≥ 1. A step that is not solved for
  /// within them goes on from what is left of its residual.
  long length = 50;
  /// Such spaces, one after another, for each step; ≥ 1.
  long cycles = 10;
  /// The first Newton step is solved to this part of the residual; in (0, 1). Later ones follow how fast the
  /// residual falls (Eisenstat and Walker 1996, choice 2), so that early ones are cheap and late ones
  /// converge quadratically.
  double forcing = 0.1;

  Violations validate() const {
    Violations v("newton-krylov");
    v.at_least("length", length, 1).at_least("cycles", cycles, 1);
    v.require(forcing > 0 && forcing < 1, "forcing", forcing, "must lie in (0, 1)");
    return v;
  }
};

/// Settles F(φ) = residual + β·∂φ L_out to zero by inexact Newton steps, J·p = −F by GMRES with products
/// alone, shortened until ‖F‖ falls as a step along −J⁻¹F promises (Armijo's condition on the norm). For any
/// equilibrium with curvature: what is far from normal stalls the fixed point and not this. It seeks
/// stationary points, minima or not. A residual that is not finite at a trial counts as a step too far.
/// MinimiserOptions' relative_decrease is not used, for there is no value.
template <Vector V>
class NewtonKrylov final : public InnerSolver<V> {
 public:
  /// The problem must outlive the solver.
  explicit NewtonKrylov(Equilibrium<V>& problem, MinimiserOptions options = {},
                        NewtonKrylovOptions method = {});

  std::string_view name() const override { return "newton-krylov"; }
  Solution<V> solve(const V& theta, double beta, const V& start) override;
  void set_tolerance(double tolerance) override;

 private:
  Stop run();
  double evaluate(const V& phi, V& out);
  std::optional<Stop> fault() const;
  std::optional<Stop> test() const;
  std::optional<Stop> find_direction(double wanted);
  std::optional<Stop> shorten();
  std::string progress() const;

  Equilibrium<V>& problem_;
  CountedEquilibrium<V> counted_;
  MinimiserOptions options_;
  NewtonKrylovOptions method_;

  V theta_, phi_, residual_, trial_, trial_residual_, direction_, left_;
  std::optional<V> outer_gradient_;
  std::optional<MinimalResidual<V>> space_;
  std::unique_ptr<Curvature<V>> curvature_;
  double beta_ = 0, outer_value_ = 0, residual_norm_ = unknown, reach_ = 0;
  double linear_ = 0;  // ‖F + J·p‖ / ‖F‖ of the last direction
  long iteration_ = 0, krylov_steps_ = 0;
  Stopwatch watch_;
};

extern template class NewtonKrylov<Eigen::VectorXd>;
extern template class NewtonKrylov<Eigen::VectorXf>;

}  // namespace bilevel
