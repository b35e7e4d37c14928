#include <bilevel/gradient/impl/make_estimator.hpp>

namespace bilevel {
namespace detail {

void refuse_residual(const EstimatorChoice& choice) {
  throw InvalidInput(
      fmt::format("{} needs an inner loss, and this problem has only a residual", name(choice)));
}

}  // namespace detail

template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(const EstimatorChoice&,
                                                                    Equilibrium<Eigen::VectorXd>&,
                                                                    InnerSolver<Eigen::VectorXd>&);
template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(const EstimatorChoice&,
                                                                    Problem<Eigen::VectorXd>&,
                                                                    InnerSolver<Eigen::VectorXd>&);
template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(const EstimatorChoice&,
                                                                    Equilibrium<Eigen::VectorXf>&,
                                                                    InnerSolver<Eigen::VectorXf>&);
template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(const EstimatorChoice&,
                                                                    Problem<Eigen::VectorXf>&,
                                                                    InnerSolver<Eigen::VectorXf>&);

}  // namespace bilevel
