#pragma once

#include <memory>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/learning/adaptation.hpp>
#include <bilevel/learning/meta_learn.hpp>

#include "in_a_row.hpp"
#include "task_phases.hpp"

namespace bilevel::learning {

using torch::SingleTensor;

/// The outer gradient of a learner on tasks that lie side by side, at θ as one row of numbers.
class MetaGradient {
 public:
  /// With room for tasks like these, which are the first to be used.
  MetaGradient(const Learner& learner, const MetaOptions& resolved, const Tasks& tasks, const Tensor& theta);

  void set_tasks(const Tasks& tasks) { tasks_.write(tasks); }
  const Tasks& tasks() const { return tasks_; }

  /// Of the mean loss of the tasks; the certificate is left out.
  /// `number`: of the step, for what is drawn at random.
  Estimate<SingleTensor> estimate(const Tensor& theta, long number = 0);
  /// A certificate of such a gradient: that of the same method in double precision, which takes up where this
  /// one has settled, and what rounding has moved it by. Slower.
  Certificate certify(const Tensor& theta, const Estimate<SingleTensor>& estimate);
  /// Adapts alone.
  Solution<SingleTensor> adapt(const Tensor& theta);
  /// Answers to the queries at this φ, after `adapt`, and those at φ = 0.
  Tensor answers(const SingleTensor& phi);
  Tensor first_answers() { return answers(problem_->initial_phi()); }

  /// ‖∂φ L_in‖ where the last adaptation ended; NaN where none did.
  double residual() const { return phases_ ? phases_->residual() : fast_.inner->residual(); }

  Tensors views(const Tensor& theta) const;
  const Learner& learner() const { return learner_; }

 private:
  template <Vector V>
  struct Method {
    std::unique_ptr<UnwatchedSteps<V>> inner;
    std::unique_ptr<Estimator<V>> estimator;
  };
  template <Vector V>
  Method<V> method(Problem<V>& problem, bool certificate, long number = 0) const;
  bool settles() const;
  /// What adaptation reads at this θ, as one row; the parts with a graph back to θ if that is wanted.
  SingleTensor prepare(const Tensor& theta, bool with_graph);

  const Learner learner_;
  const MetaOptions o_;
  Tasks tasks_;
  Shapes shapes_;
  Tensors leaves_, prepared_;
  std::unique_ptr<torch::Losses<SingleTensor>> problem_;
  Method<SingleTensor> fast_;
  Tasks exact_tasks_;
  std::unique_ptr<torch::Losses<Tensor>> exact_;
  std::unique_ptr<TaskPhases<SingleTensor>> phases_;  // null where tasks of this kind have no loops of their own
};

}  // namespace bilevel::learning
