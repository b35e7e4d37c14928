#pragma once

#include <memory>
#include <vector>

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

/// How many steps phase 1 takes, and what counts as settled.
struct StepLimits {
  long steps = 0;        ///< at most; all of them where it never looks; 0: it says how settled the start is
  double tolerance = 0;  ///< of ‖∂φ(L_in + β·L_out)‖
  /// Whether it has settled is looked at once in so many steps, which then end; 0: never, and nothing waits
  /// for a device on the way.
  long look_every = 0;
};

/// Phase 1 as steps without a look at any number on the way but whether they may end. What became of it is
/// measured at the end.
template <Vector V>
class UnwatchedSteps : public InnerSolver<V> {
 public:
  Solution<V> solve(const V& theta, double beta, const V& start) final;
  void set_tolerance(double tolerance) final { limits_.tolerance = tolerance; }
  /// ‖∂φ(L_in + β·L_out)‖ where the last solve ended.
  double residual() const { return state_.gradient_norm; }

 protected:
  /// The problem must outlive it.
  UnwatchedSteps(Problem<V>& problem, const StepLimits& limits);
  virtual std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) = 0;
  /// From one state to the next; the gradient is that at the state.
  virtual std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) = 0;
  virtual std::size_t memory() const = 0;  ///< vectors of its own

 private:
  Problem<V>& problem_;
  StepLimits limits_;
  Nudged<V> nudged_;
  State<V> state_;
  V nudge_;
};

/// By a step that can be differentiated: gradient-descent, heavy-ball, nesterov, adam.
template <Vector V>
class FixedSteps final : public UnwatchedSteps<V> {
 public:
  /// Throws InvalidInput for a step that searches.
  FixedSteps(Problem<V>& problem, const InnerChoice& step, const StepLimits& limits);
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
  TaskwiseDescent(Problem<V>& problem, long tasks, double first, const StepLimits& limits);
  std::string_view name() const override { return "barzilai-borwein"; }

 private:
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::size_t memory() const override { return 3; }

  long tasks_;
  double first_;
  Tensor length_, moved_, gradient_;  // of the last step: tasks × 1, tasks × numbers, tasks × numbers
};

/// L-BFGS in which each task has memory and steps of its own (Nocedal and Wright 2006, algorithm 7.4): a task
/// of few rows bends in as many directions more than its regulariser does, and these are soon remembered. Its
/// steps are judged by slopes alone: where the two ends of one say that the loss has risen, the next goes
/// back to where the slope between them vanishes.
template <Vector V>
class TaskwiseLbfgs final : public UnwatchedSteps<V> {
 public:
  /// As of TaskwiseDescent.
  TaskwiseLbfgs(Problem<V>& problem, long tasks, double first, const StepLimits& limits);
  std::string_view name() const override { return "lbfgs"; }

 private:
  /// Of each task a scalar: tasks × 1. Vectors are tasks × numbers.
  struct Pair {
    Tensor moved, turned;  // s and y
    Tensor inverse;        // 1/s·y; 0 where that shows no curvature
  };
  std::optional<Stop> begin(Nudged<V>& nudged, State<V>& state) override;
  std::optional<Stop> advance(Nudged<V>& nudged, State<V>& state) override;
  std::size_t memory() const override { return 4 + 2 * most_pairs; }
  Tensor direction(const Tensor& gradient) const;

  static constexpr std::size_t most_pairs = 10;
  long tasks_;
  double first_;
  std::vector<Pair> pairs_;  // the newest last
  Tensor scale_;             // s·y/y·y, the first guess of the inverse Hessian
  Tensor moved_, gradient_;  // of the last step
};

extern template class FixedSteps<Tensor>;
extern template class FixedSteps<torch::SingleTensor>;
extern template class TaskwiseDescent<Tensor>;
extern template class TaskwiseDescent<torch::SingleTensor>;
extern template class TaskwiseLbfgs<Tensor>;
extern template class TaskwiseLbfgs<torch::SingleTensor>;

}  // namespace bilevel::learning
