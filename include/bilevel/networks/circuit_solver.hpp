#pragma once

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/networks/circuit_problem.hpp>

namespace bilevel::networks {

/// Settles every selected sample of a CircuitProblem by Newton's method on its co-content, always to the
/// tolerance of its options: the last iterations converge quadratically and cost little. The problem must
/// outlive it.
class CircuitSolver final : public InnerSolver<Eigen::VectorXd> {
 public:
  explicit CircuitSolver(CircuitProblem& problem, OperatingPointOptions options = {});
  std::string_view name() const override { return "circuit"; }
  Solution<Eigen::VectorXd> solve(const Eigen::VectorXd& theta, double beta,
                                  const Eigen::VectorXd& start) override;

 private:
  CircuitProblem& problem_;
  OperatingPointOptions options_;
};

/// Fills value and residual norm of a solution from the losses themselves.
void measure_solution(CircuitProblem& problem, const Eigen::VectorXd& theta, double beta,
                      Solution<Eigen::VectorXd>& solution);

}  // namespace bilevel::networks
