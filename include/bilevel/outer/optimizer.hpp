#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <bilevel/outer/box.hpp>

namespace bilevel {

/// Everything an optimiser remembers, in a form that a checkpoint can hold.
struct OptimizerState {
  std::map<std::string, double> numbers;
  std::map<std::string, Eigen::VectorXd> vectors;

  /// A number that counts something, `most` at the most. Throws InvalidInput where it is none.
  long count(const std::string& key, long most) const;
};

/// What became of the point an optimiser was told about.
enum class Move {
  accepted,  ///< it is the new iterate
  rejected,  ///< it was a trial that did not decrease the loss enough
  stuck,     ///< no step decreases the loss any more: nothing to evaluate next
};

/// An optimiser of θ, asked for one point at a time, so that a run can stop and resume between any two
/// evaluations. θ is held in host memory: bounds, checkpoints and reports need it there.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string_view name() const = 0;
  virtual void begin(const Box& box) = 0;
  /// Told value and gradient at `theta` (the point it last asked for; any point at first), moves `theta`
  /// to the next point to evaluate. A value that is not finite counts as infinitely large.
  virtual Move advance(double value, const Eigen::VectorXd& gradient, Eigen::VectorXd& theta) = 0;
  virtual OptimizerState save() const = 0;
  virtual void load(const OptimizerState& state) = 0;
};

/// θ ← P(θ − α·∇). With step = 0 the step is Barzilai–Borwein's, halved until the loss decreases.
struct DescentOptimizerOptions {
  double step = 0;
  Violations validate() const;
};

/// Adam with bias correction, projected onto the box. Takes every point: for noisy values.
struct AdamOptimizerOptions {
  double step = 0.05;  ///< a log-penalty moves by about this much a step
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  Violations validate() const;
};

/// Projected L-BFGS: quasi-Newton in the variables that are free to move, Armijo along the projected path.
struct LbfgsOptimizerOptions {
  int memory = 10;
  /// Length of a step that no curvature tells how far to go, the first one above all. 0: that of the
  /// gradient, one at most, which is tiny where the loss is flat.
  double first_step = 0;
  Violations validate() const;
};

std::unique_ptr<Optimizer> make_gradient_descent(const DescentOptimizerOptions& options = {});
std::unique_ptr<Optimizer> make_adam(const AdamOptimizerOptions& options = {});
std::unique_ptr<Optimizer> make_lbfgs(const LbfgsOptimizerOptions& options = {});

/// An optimiser of θ and everything it is told: the options of one of them.
using OptimizerChoice = std::variant<LbfgsOptimizerOptions, DescentOptimizerOptions, AdamOptimizerOptions>;

/// gradient-descent, adam, lbfgs: the name() of the optimiser that is made of it.
std::string_view name(const OptimizerChoice& choice);
Violations validate(const OptimizerChoice& choice);
std::vector<std::string> optimizer_names();
/// The choice of that name with its options at their defaults; null where there is none.
const OptimizerChoice* find_optimizer(std::string_view name);
/// The choice of that name. Throws InvalidInput, with the list, for any other.
OptimizerChoice optimizer_named(std::string_view name);

std::unique_ptr<Optimizer> make_optimizer(const OptimizerChoice& choice);
/// By name. A positive `step` is handed on where the optimiser has one.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, double step = 0);

}  // namespace bilevel
