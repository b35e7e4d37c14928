#pragma once

#include <memory>
#include <vector>

#include <Eigen/Core>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Σ_k weight_k·estimate_k: values, gradients and bounds add up (the latter with |weight|), the kind is the
/// weakest, residuals and distances the largest, costs the sum. φ and π are put one after another.
Estimate<Eigen::VectorXd> combine(const std::vector<double>& weights,
                                  const std::vector<Estimate<Eigen::VectorXd>>& estimates,
                                  double outer_tolerance);

/// Several problems that share θ and are judged by a weighted sum of their outer losses: the folds of a
/// cross-validation, the tasks of a meta-learner. They are estimated side by side, one thread each; every one
/// needs a problem and solvers of its own.
class SumOfEstimators final : public Estimator<Eigen::VectorXd> {
 public:
  using Vec = Eigen::VectorXd;

  SumOfEstimators(std::vector<std::unique_ptr<Estimator<Vec>>> estimators, std::vector<double> weights);

  std::string_view name() const override { return estimators_.front()->name(); }
  Estimate<Vec> estimate(const Vec& theta, const Warm<Vec>& warm) override;
  void set_tolerances(double inner, double adjoint) override;
  void set_outer_tolerance(double tolerance) override;
  Vec initial_phi() const override;
  Vec initial_theta() const override { return estimators_.front()->initial_theta(); }

 private:
  std::vector<std::unique_ptr<Estimator<Vec>>> estimators_;
  std::vector<double> weights_;
  std::vector<Index> sizes_;
  double outer_tolerance_ = 1e-6;
};

}  // namespace bilevel
