#include <bilevel/gradient/make_estimator.hpp>

#include <algorithm>

namespace bilevel {

const std::vector<std::string>& estimator_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{"auto", "exact"};
    for (const std::string_view adjoint : adjoint_solver_names()) all.push_back(estimator_name(adjoint));
    for (std::string& name : equilibrium_propagation_names()) all.push_back(std::move(name));
    for (const char* name :
         {"ep-holomorphic", "ep-agnostic", "unrolled", "unrolled-truncated", "unrolled-checkpointed",
          "forward-mode", "finite-difference", "evolution-strategies", "spsa"})
      all.emplace_back(name);
    return all;
  }();
  return names;
}

void refuse_estimator(std::string_view name) {
  throw InvalidInput(
      fmt::format("there is no estimator '{}'; there are: {}", name, fmt::join(estimator_names(), ", ")));
}

bool differentiable_step(std::string_view name) {
  const auto known = inner_solver_names();
  return name != "anderson" && std::find(known.begin(), known.end(), name) != known.end() &&
         make_step<Eigen::VectorXd>(name)->differentiable();
}

template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(std::string_view,
                                                                    Equilibrium<Eigen::VectorXd>&,
                                                                    InnerSolver<Eigen::VectorXd>&,
                                                                    const EstimatorOptions&);
template std::unique_ptr<Estimator<Eigen::VectorXd>> make_estimator(std::string_view,
                                                                    Problem<Eigen::VectorXd>&,
                                                                    InnerSolver<Eigen::VectorXd>&,
                                                                    const EstimatorOptions&);
template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(std::string_view,
                                                                    Equilibrium<Eigen::VectorXf>&,
                                                                    InnerSolver<Eigen::VectorXf>&,
                                                                    const EstimatorOptions&);
template std::unique_ptr<Estimator<Eigen::VectorXf>> make_estimator(std::string_view,
                                                                    Problem<Eigen::VectorXf>&,
                                                                    InnerSolver<Eigen::VectorXf>&,
                                                                    const EstimatorOptions&);

}  // namespace bilevel
