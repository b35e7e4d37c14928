#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/networks/network_problem.hpp>

namespace bilevel::networks {

/// In which order the layers give way. A step is one pass over them.
enum class Schedule {
  even_odd,  ///< layers 1, 3, … together, then 2, 4, …: neighbours never move at once, so every update is
             ///< exact
  synchronous,  ///< all at once, from the states before the step; may oscillate where couplings are strong
  sweep,        ///< one after the other, upwards and downwards in turn
  gradient      ///< all at once by a step along −∂E/∂u
};

std::string_view name(Schedule schedule);
Schedule schedule_of(std::string_view name);

/// How a network settles. Layers of Hopfield and resistive networks go to where their energy is lowest with
/// the others held; hidden layers of predictive coding, which have no such formula, take a gradient step.
struct RelaxationOptions {
  Schedule schedule = Schedule::even_odd;
  /// How far a layer goes towards its minimum, in (0, 1]; the length of gradient steps, > 0.
  double step = 1;
  long max_steps = 20;  ///< ≥ 1
  /// A sample has settled when no unit of it moved by more than this in a step, and is left alone from then
  /// on; 0: every sample takes max_steps.
  double tolerance = 0;
  const StopToken* stop = nullptr;  ///< ends a phase before it has settled; null: nothing does

  Violations validate(std::string_view owner = "relaxation") const;
};

/// How each sample of a batch settled.
struct SampleOutcome {
  long steps = 0;
  double moved = 0;  ///< the largest change of a unit in the last step
  Status status = Status::not_run;
};

/// Relaxation behind the interface of inner solvers, in double. A batch has settled when ‖∂φ(L_in + β·L_out)‖
/// is below the tolerance that was asked for, or when no unit moves any more by more than rounding.
class Relaxation final : public InnerSolver<Eigen::VectorXd> {
 public:
  /// The problem must outlive it. `options.tolerance` is a first guess; set_tolerance() asks for a residual.
  explicit Relaxation(NetworkProblem& problem,
                      RelaxationOptions options = {.max_steps = 10000, .tolerance = 1e-12});
  ~Relaxation() override;

  std::string_view name() const override { return "relaxation"; }
  Solution<Eigen::VectorXd> solve(const Eigen::VectorXd& theta, double beta,
                                  const Eigen::VectorXd& start) override;
  /// Of the mean over the batch, as everywhere; samples are settled until no unit moves by more than that.
  void set_tolerance(double tolerance) override;
  /// Of the last solve, one a sample.
  const std::vector<SampleOutcome>& samples() const { return outcomes_; }

 private:
  struct Workspace;

  NetworkProblem& problem_;
  RelaxationOptions options_;
  std::vector<SampleOutcome> outcomes_;
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace bilevel::networks
