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

  /// Its loops end early where this says so, and what they return is then worth nothing; null: never.
  void obey(const StopToken* stop) {
    stop_ = stop;
    problem_->obey(stop);
  }

  void set_tasks(const Tasks& tasks) { tasks_.write(tasks); }
  const Tasks& tasks() const { return tasks_; }

  /// Of the mean loss of the tasks; the certificate is left out.
  /// `number`: of the step, for what is drawn at random.
  Estimate<SingleTensor> estimate(const Tensor& theta, long number = 0);
  /// By implicit differentiation in double precision, at the state that the tasks settle in from where this
  /// gradient's have ended: of it the certificate speaks that is proven of the reference, its bound longer by
  /// what lies between the two. Slower.
  struct Beside {
    Estimate<Tensor> reference;
    std::string settled;  ///< how its first phase went
    double distance = unknown;
    Certificate certificate;  ///< of the gradient that was used
  };
  Beside beside_reference(const Tensor& theta, const Estimate<SingleTensor>& used);
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
  struct Method {
    std::unique_ptr<UnwatchedSteps<SingleTensor>> inner;
    std::unique_ptr<Estimator<SingleTensor>> estimator;
  };
  Method method(long number) const;
  /// What adaptation reads at this θ, as one row; the parts with a graph back to θ if that is wanted.
  SingleTensor prepare(const Tensor& theta, bool with_graph);

  const Learner learner_;
  const MetaOptions o_;
  const StopToken* stop_ = nullptr;
  Tasks tasks_;
  Shapes shapes_;
  Tensors leaves_, prepared_;
  std::unique_ptr<torch::Losses<SingleTensor>> problem_;
  Method fast_;
  std::unique_ptr<TaskPhases<SingleTensor>>
      phases_;  // null where tasks of this kind have no loops of their own
};

}  // namespace bilevel::learning
