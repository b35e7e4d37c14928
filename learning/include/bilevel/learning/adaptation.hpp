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

/// Phase 1 as a fixed number of steps without a look at any number on the way: nothing waits for a device.
/// What became of it is measured at the end.
template <Vector V>
class UnwatchedSteps : public InnerSolver<V> {
 public:
  Solution<V> solve(const V& theta, double beta, const V& start) final;
  void set_tolerance(double tolerance) final { tolerance_ = tolerance; }
  /// ‖∂φ(L_in + β·L_out)‖ where the last solve ended.
  double residual() const { return state_.gradient_norm; }

 protected:
  /// The problem must outlive it.
  UnwatchedSteps(Problem<V>& problem, long steps, double tolerance);
  virtual std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) = 0;
  /// From one state to the next; the gradient is that at the state.
  virtual std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) = 0;
  virtual std::size_t memory() const = 0;  ///< vectors of its own

 private:
  Problem<V>& problem_;
  long steps_;
  double tolerance_;
  Nudged<V> nudged_;
  State<V> state_;
  V nudge_;
};

/// By a step that can be differentiated: gradient-descent, heavy-ball, nesterov, adam.
template <Vector V>
class FixedSteps final : public UnwatchedSteps<V> {
 public:
  /// Throws InvalidInput for a step that searches.
  FixedSteps(Problem<V>& problem, const InnerChoice& step, long steps, double tolerance);
  std::string_view name() const override { return step_->name(); }

 private:
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override {
    return step_->advance(nudged, state);
  }
  std::size_t memory() const override { return 5; }

  std::unique_ptr<Step<V>> step_;
};

/// Shares of lengths of Barzilai and Borwein: below the first they disagree; a step is at most so many times
/// the last.
inline constexpr double lengths_agree = 0.5, length_growth = 10;

/// By gradient descent in which each task has a step length of its own, that of Barzilai and Borwein: with s
/// the last movement and y that of the gradient, s·s/s·y where the two lengths agree and y·s/y·y where they
/// do not (Zhou, Gao and Dai 2006). L_in is a sum over tasks and L_out too, so that their Hessians have a
/// block for each.
template <Vector V>
class TaskwiseDescent final : public UnwatchedSteps<V> {
 public:
  /// φ consists of so many tasks of one size, one after the other. `first` is the most that a first step may
  /// be, in lengths of the gradient.
  TaskwiseDescent(Problem<V>& problem, long tasks, long steps, double first, double tolerance);
  std::string_view name() const override { return "barzilai-borwein"; }

 private:
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::size_t memory() const override { return 3; }

  long tasks_;
  double first_;
  Tensor length_, moved_, gradient_;  // of the last step: tasks × 1, tasks × numbers, tasks × numbers
};

extern template class FixedSteps<Tensor>;
extern template class FixedSteps<torch::SingleTensor>;
extern template class TaskwiseDescent<Tensor>;
extern template class TaskwiseDescent<torch::SingleTensor>;

}  // namespace bilevel::learning
