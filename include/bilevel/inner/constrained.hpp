#pragma once

#include <optional>
#include <string>
#include <vector>

#include <bilevel/inner/minimiser.hpp>
#include <bilevel/inner/quadratic_program.hpp>
#include <bilevel/space/eigen.hpp>

namespace bilevel {

/// Equalities first, then lower and upper bounds where they are finite, then inequalities; `names` says
/// which.
struct NamedConstraints {
  LinearConstraints rows;
  std::vector<std::string> names;
  std::vector<Index> elements;   ///< which one a bound is of; −1 for what is no bound
  Eigen::VectorXd lower, upper;  ///< of every element, infinite where there is no bound

  /// Whether there are bounds and at most one equality, so that nearest points are found by sorting.
  bool separable() const;
};
NamedConstraints rows_of(const PhiConstraints& constraints, Index size);
/// argmin ½‖x‖² + gradient·x over the steps x from phi that satisfy the constraints.
QuadraticProgramSolution nearest_step(const NamedConstraints& constraints, const Eigen::VectorXd& phi,
                                      const Eigen::VectorXd& gradient, const StopToken* stop);
/// Takes off what rounding put beyond a bound.
void keep_within(const NamedConstraints& constraints, Eigen::VectorXd& phi);
/// Puts elements that are held by a bound right onto it, where rounding has left them beside it.
void touch(const NamedConstraints& constraints, const std::vector<Index>& active, Eigen::VectorXd& phi);
/// Damped BFGS (Nocedal and Wright 2006, procedure 18.2); the first pair also says how large the model is.
void update_model(const Eigen::VectorXd& s, Eigen::VectorXd y, Eigen::MatrixXd& model, bool first);

struct ConstrainedOptions {
  /// Whether the model of the loss is its Hessian; else a quasi-Newton one (damped BFGS) from gradients.
  bool second_order = true;
  /// Largest |φ|; ≥ 1. Models and constraints are dense: |φ|³ operations an iteration, and a stop is looked
  /// at between their products and constraints, not within a factor.
  long max_variables = 2000;

  Violations validate() const {
    return Violations("constrained").at_least("max_variables", max_variables, 1);
  }
};

/// Minimises L_in + β·L_out under the problem's phi_constraints(): each step is the minimum of a convex
/// quadratic model under all of them (solve_quadratic_program), shortened by Armijo's search, so that every
/// iterate after the first satisfies them. The start is moved to the nearest point that does. A model that is
/// not positive definite is shifted as Newton's is. Converged when ‖P(φ − g) − φ‖₂ is at most the tolerance,
/// g the gradient and P the nearest point under the constraints: the part of the gradient that they do not
/// hold. Where the time is over within a model, the last step is one towards P(φ − g) instead.
template <Vector V>
class Constrained final : public InnerSolver<V> {
 public:
  /// The problem must outlive the solver.
  explicit Constrained(Problem<V>& problem, MinimiserOptions options = {}, ConstrainedOptions method = {});

  std::string_view name() const override {
    return method_.second_order ? "constrained-newton" : "constrained-bfgs";
  }
  Solution<V> solve(const V& theta, double beta, const V& start) override;
  void set_tolerance(double tolerance) override;

 private:
  Stop run();
  std::optional<Stop> project_start();
  QuadraticProgramSolution natural_step(const Eigen::VectorXd& phi, const Eigen::VectorXd& gradient);
  std::optional<Stop> test();
  std::optional<Stop> ended() const;
  std::optional<Stop> model();
  std::optional<Stop> search(const QuadraticProgramSolution& model);
  std::optional<Stop> step();
  std::string progress() const;

  Problem<V>& problem_;
  MinimiserOptions options_;
  ConstrainedOptions method_;
  NamedConstraints constraints_;
  Nudged<V> nudged_;
  V phi_, gradient_, trial_, trial_gradient_;
  Eigen::VectorXd host_, host_gradient_;
  Eigen::MatrixXd hessian_, inverse_factor_;
  double value_ = unknown, residual_ = unknown, reach_ = 0;
  long iteration_ = 0, shifted_ = 0;
  QuadraticProgramSolution natural_;  // P(φ − g) − φ
  std::optional<StopToken> stop_;
  Stopwatch watch_;
};

extern template class Constrained<Eigen::VectorXd>;
extern template class Constrained<Eigen::VectorXf>;

}  // namespace bilevel
