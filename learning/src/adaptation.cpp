#include <bilevel/learning/adaptation.hpp>

#include <cmath>

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

void require_tasks(Index size, long tasks, double first) {
  Violations v("adaptation");
  v.require(tasks >= 1 && size % tasks == 0, "tasks", tasks,
            fmt::format("must divide the {} numbers of phi", size));
  v.positive("first", first).throw_if_any();
}

/// Of every task: tasks × 1.
Tensor dots(const Tensor& a, const Tensor& b) {
  return (a * b).sum(1, true);
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
UnwatchedSteps<V>::UnwatchedSteps(Problem<V>& problem, const StepLimits& limits)
    : problem_(problem),
      limits_(limits),
      nudged_(problem),
      state_(problem.initial_phi()),
      nudge_(Space<V>::zeros_like(state_.phi)) {
  Violations("adaptation")
      .at_least("steps", limits.steps, 0)
      .not_negative("tolerance", limits.tolerance)
      .at_least("look_every", limits.look_every, 0)
      .throw_if_any();
}

template <Vector V>
Solution<V> UnwatchedSteps<V>::solve(const V& theta, double beta, const V& start) {
  Stopwatch watch;
  require_shapes<V>(problem_, &start, &theta, this->name());
  nudged_.set(theta, beta);
  nudged_.cost() = {};
  state_.restart(start);
  std::optional<Stop> stop = begin(nudged_, state_);
  const auto may_end = [&] {
    if (limits_.look_every == 0 || state_.iteration % limits_.look_every != 0) return false;
    const double left = norm(state_.gradient);
    return left <= limits_.tolerance || !std::isfinite(left);
  };
  while (!stop && state_.iteration < limits_.steps) {
    if (const auto why = stop_wanted(problem_.stop_token())) {
      stop = Stop{*why, std::string(sentence(*why))};
      break;
    }
    problem_.residual(state_.phi, theta, state_.gradient);
    if (beta != 0) {
      problem_.outer(state_.phi, theta, {.phi = &nudge_});
      Space<V>::axpy(beta, nudge_, state_.gradient);
    }
    if (may_end()) break;
    stop = advance(nudged_, state_);
    ++state_.iteration;
  }
  state_.evaluated = false;
  if (!stop) stop = evaluate(nudged_, state_);
  Solution<V> solution;
  solution.phi = duplicate(state_.phi);
  solution.value = state_.value;
  solution.residual_norm = state_.gradient_norm;
  solution.tolerance = limits_.tolerance;
  solution.iterations = state_.iteration;
  const bool settled = !stop && state_.gradient_norm <= limits_.tolerance;
  solution.status = stop ? stop->status : settled ? Status::converged : Status::iteration_limit;
  solution.message =
      stop ? stop->message
           : fmt::format("{} steps; value {:.6g}, gradient norm {:.3g} (settled at {:.3g})", state_.iteration,
                         state_.value, state_.gradient_norm, limits_.tolerance);
  solution.cost = nudged_.cost();
  solution.cost.inner_gradients += state_.iteration;
  if (beta != 0) solution.cost.outer_gradients += state_.iteration;
  solution.cost.bytes = bytes_of(state_.phi) * (3 + memory());
  solution.cost.seconds_inner = watch.seconds();
  return solution;
}

template <Vector V>
FixedSteps<V>::FixedSteps(Problem<V>& problem, const InnerChoice& step, const StepLimits& limits)
    : UnwatchedSteps<V>(problem, limits), step_(make_step<V>(step)) {
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
TaskwiseDescent<V>::TaskwiseDescent(Problem<V>& problem, long tasks, double first, const StepLimits& limits)
    : UnwatchedSteps<V>(problem, limits), tasks_(tasks), first_(first) {
  require_tasks(Space<V>::size(problem.initial_phi()), tasks, first);
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
    const Tensor wanted =
        at::where(bend > 0, at::where(near < lengths_agree * far, near, far), 1.5 * length_);
    length_ = at::minimum(wanted, length_growth * length_).clamp_max(1);
    gradient_.copy_(gradient);
  }
  moved_ = -length_ * gradient;
  phi.add_(moved_);
  return {};
}

template <Vector V>
TaskwiseLbfgs<V>::TaskwiseLbfgs(Problem<V>& problem, long tasks, double first, const StepLimits& limits)
    : UnwatchedSteps<V>(problem, limits), tasks_(tasks), first_(first) {
  require_tasks(Space<V>::size(problem.initial_phi()), tasks, first);
}

template <Vector V>
std::optional<Stop> TaskwiseLbfgs<V>::begin(Nudged<V>&, State<V>&) {
  pairs_.clear();
  scale_ = moved_ = gradient_ = Tensor();
  return {};
}

/// −H·gradient by the two loops over what is remembered.
template <Vector V>
Tensor TaskwiseLbfgs<V>::direction(const Tensor& gradient) const {
  Tensor way = gradient.neg();
  Tensors shares(pairs_.size());
  for (std::size_t i = pairs_.size(); i-- > 0;) {
    shares[i] = dots(pairs_[i].moved, way).mul_(pairs_[i].inverse);
    way.addcmul_(pairs_[i].turned, shares[i], -1);
  }
  way.mul_(scale_);
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    way.addcmul_(pairs_[i].moved, shares[i] - dots(pairs_[i].turned, way).mul_(pairs_[i].inverse));
  return way;
}

template <Vector V>
std::optional<Stop> TaskwiseLbfgs<V>::advance(Nudged<V>&, State<V>& state) {
  const at::NoGradGuard guard;
  Tensor phi = torch::tensor_of(state.phi).view({tasks_, -1});
  const Tensor gradient = torch::tensor_of(state.gradient).view({tasks_, -1});
  if (!moved_.defined()) {
    moved_ = gradient * (-first_ * gradient.norm(2, {1}, true).clamp_min(1).reciprocal());
    scale_ = at::ones_like(moved_.narrow(1, 0, 1));
  } else {
    constexpr double least = 1e-10;
    Tensor turned = gradient - gradient_;
    const Tensor bend = dots(moved_, turned), square = dots(turned, turned);
    const Tensor seen = bend > least * dots(moved_, moved_);
    scale_ = at::where(seen, bend / square, scale_);
    if (pairs_.size() == most_pairs) pairs_.erase(pairs_.begin());
    pairs_.push_back({moved_, std::move(turned), at::where(seen, bend.reciprocal(), at::zeros_like(bend))});
    const Tensor way = direction(gradient), length = moved_.norm(2, {1}, true);
    const Tensor capped =
        way * (length_growth * length / way.norm(2, {1}, true).clamp_min(1e-30)).clamp_max(1);
    // The trapezoidal rule of the slopes at both ends of the last step, bend apart: has the loss risen on it?
    const Tensor slope = dots(gradient, moved_);
    const Tensor risen = seen.logical_and(2 * slope > bend);
    moved_ = at::where(risen, moved_ * (-slope / bend).clamp_min(-1), capped);
  }
  gradient_ = gradient.clone();
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
template class TaskwiseLbfgs<Tensor>;
template class TaskwiseLbfgs<torch::SingleTensor>;

}  // namespace bilevel::learning
