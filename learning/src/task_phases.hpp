#pragma once

#include <memory>

#include <bilevel/gradient/estimator.hpp>
#include <bilevel/learning/adaptation.hpp>
#include <bilevel/learning/meta_learn.hpp>

#include "kernels/phases.hpp"

namespace bilevel::learning {

/// `implicit-cg` of a center of layers, as its tasks have it: they share nothing but what is prepared, so
/// each goes through both phases on its own: in a lane of a processor's vectors, or a block of a device
/// (kernels/phases.hpp). What a general estimator asks of LibTorch's vectors, in launches on a device, takes
/// longer than all arithmetic of a network so small.
/// Conjugate gradients are each task's own too: they end where its residual is small enough, or its Hessian
/// is seen not to be positive, whatever the others do.
template <Vector V>
class TaskPhases final : public Estimator<V> {
 public:
  /// Null where learner, options or device ask for what is not here. The tasks are read where they are.
  static std::unique_ptr<TaskPhases> made_for(const Learner& learner, const MetaOptions& resolved,
                                              const Tasks& tasks);

  std::string_view name() const override { return "implicit-cg"; }
  /// ∇θ, of θ in a row. π is not kept.
  Estimate<V> estimate(const V& theta, const Warm<V>& warm) override;
  /// ‖∂φ L_in‖ where the last one's phase 1 ended.
  double residual() const { return ended_; }
  V initial_phi() const override;
  V initial_theta() const override;

 private:
  using S = typename Space<V>::Scalar;

  TaskPhases(const Learner& learner, const MetaOptions& resolved, const Tasks& tasks);
  bool fits() const;
  Tensor spread(const Tensor& strengths) const;
  Tensor gather(const Tensor& weights) const;
  void run();
  void run_on_device();
  kernels::PhaseTasks<S> group(std::int64_t index, std::int64_t lanes) const;

  const Tasks tasks_;
  const std::int64_t parameters_, strengths_;
  std::vector<std::int64_t> parts_;  // numbers of each W and b
  kernels::Phases<S> phases_{};
  // Of each task; the derivatives are of each group of tasks.
  Tensor phi_, loss_, residual_, left_, by_center_, by_allowed_, room_;
  double tolerance_ = 0;  // of the inner gradient of all tasks
  double ended_ = unknown;
};

extern template class TaskPhases<Tensor>;
extern template class TaskPhases<torch::SingleTensor>;

}  // namespace bilevel::learning
