#pragma once

#include <memory>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/learning/adaptation.hpp>
#include <bilevel/learning/meta_learn.hpp>

namespace bilevel::learning {

/// `implicit-cg` of a center of layers, as its tasks have it: they share nothing but what is prepared, so each
/// goes through both phases on its own, on a processor in the lanes of its vectors (kernels/phases.hpp). What a
/// general estimator asks of LibTorch's vectors takes longer than all arithmetic of a network so small.
/// Conjugate gradients are each task's own too: they end where its residual is small enough, or its Hessian is
/// seen not to be positive, whatever the others do.
template <Vector V>
class TaskPhases final : public Estimator<V> {
 public:
  /// Null where learner, options or device ask for what is not here. The tasks are read where they are.
  static std::unique_ptr<TaskPhases> made_for(const Learner& learner, const MetaOptions& resolved,
                                              const Tasks& tasks);

  std::string_view name() const override { return "implicit-cg"; }
  /// At what is prepared, in a row.
  Estimate<V> estimate(const V& prepared, const Warm<V>& warm) override;
  /// ‖∂φ L_in‖ where the last one's phase 1 ended.
  double residual() const { return ended_; }
  V initial_phi() const override;
  V initial_theta() const override;

 private:
  using S = typename Space<V>::Scalar;

  TaskPhases(const Learner& learner, const MetaOptions& resolved, const Tasks& tasks);
  void run(const Tensor& center, const Tensor& allowed);

  const Tasks tasks_;
  std::vector<std::ptrdiff_t> sizes_;  // of the layers, inputs and outputs among them
  std::int64_t parameters_, strengths_;
  const StepLimits limits_;
  const long products_;
  const double rate_, tolerance_;
  const bool taskwise_;
  // Of each task; the derivatives are of each group of tasks.
  Tensor phi_, pi_, loss_, residual_, left_, by_center_, by_allowed_, room_;
  double ended_ = unknown;
};

extern template class TaskPhases<Tensor>;
extern template class TaskPhases<torch::SingleTensor>;

}  // namespace bilevel::learning
