#include <bilevel/networks/circuit_solver.hpp>

#include <algorithm>
#include <cmath>

namespace bilevel::networks {

using Vec = Eigen::VectorXd;

CircuitSolver::CircuitSolver(CircuitProblem& problem, OperatingPointOptions options)
    : problem_(problem), options_(options) {
  options_.validate().throw_if_any();
}

Solution<Vec> CircuitSolver::solve(const Vec& theta, double beta, const Vec& start) {
  problem_.require_conductances(theta, name());
  require_shapes<Vec>(problem_, &start, &theta, name());
  if (!std::isfinite(beta)) throw InvalidInput(fmt::format("circuit: beta = {} must be finite", beta));
  Solution<Vec> s;
  s.phi = start;
  s.status = Status::converged;
  const Index n = problem_.nodes();
  double worst = 0;
  problem_.set_theta(theta);
  for (Index k = 0; k < problem_.samples(); ++k) {
    problem_.set_sample(k, beta);
    const auto outcome = problem_.equations().settle(s.phi.segment(k * n, n), options_);
    s.iterations += outcome.iterations;
    s.cost.factorizations += outcome.iterations + 1;
    worst = std::max(worst, outcome.residual);
    if (!succeeded(outcome.status) && succeeded(s.status)) {
      s.status = outcome.status;
      s.message = fmt::format("sample {}: {}", k, problem_.equations().message(outcome, options_));
    }
  }
  if (succeeded(s.status))
    s.message = fmt::format("{} samples at rest after {} iterations: residual at most {:.3g}",
                            problem_.samples(), s.iterations, worst);
  measure_solution(problem_, theta, beta, s);
  return s;
}

void measure_solution(CircuitProblem& problem, const Vec& theta, double beta, Solution<Vec>& solution) {
  Vec gradient = Vec::Zero(solution.phi.size()), nudge = gradient;
  solution.value = problem.inner(solution.phi, theta, {.phi = &gradient});
  if (beta != 0) {
    solution.value += beta * problem.outer(solution.phi, theta, {.phi = &nudge});
    gradient += beta * nudge;
    ++solution.cost.outer_gradients;
  }
  ++solution.cost.inner_gradients;
  solution.residual_norm = gradient.norm();
}

}  // namespace bilevel::networks
