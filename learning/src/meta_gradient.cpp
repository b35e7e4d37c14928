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
  fast_ = method(0);
  phases_ = TaskPhases<SingleTensor>::made_for(learner_, o_, tasks_);
}

MetaGradient::Method MetaGradient::method(long number) const {
  Method m;
  m.inner = make_adaptation<SingleTensor>(o_.adaptation, *problem_, tasks_.size());
  EstimatorOptions told{.beta = o_.beta, .seed = o_.seed + 7919 * static_cast<std::uint64_t>(number)};
  told.adjoint.relative_tolerance = o_.adjoint_tolerance;
  told.adjoint.max_iterations = o_.adjoint_steps;
  told.certificate.enabled = false;
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
  m.estimator =
      make_estimator<SingleTensor>(choice, static_cast<Problem<SingleTensor>&>(*problem_), *m.inner);
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
  if (phases_) return phases_->estimate(SingleTensor(theta), {});
  const SingleTensor at = prepare(theta, true);
  // What draws begins anew at every step, so that a run that is taken up draws the same.
  if (o_.estimator == "ep-random-sign") fast_ = method(number);
  Estimate<SingleTensor> e = fast_.estimator->estimate(at, {});
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

MetaGradient::Beside MetaGradient::beside_reference(const Tensor& theta, const Estimate<SingleTensor>& used) {
  constexpr double tight = 1e-9, first = 0.1;
  constexpr long most_steps = 3000;
  const Tasks tasks = tasks_.to(at::kDouble, tasks_.support_x.device());
  const double tolerance = tight * std::sqrt(static_cast<double>(tasks.size()));
  const Tensor exact_theta = theta.to(at::kDouble);
  Beside b;
  if (!all_finite(used.phi) || !all_finite(used.gradient)) {
    b.reference.gradient = at::full_like(exact_theta, unknown);
    b.settled = b.certificate.reason = "the tasks' adaptation, or the gradient there, did not end in numbers";
    return b;
  }
  Warm<Tensor> from;
  {
    const Tensors prepared = learner_.prepare(views(exact_theta), tasks);
    auto quick = prepared_adaptation<Tensor>(learner_, tasks, prepared, {.look_first = false});
    quick.obey(stop_);
    TaskwiseLbfgs<Tensor> settling(quick, tasks.size(), first,
                                   {.steps = most_steps, .tolerance = tolerance, .look_every = 4});
    Solution<Tensor> settled = settling.solve(quick.initial_theta(), 0, used.phi.tensor.to(at::kDouble));
    b.settled = settled.message;
    from.phi = std::move(settled.phi);
  }
  torch::LossesOptions told{.look_first = false};
  // Of the constants of a convex learner the certificate takes μ, the regulariser's. That of ∂φ L_out holds
  // for any φ, where no picture is told yet: hundreds of times what is measured at the settled one.
  if (learner_.convex())
    told.constants = [](const Tensor&, const Tensor&, double) { return Constants{.mu = 1}; };
  auto problem = adaptation<Tensor>(learner_, tasks, views(exact_theta), std::move(told));
  problem.obey(stop_);
  TaskwiseLbfgs<Tensor> staying(problem, tasks.size(), first, {.steps = 0, .tolerance = 10 * tolerance});
  // Not conjugate gradients: where the inner loss is not convex they end at the first direction that is not.
  EstimatorOptions options;
  options.adjoint.relative_tolerance = 1e-7;
  options.adjoint.max_iterations = 5000;
  b.reference =
      make_estimator<Tensor>("implicit-minres", static_cast<Problem<Tensor>&>(problem), staying, options)
          ->estimate(exact_theta, from);
  const Tensor ours = used.gradient.tensor.to(at::kDouble);
  b.distance = norm(Tensor(ours - b.reference.gradient));
  b.certificate = b.reference.certificate;
  b.certificate.bound += b.distance;
  if (b.certificate.kind == Kind::rigorous) b.certificate.kind = Kind::estimated;
  if (std::isfinite(b.certificate.bound))
    b.certificate.reason +=
        fmt::format("; {:.3g} of the bound lie between the gradient and its reference", b.distance);
  b.certificate.judge(norm(ours), 0, succeeded(b.reference.status));
  return b;
}

Solution<SingleTensor> MetaGradient::adapt(const Tensor& theta) {
  return fast_.inner->solve(prepare(theta, false), 0, problem_->initial_phi());
}

Tensor MetaGradient::answers(const SingleTensor& phi) {
  const at::NoGradGuard guard;
  return learner_.answers(problem_->phi_list(phi)[0], prepared_, tasks_);
}

}  // namespace bilevel::learning
