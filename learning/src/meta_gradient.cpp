#include "meta_gradient.hpp"

#include <cmath>

#include <torch/csrc/autograd/autograd.h>

#include <bilevel/torch/algorithms.hpp>

namespace bilevel::learning {

MetaGradient::MetaGradient(const Learner& learner, const MetaOptions& resolved, const Tasks& tasks,
                           const Tensor& theta)
    : learner_(learner),
      o_(resolved),
      tasks_{tasks.support_x.clone(), tasks.support_y.clone(), tasks.query_x.clone(), tasks.query_y.clone()},
      shapes_(learner.theta_shapes()) {
  prepare(theta, false);
  problem_ = std::make_unique<torch::Losses<SingleTensor>>(
      prepared_adaptation<SingleTensor>(learner_, tasks_, prepared_, {.graphs = torch::Graphs::whole}));
  fast_ = method<SingleTensor>(*problem_, false);
  phases_ = TaskPhases<SingleTensor>::made_for(learner_, o_, tasks_);
}

/// Whether the method wants tasks settled and asks nothing about the way there.
bool MetaGradient::settles() const {
  const EstimatorChoice choice = estimator_named(o_.estimator);
  return !nudges(choice) && !differentiates_steps(choice);
}

template <Vector V>
MetaGradient::Method<V> MetaGradient::method(Problem<V>& problem, bool certificate, long number) const {
  Method<V> m;
  m.inner = make_adaptation<V>(o_.adaptation, problem, tasks_.size());
  EstimatorOptions told{.beta = o_.beta, .seed = o_.seed + 7919 * static_cast<std::uint64_t>(number)};
  told.adjoint.relative_tolerance = o_.adjoint_tolerance;
  told.adjoint.max_iterations = o_.adjoint_steps;
  told.certificate.enabled = certificate;
  EstimatorChoice choice = with_options(estimator_named(o_.estimator), told);
  // What differentiates steps takes those of the inner solver.
  std::visit(
      [&](auto& options) {
        if constexpr (requires { options.run.steps; }) {
          options.run.steps = o_.adaptation.inner_steps;
          options.step = inner_choice(o_.adaptation);
        }
      },
      choice);
  m.estimator = make_estimator<V>(choice, problem, *m.inner);
  return m;
}

Tensors MetaGradient::views(const Tensor& theta) const {
  return parts_of(theta, shapes_);
}

SingleTensor MetaGradient::prepare(const Tensor& theta, bool with_graph) {
  leaves_ = views(theta);
  const at::AutoGradMode recorded(with_graph);
  if (with_graph)
    for (Tensor& each : leaves_) each = each.detach().set_requires_grad(true);
  prepared_ = learner_.prepare(leaves_, tasks_);
  const at::NoGradGuard guard;
  return SingleTensor(in_a_row(prepared_));
}

Estimate<SingleTensor> MetaGradient::estimate(const Tensor& theta, long number) {
  const SingleTensor at = prepare(theta, true);
  // What draws begins anew at every step, so that a run that is taken up draws the same.
  if (o_.estimator == "ep-random-sign") fast_ = method<SingleTensor>(*problem_, false, number);
  Estimate<SingleTensor> e = (phases_ ? static_cast<Estimator<SingleTensor>&>(*phases_) : *fast_.estimator).estimate(at, {});
  // From what adaptation reads to θ: ∇θ = (∂prepared/∂θ)ᵀ·∇.
  Tensors outputs, weights;
  const Tensors slopes = problem_->theta_list(e.gradient);
  for (std::size_t i = 0; i < prepared_.size(); ++i)
    if (prepared_[i].requires_grad()) {
      outputs.push_back(prepared_[i]);
      weights.push_back(slopes[i]);
    }
  const Tensors back = ::torch::autograd::grad(outputs, leaves_, weights);
  e.gradient = SingleTensor(in_a_row(back));
  prepared_.clear();
  return e;
}

Certificate MetaGradient::certify(const Tensor& theta, const Estimate<SingleTensor>& estimate) {
  if (!exact_) {
    exact_tasks_ = tasks_.to(at::kDouble, tasks_.support_x.device());
    torch::LossesOptions told{.look_first = false, .graphs = torch::Graphs::none};
    // Of the constants of a convex learner the certificate takes μ, the regulariser's. That of ∂φ L_out holds
    // for any φ, where no picture is told yet: hundreds of times what is measured at the settled one.
    if (learner_.convex())
      told.constants = [](const Tensor&, const Tensor&, double) { return Constants{.mu = 1}; };
    exact_ = std::make_unique<torch::Losses<Tensor>>(
        adaptation<Tensor>(learner_, exact_tasks_, views(theta.to(at::kDouble)), std::move(told)));
  }
  exact_tasks_.write(tasks_);
  Method<Tensor> m = method<Tensor>(*exact_, true);
  Warm<Tensor> from;
  if (settles()) {
    // The state that was used, whatever steps led there.
    from.phi = estimate.phi.tensor.to(at::kDouble);
    m.inner->stay();
  }
  const Estimate<Tensor> e = m.estimator->estimate(theta.to(at::kDouble), from);
  const Tensor& exact = e.gradient;
  const double moved = norm(Tensor(estimate.gradient.tensor.to(at::kDouble) - exact));
  Certificate c = e.certificate;
  c.bound += moved;
  if (c.kind == Kind::rigorous) c.kind = Kind::estimated;
  c.judge(norm(estimate.gradient), 0, succeeded(e.status));
  return c;
}

Solution<SingleTensor> MetaGradient::adapt(const Tensor& theta) {
  return fast_.inner->solve(prepare(theta, false), 0, problem_->initial_phi());
}

Tensor MetaGradient::answers(const SingleTensor& phi) {
  const at::NoGradGuard guard;
  return learner_.answers(problem_->phi_list(phi)[0], prepared_, tasks_);
}

}  // namespace bilevel::learning
