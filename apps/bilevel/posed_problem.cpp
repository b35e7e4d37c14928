#include "posed_problem.hpp"

#include <bilevel/models/problem.hpp>

namespace app {

PosedProblem::PosedProblem(std::unique_ptr<bilevel::problems::ReferenceProblem> ready_made)
    : reference_(ready_made.get()) {
  parts_.push_back(std::move(ready_made));
}

PosedProblem::PosedProblem(bilevel::models::Prepared prepared)
    : parts_(bilevel::models::make_problems(prepared)), prepared_(std::move(prepared)) {}

bilevel::Index PosedProblem::whole_phi_size() const {
  return static_cast<bilevel::Index>(parts_.size()) * phi_size();
}

std::optional<Eigen::VectorXd> PosedProblem::outer_gradient(const Vec& theta) const {
  return reference_ ? reference_->outer_gradient(theta) : std::nullopt;
}

std::optional<Eigen::VectorXd> PosedProblem::best_theta() const {
  return reference_ ? reference_->best_theta() : std::nullopt;
}

std::optional<std::pair<double, double>> PosedProblem::theta_bounds() const {
  if (reference_) return reference_->theta_bounds();
  return std::pair{-10.0, 10.0};
}

void PosedProblem::obey(const bilevel::StopToken* stop) {
  for (auto& part : parts_) part->obey(stop);
}

Estimation PosedProblem::estimation(std::string_view method, std::string_view inner,
                                    const bilevel::EstimatorOptions& options,
                                    const bilevel::MinimiserOptions& inner_options) {
  Estimation made;
  std::vector<std::unique_ptr<bilevel::Estimator<Vec>>> estimators;
  for (auto& part : parts_) {
    made.inner.push_back(bilevel::make_inner_solver<Vec>(inner, *part, inner_options));
    estimators.push_back(bilevel::make_estimator<Vec>(method, *part, *made.inner.back(), options));
  }
  if (estimators.size() == 1) {
    made.estimator = std::move(estimators.front());
  } else {
    const std::vector<double> weights(estimators.size(), 1 / static_cast<double>(estimators.size()));
    made.estimator = std::make_unique<bilevel::SumOfEstimators>(std::move(estimators), weights);
  }
  return made;
}

}  // namespace app
