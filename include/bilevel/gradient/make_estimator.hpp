#pragma once

#include <memory>
#include <string_view>

#include <bilevel/gradient/estimator_choice.hpp>
#include <bilevel/gradient/forwarding.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// An estimator for anything that settles. Throws InvalidInput, with the reason, where the equilibrium cannot
/// serve it. The problem and the inner solver must outlive it.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(const EstimatorChoice& choice, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner);
/// The same for a problem with an inner loss, which equilibrium propagation and unrolling need.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(const EstimatorChoice& choice, Problem<V>& problem,
                                             InnerSolver<V>& inner);

namespace detail {

/// An estimator whose gradients are judged by another share than the usual one, whatever options it has.
template <Vector V>
class Trusting final : public Forwarding<V> {
 public:
  Trusting(std::unique_ptr<Estimator<V>> wrapped, double trust, double outer_tolerance)
      : Forwarding<V>(std::move(wrapped)), trust_(trust), outer_tolerance_(outer_tolerance) {}
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override {
    Estimate<V> e = this->wrapped_->estimate(theta, warm);
    e.certificate.trust = trust_;
    e.certificate.judge(norm(e.gradient), outer_tolerance_, succeeded(e.status));
    return e;
  }
  void set_outer_tolerance(double tolerance) override {
    outer_tolerance_ = tolerance;
    this->wrapped_->set_outer_tolerance(tolerance);
  }

 private:
  double trust_, outer_tolerance_;
};

template <Vector V>
std::unique_ptr<Estimator<V>> trusting(std::unique_ptr<Estimator<V>> made, const EstimatorOptions& options) {
  options.certificate.validate().throw_if_any();
  const double trust = options.certificate.trust;
  if (trust == Certificate::usual_trust) return made;
  return std::make_unique<Trusting<V>>(std::move(made), trust, options.outer_tolerance);
}

}  // namespace detail

/// The same by name (see estimator_names), told what concerns it of the options.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& options = {}) {
  return detail::trusting<V>(make_estimator<V>(with_options(estimator_named(name), options), problem, inner),
                             options);
}
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Problem<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& options = {}) {
  return detail::trusting<V>(make_estimator<V>(with_options(estimator_named(name), options), problem, inner),
                             options);
}

extern template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(const EstimatorChoice&,
                                                                           Equilibrium<Eigen::VectorXd>&,
                                                                           InnerSolver<Eigen::VectorXd>&);
extern template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(const EstimatorChoice&,
                                                                           Problem<Eigen::VectorXd>&,
                                                                           InnerSolver<Eigen::VectorXd>&);
extern template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(const EstimatorChoice&,
                                                                           Equilibrium<Eigen::VectorXf>&,
                                                                           InnerSolver<Eigen::VectorXf>&);
extern template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(const EstimatorChoice&,
                                                                           Problem<Eigen::VectorXf>&,
                                                                           InnerSolver<Eigen::VectorXf>&);

}  // namespace bilevel
