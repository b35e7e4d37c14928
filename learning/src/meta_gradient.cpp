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
  fast_ = method(*problem_, false);
  phases_ = TaskPhases<SingleTensor>::made_for(learner_, o_, tasks_);
}

MetaGradient::Method MetaGradient::method(torch::Losses<SingleTensor>& problem, bool certificate) const {
  Method m;
  m.inner = make_adaptation(o_.adaptation, problem, tasks_.size());
  EstimatorOptions told{.beta = o_.beta, .seed = o_.seed};
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
  m.estimator = make_estimator<SingleTensor>(choice, static_cast<Problem<SingleTensor>&>(problem), *m.inner);
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

Estimate<SingleTensor> MetaGradient::estimate(const Tensor& theta) {
  if (phases_) return phases_->estimate(SingleTensor(theta), {});
  const SingleTensor at = prepare(theta, true);
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

Estimate<SingleTensor> MetaGradient::certified(const Tensor& theta) {
  if (!certifying_.estimator) {
    whole_ = std::make_unique<torch::Losses<SingleTensor>>(adaptation<SingleTensor>(
        learner_, tasks_, views(theta), {.look_first = false, .graphs = torch::Graphs::none}));
    certifying_ = method(*whole_, true);
  }
  return certifying_.estimator->estimate(SingleTensor(theta), {});
}

Solution<SingleTensor> MetaGradient::adapt(const Tensor& theta) {
  return fast_.inner->solve(prepare(theta, false), 0, problem_->initial_phi());
}

Tensor MetaGradient::answers(const SingleTensor& phi) {
  const at::NoGradGuard guard;
  return learner_.answers(problem_->phi_list(phi)[0], prepared_, tasks_);
}

}  // namespace bilevel::learning
