#pragma once

#include <string>
#include <vector>

#include <bilevel/learning/learner.hpp>

namespace bilevel::learning {

/// How a learner adapts to tasks: plain steps of this kind, so many.
struct AdaptationOptions {
  std::string inner = {};  ///< gradient-descent, heavy-ball, nesterov or adam; empty: what suits the learner
  long steps = 0;          ///< 0: what suits the learner
  double rate = 0;         ///< length of a step; 0: what suits the learner

  Violations validate() const;
};
/// With every choice made.
AdaptationOptions resolve(const AdaptationOptions& options, const Learner& learner);
InnerChoice inner_choice(const AdaptationOptions& resolved);

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
