#pragma once

#include <cmath>
#include <memory>

#include <bilevel/inner/controlled_system.hpp>
#include <bilevel/inner/minimiser.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

struct SpringOptions {
  /// ε of the springs; > 0. The gradient with respect to the knobs differs from that of the problem without
  /// springs by O(ε); 1e-3 leaves three digits. Smaller ones make the extensions small against rounding.
  double compliance = 1e-3;
  /// Of the joint minimisation over φ and t = (θ − u)/√ε. Errors of the resting state enter the agnostic
  /// gradient divided by β·√ε, hence tighter than a minimiser's own default.
  MinimiserOptions minimiser = {.gradient_tolerance = 1e-12};

  Violations validate() const {
    Violations v("springs");
    return v.positive("compliance", compliance).add(minimiser.validate());
  }
};

/// What the springs make of a problem: φ and θ = u + √ε·t settle together, u is the new θ. In these units the
/// springs are ½‖t‖², whatever ε, and first derivatives are enough:
///   ∂φ = ∂φ L,   ∂t = √ε·∂θ L + t (the springs belong to L_in),   ∂u = ∂θ L
template <Vector V>
class SpringLoaded final : public Problem<Eigen::VectorXd> {
 public:
  SpringLoaded(Problem<V>& problem, double compliance);

  Eigen::VectorXd initial_phi() const override { return initial_; }
  Eigen::VectorXd initial_theta() const override { return initial_control_; }
  double inner(const Eigen::VectorXd& x, const Eigen::VectorXd& control,
               Wanted<Eigen::VectorXd> wanted) override;
  double outer(const Eigen::VectorXd& x, const Eigen::VectorXd& control,
               Wanted<Eigen::VectorXd> wanted) override;
  Capabilities capabilities() const override { return {.curvature = false}; }

 private:
  void unpack(const Eigen::VectorXd& x, const Eigen::VectorXd& control);
  void pack(Wanted<Eigen::VectorXd> wanted);
  Wanted<V> asked(Wanted<Eigen::VectorXd> wanted) {
    return {.phi = wanted.phi ? &phi_gradient_ : nullptr,
            .theta = wanted.phi || wanted.theta ? &theta_gradient_ : nullptr};
  }

  Problem<V>& problem_;
  double root_;  // √ε
  Index phis_, thetas_;
  V phi_, theta_, phi_gradient_, theta_gradient_;
  Eigen::VectorXd initial_, initial_control_, host_;
};

/// Any problem as a system that can only settle: for simulations and for tests of what the agnostic estimator
/// makes of one. Settles by L-BFGS, so it does use the derivatives that its user pretends not to know. The
/// problem must outlive it.
template <Vector V>
class SpringControlled final : public ControlledSystem<V> {
 public:
  explicit SpringControlled(Problem<V>& problem, SpringOptions options = {});

  V initial_phi() const override { return problem_.initial_phi(); }
  V initial_control() const override { return problem_.initial_theta(); }
  double compliance() const override { return options_.compliance; }
  Rest<V> settle(const V& control, double beta, const V& start) override;
  double outer(const V& phi, const V& theta) override { return problem_.outer(phi, theta, {}); }

 private:
  Problem<V>& problem_;
  SpringOptions options_;
  SpringLoaded<V> joint_;
  Minimiser<Eigen::VectorXd> minimiser_;
};

extern template class SpringLoaded<Eigen::VectorXd>;
extern template class SpringLoaded<Eigen::VectorXf>;
extern template class SpringControlled<Eigen::VectorXd>;
extern template class SpringControlled<Eigen::VectorXf>;

}  // namespace bilevel
