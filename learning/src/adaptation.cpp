#include <bilevel/learning/adaptation.hpp>

#include <bilevel/impl.hpp>
#include <bilevel/torch/algorithms.hpp>

#include "in_a_row.hpp"

namespace bilevel::learning {

namespace {

template <Vector V>
torch::Start begin(const Learner& learner, const Tasks& tasks, const Tensors& theta) {
  const auto like = tasks.support_x.options();
  Tensors own;
  for (const Tensor& each : theta) own.push_back(each.detach().to(like));
  return {Tensors{at::zeros(learner.phi_shape(tasks.size()), like)}, own};
}

}  // namespace

template <Vector V>
torch::Losses<V> adaptation(const Learner& learner, const Tasks& tasks, const Tensors& theta,
                            torch::LossesOptions options) {
  return torch::Losses<V>(
      [=](const Tensors& phi, const Tensors& at) {
        return learner.inner(phi[0], learner.prepare(at, tasks), tasks);
      },
      [=](const Tensors& phi, const Tensors& at) {
        return learner.outer(phi[0], learner.prepare(at, tasks), tasks);
      },
      begin<V>(learner, tasks, theta), std::move(options));
}

template <Vector V>
torch::Losses<V> prepared_adaptation(const Learner& learner, const Tasks& tasks, const Tensors& prepared,
                                     torch::LossesOptions options) {
  if (learner.convex() && !options.constants) {
    options.constants = [=, shapes = shapes_of(prepared)](const Tensor& flat, const Tensor&, double) {
      return learner.constants(parts_of(flat, shapes));
    };
  }
  return torch::Losses<V>(
      [=](const Tensors& phi, const Tensors& at) { return learner.inner(phi[0], at, tasks); },
      [=](const Tensors& phi, const Tensors& at) { return learner.outer(phi[0], at, tasks); },
      begin<V>(learner, tasks, prepared), std::move(options));
}

template <Vector V>
UnwatchedSteps<V>::UnwatchedSteps(Problem<V>& problem, long steps, double tolerance)
    : problem_(problem),
      steps_(steps),
      tolerance_(tolerance),
      nudged_(problem),
      state_(problem.initial_phi()),
      nudge_(Space<V>::zeros_like(state_.phi)) {
  Violations("adaptation").at_least("steps", steps, 1).not_negative("tolerance", tolerance).throw_if_any();
}

template <Vector V>
Solution<V> UnwatchedSteps<V>::solve(const V& theta, double beta, const V& start) {
  Stopwatch watch;
  require_shapes<V>(problem_, &start, &theta, this->name());
  nudged_.set(theta, beta);
  nudged_.cost() = {};
  state_.restart(start);
  std::optional<Stop> stop = begin(nudged_, state_);
  while (!stop && state_.iteration < steps_) {
    problem_.residual(state_.phi, theta, state_.gradient);
    if (beta != 0) {
      problem_.outer(state_.phi, theta, {.phi = &nudge_});
      Space<V>::axpy(beta, nudge_, state_.gradient);
    }
    stop = advance(nudged_, state_);
    ++state_.iteration;
  }
  state_.evaluated = false;
  if (!stop) stop = evaluate(nudged_, state_);
  Solution<V> solution;
  solution.phi = duplicate(state_.phi);
  solution.value = state_.value;
  solution.residual_norm = state_.gradient_norm;
  solution.tolerance = tolerance_;
  solution.iterations = state_.iteration;
  const bool settled = !stop && state_.gradient_norm <= tolerance_;
  solution.status = stop ? stop->status : settled ? Status::converged : Status::iteration_limit;
  solution.message = stop ? stop->message
                          : fmt::format("{} steps; value {:.6g}, gradient norm {:.3g} (settled at {:.3g})",
                                        state_.iteration, state_.value, state_.gradient_norm, tolerance_);
  solution.cost = nudged_.cost();
  solution.cost.inner_gradients += state_.iteration;
  if (beta != 0) solution.cost.outer_gradients += state_.iteration;
  solution.cost.bytes = bytes_of(state_.phi) * (3 + memory());
  solution.cost.seconds_inner = watch.seconds();
  return solution;
}

template <Vector V>
FixedSteps<V>::FixedSteps(Problem<V>& problem, const InnerChoice& step, long steps, double tolerance)
    : UnwatchedSteps<V>(problem, steps, tolerance), step_(make_step<V>(step)) {
  if (!step_->differentiable())
    throw InvalidInput(fmt::format(
        "{} looks at its numbers on the way, and a fixed number of steps is taken without a look: take "
        "gradient-descent, heavy-ball, nesterov or adam",
        step_->name()));
}

template <Vector V>
std::optional<Stop> FixedSteps<V>::begin(Nudged<V>& nudged, State<V>& state) {
  step_->check(nudged, state);
  return step_->begin(nudged, state);
}

template <Vector V>
TaskwiseDescent<V>::TaskwiseDescent(Problem<V>& problem, long tasks, long steps, double first,
                                    double tolerance)
    : UnwatchedSteps<V>(problem, steps, tolerance), tasks_(tasks), first_(first) {
  const Index size = Space<V>::size(problem.initial_phi());
  Violations v("adaptation");
  v.require(tasks >= 1 && size % tasks == 0, "tasks", tasks,
            fmt::format("must divide the {} numbers of phi", size));
  v.positive("first", first).throw_if_any();
}

template <Vector V>
std::optional<Stop> TaskwiseDescent<V>::begin(Nudged<V>&, State<V>&) {
  length_ = moved_ = gradient_ = Tensor();
  return {};
}

template <Vector V>
std::optional<Stop> TaskwiseDescent<V>::advance(Nudged<V>&, State<V>& state) {
  const at::NoGradGuard guard;
  Tensor phi = torch::tensor_of(state.phi).view({tasks_, -1});
  const Tensor gradient = torch::tensor_of(state.gradient).view({tasks_, -1});
  if (!length_.defined()) {
    length_ = first_ * gradient.norm(2, {1}, true).clamp_min(1).reciprocal();
    gradient_ = gradient.clone();
  } else {
    const Tensor turned = gradient - gradient_;
    const Tensor bend = (moved_ * turned).sum(1, true);
    const Tensor far = (moved_ * moved_).sum(1, true) / bend, near = bend / (turned * turned).sum(1, true);
    // No curvature along the way, or none that is positive: a little further. Never much further at once:
    // what is known holds where it was measured. Nowhere is the loss flatter than its regulariser, whose
    // length is 1.
    const Tensor wanted = at::where(bend > 0, at::where(near < lengths_agree * far, near, far), 1.5 * length_);
    length_ = at::minimum(wanted, length_growth * length_).clamp_max(1);
    gradient_.copy_(gradient);
  }
  moved_ = -length_ * gradient;
  phi.add_(moved_);
  return {};
}

template torch::Losses<Tensor> adaptation(const Learner&, const Tasks&, const Tensors&, torch::LossesOptions);
template torch::Losses<torch::SingleTensor> adaptation(const Learner&, const Tasks&, const Tensors&,
                                                       torch::LossesOptions);
template torch::Losses<Tensor> prepared_adaptation(const Learner&, const Tasks&, const Tensors&,
                                                   torch::LossesOptions);
template torch::Losses<torch::SingleTensor> prepared_adaptation(const Learner&, const Tasks&, const Tensors&,
                                                                torch::LossesOptions);
template class FixedSteps<Tensor>;
template class FixedSteps<torch::SingleTensor>;
template class TaskwiseDescent<Tensor>;
template class TaskwiseDescent<torch::SingleTensor>;

}  // namespace bilevel::learning
