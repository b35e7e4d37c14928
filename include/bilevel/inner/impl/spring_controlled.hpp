#pragma once

#include <bilevel/inner/spring_controlled.hpp>
#include <bilevel/inner/impl/lbfgs.hpp>
#include <bilevel/inner/impl/minimiser.hpp>

namespace bilevel {

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

}  // namespace bilevel
