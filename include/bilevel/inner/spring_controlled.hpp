#pragma once

#include <cmath>
#include <memory>

#include <bilevel/inner/controlled_system.hpp>
#include <bilevel/inner/lbfgs.hpp>
#include <bilevel/inner/minimiser.hpp>

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

template <Vector V>
SpringLoaded<V>::SpringLoaded(Problem<V>& problem, double compliance)
    : problem_(problem),
      root_(std::sqrt(compliance)),
      phis_(Space<V>::size(problem.initial_phi())),
      thetas_(Space<V>::size(problem.initial_theta())),
      phi_(Space<V>::zeros_like(problem.initial_phi())),
      theta_(Space<V>::zeros_like(problem.initial_theta())),
      phi_gradient_(Space<V>::zeros_like(phi_)),
      theta_gradient_(Space<V>::zeros_like(theta_)),
      initial_(Eigen::VectorXd::Zero(phis_ + thetas_)),
      initial_control_(thetas_),
      host_(thetas_) {
  Space<V>::to_host(problem.initial_phi(), initial_.data());
  Space<V>::to_host(problem.initial_theta(), initial_control_.data());
}

template <Vector V>
void SpringLoaded<V>::unpack(const Eigen::VectorXd& x, const Eigen::VectorXd& control) {
  Space<V>::from_host(x.data(), phi_);
  host_ = control + root_ * x.tail(thetas_);
  Space<V>::from_host(host_.data(), theta_);
}

template <Vector V>
void SpringLoaded<V>::pack(Wanted<Eigen::VectorXd> wanted) {
  if (wanted.phi || wanted.theta) Space<V>::to_host(theta_gradient_, host_.data());
  if (wanted.phi) {
    Space<V>::to_host(phi_gradient_, wanted.phi->data());
    wanted.phi->tail(thetas_) = root_ * host_;
  }
  if (wanted.theta) *wanted.theta = host_;
}

template <Vector V>
double SpringLoaded<V>::inner(const Eigen::VectorXd& x, const Eigen::VectorXd& control,
                              Wanted<Eigen::VectorXd> wanted) {
  unpack(x, control);
  const double value = problem_.inner(phi_, theta_, asked(wanted));
  pack(wanted);
  if (wanted.phi) wanted.phi->tail(thetas_) += x.tail(thetas_);
  return value + 0.5 * x.tail(thetas_).squaredNorm();
}

template <Vector V>
double SpringLoaded<V>::outer(const Eigen::VectorXd& x, const Eigen::VectorXd& control,
                              Wanted<Eigen::VectorXd> wanted) {
  unpack(x, control);
  const double value = problem_.outer(phi_, theta_, asked(wanted));
  pack(wanted);
  return value;
}

template <Vector V>
SpringControlled<V>::SpringControlled(Problem<V>& problem, SpringOptions options)
    : problem_(problem),
      options_((options.validate().throw_if_any(), options)),
      joint_(problem, options.compliance),
      minimiser_(joint_, std::make_unique<Lbfgs<Eigen::VectorXd>>(), options.minimiser) {
  require_shapes<V>(problem, nullptr, nullptr, "springs");
}

template <Vector V>
Rest<V> SpringControlled<V>::settle(const V& control, double beta, const V& start) {
  require_shapes<V>(problem_, &start, &control, "springs");
  const Index phis = Space<V>::size(start), thetas = Space<V>::size(control);
  Eigen::VectorXd from = Eigen::VectorXd::Zero(phis + thetas), knobs(thetas);
  Space<V>::to_host(start, from.data());
  Space<V>::to_host(control, knobs.data());
  Solution<Eigen::VectorXd> solution = minimiser_.solve(knobs, beta, from);
  Rest<V> rest{.phi = Space<V>::zeros_like(start),
               .extension = Space<V>::zeros_like(control),
               .status = solution.status,
               .message = std::move(solution.message),
               .cost = solution.cost};
  Space<V>::from_host(solution.phi.data(), rest.phi);
  knobs = std::sqrt(options_.compliance) * solution.phi.tail(thetas);
  Space<V>::from_host(knobs.data(), rest.extension);
  return rest;
}

extern template class SpringLoaded<Eigen::VectorXd>;
extern template class SpringLoaded<Eigen::VectorXf>;
extern template class SpringControlled<Eigen::VectorXd>;
extern template class SpringControlled<Eigen::VectorXf>;

}  // namespace bilevel
