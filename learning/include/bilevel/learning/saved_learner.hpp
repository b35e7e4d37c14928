#pragma once

#include <string>
#include <vector>

#include <bilevel/learning/adaptation.hpp>
#include <bilevel/outcome/status.hpp>

namespace bilevel::learning {

/// How a learner adapts to tasks: by steps of this kind, until they have settled or so many.
struct AdaptationOptions {
  /// lbfgs and barzilai-borwein, where each task has steps of its own; gradient-descent, heavy-ball, nesterov
  /// or adam, which can be differentiated; empty: the second for a center of layers, else the first.
  std::string inner = {};
  long inner_steps = 0;  ///< all of them; 0: until they have settled
  /// What counts as settled: the inner gradient, root of the mean square over the tasks.
  double inner_tolerance = 0;
  double inner_rate = 0;  ///< length of a step, of the first one; 0: what suits the learner

  Violations validate() const;
};
/// With every choice made.
AdaptationOptions resolve(const AdaptationOptions& options, const Learner& learner);
/// The step that unrolling differentiates. Throws InvalidInput where it cannot.
InnerChoice inner_choice(const AdaptationOptions& resolved);
/// Of so many tasks together.
StepLimits limits_of(const AdaptationOptions& resolved, long tasks);
/// On a problem of so many tasks.
template <Vector V>
std::unique_ptr<UnwatchedSteps<V>> make_adaptation(const AdaptationOptions& resolved, Problem<V>& problem,
                                                   long tasks);

/// What a task's rows came out as.
struct Adapted {
  Tensor before, after;       ///< [tasks, rows, outputs]: answers at φ = 0, and those once adapted
  double residual = unknown;  ///< of the inner gradient, root of the mean square over the tasks
  double loss_before = unknown, loss_after = unknown;  ///< mean over the tasks' support rows
  Status status = Status::not_run;
  std::string message;
};

/// What was learned, ready for new tasks.
struct SavedLearner {
  LearnerOptions options = {};
  TaskForm form = {};
  AdaptationOptions adaptation = {};
  std::vector<float> theta = {};
  std::string source = {};  ///< of the tasks that it was learned from
  bool inverted = false;    ///< its pictures were light ones: so are those that it is to adapt to
  std::vector<std::string> notes = {};

  Learner learner() const { return Learner(options, form); }
  /// The tensors of θ.
  Tensors tensors(at::ScalarType type = at::kFloat, const at::Device& device = at::kCPU) const;
  /// Adapts to the support rows of each task and answers its query rows (whose targets are not looked at).
  Adapted adapt(const Tasks& tasks) const;

  std::string text() const;
  /// Throws InvalidInput where the file cannot be written.
  void save(const std::string& path) const;
};

/// Throws InvalidInput with the file's name and what is wrong with it.
SavedLearner read_learner(const std::string& path);

}  // namespace bilevel::learning
