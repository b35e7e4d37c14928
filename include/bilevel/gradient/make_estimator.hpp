#pragma once

#include <memory>
#include <string_view>

#include <bilevel/gradient/estimator_choice.hpp>
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

/// The same by name (see estimator_names), told what concerns it of the options.
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Equilibrium<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& options = {}) {
  auto made = make_estimator<V>(with_options(estimator_named(name), options), problem, inner);
  options.certificate.validate().throw_if_any();  // some read the trust alone
  return made;
}
template <Vector V>
std::unique_ptr<Estimator<V>> make_estimator(std::string_view name, Problem<V>& problem,
                                             InnerSolver<V>& inner, const EstimatorOptions& options = {}) {
  auto made = make_estimator<V>(with_options(estimator_named(name), options), problem, inner);
  options.certificate.validate().throw_if_any();  // some read the trust alone
  return made;
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
