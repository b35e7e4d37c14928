#pragma once

#include <memory>

#include <bilevel/inner/inner_solver.hpp>
#include <bilevel/inner/make_inner_solver.hpp>
#include <bilevel/learning/learner.hpp>
#include <bilevel/torch/losses.hpp>

namespace bilevel::learning {

/// A learner's losses on tasks as a bilevel problem: Start, device and type are those of the tensors. The
/// losses read `tasks` where they are: others are written into them (Tasks::write), so Graphs::whole holds.
/// With θ, or with what `prepare` makes of it in θ's place: a problem in features, which is quicker.
template <Vector V>
torch::Losses<V> adaptation(const Learner& learner, const Tasks& tasks, const Tensors& theta,
                            torch::LossesOptions options = {});
template <Vector V>
torch::Losses<V> prepared_adaptation(const Learner& learner, const Tasks& tasks, const Tensors& prepared,
                                     torch::LossesOptions options = {});

/// Phase 1 as so many plain steps (gradient-descent, heavy-ball, nesterov, adam) without a look at any number
/// on the way: nothing waits for a device. What became of it is measured at the end.
template <Vector V>
class FixedSteps final : public InnerSolver<V> {
 public:
  /// The problem must outlive it. Throws InvalidInput for a solver that searches.
  FixedSteps(Problem<V>& problem, const InnerChoice& step, long steps, double tolerance);

  std::string_view name() const override { return step_->name(); }
  Solution<V> solve(const V& theta, double beta, const V& start) override;
  void set_tolerance(double tolerance) override { tolerance_ = tolerance; }

 private:
  Problem<V>& problem_;
  std::unique_ptr<Step<V>> step_;
  long steps_;
  double tolerance_;
  Nudged<V> nudged_;
  State<V> state_;
  V nudge_;
};

extern template class FixedSteps<Tensor>;
extern template class FixedSteps<torch::SingleTensor>;

}  // namespace bilevel::learning
