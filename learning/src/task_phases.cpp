#include "task_phases.hpp"

#include <cmath>

#include <ATen/Parallel.h>

#include <bilevel/torch/algorithms.hpp>

#include "kernels/phases.hpp"
#include "layered_loss.hpp"

namespace bilevel::learning {

namespace {

/// What a group of tasks may take: beyond the caches, vectors that hold a task in each lane lose to products of
/// matrices.
constexpr std::int64_t most_room = 4 << 20;

}  // namespace

template <Vector V>
std::unique_ptr<TaskPhases<V>> TaskPhases<V>::made_for(const Learner& learner, const MetaOptions& o,
                                                       const Tasks& tasks) {
  const TaskForm& form = learner.form();
  const bool layers_of_numbers = learner.options().kind == LearnerKind::center && !form.pictures() &&
                                 !form.classes && learner.options().unit == Unit::tanh;
  const bool known = o.estimator == "implicit-cg" &&
                     (o.adaptation.inner == "barzilai-borwein" || o.adaptation.inner == "gradient-descent");
  if (!layers_of_numbers || !known || !LayeredLoss::suits(tasks.support_x)) return {};
  std::unique_ptr<TaskPhases> made(new TaskPhases(learner, o, tasks));
  if (made->room_.numel() == 0) return {};
  return made;
}

template <Vector V>
TaskPhases<V>::TaskPhases(const Learner& learner, const MetaOptions& o, const Tasks& tasks)
    : tasks_(tasks),
      parameters_(learner.adapted_parameters()),
      strengths_(learner.options().strengths == Strengths::one ? 1 : parameters_),
      limits_(limits_of(o.adaptation, 1)),
      products_(o.adjoint_steps),
      rate_(o.adaptation.inner_rate),
      tolerance_(o.adjoint_tolerance),
      taskwise_(o.adaptation.inner == "barzilai-borwein") {
  sizes_.push_back(tasks.support_x.flatten(2).size(2));
  sizes_.insert(sizes_.end(), learner.options().layers.begin(), learner.options().layers.end());
  sizes_.push_back(learner.form().outputs);
  const auto& loops = kernels::phase_loops<S>();
  kernels::Phases<S> shape{};
  shape.sizes = sizes_.data();
  shape.layers = static_cast<kernels::Count>(sizes_.size()) - 1;
  shape.support = tasks.support_x.size(1);
  shape.query = tasks.query_x.size(1);
  const std::int64_t room = loops.room(shape), count = tasks.size(),
                     groups = (count + loops.lanes - 1) / loops.lanes;
  const auto options = at::TensorOptions().dtype(Space<V>::type);
  room_ = at::empty({groups, room * static_cast<std::int64_t>(sizeof(S)) <= most_room ? room : 0}, options);
  if (room_.numel() == 0) return;
  for (Tensor* each : {&phi_, &pi_}) *each = at::empty({count, parameters_}, options);
  for (Tensor* each : {&loss_, &residual_, &left_}) *each = at::empty({count}, options);
  for (Tensor* each : {&by_center_, &by_allowed_}) *each = at::empty({groups, parameters_}, options);
}

template <Vector V>
V TaskPhases<V>::initial_phi() const {
  return V(at::zeros({phi_.numel()}, phi_.options()));
}
template <Vector V>
V TaskPhases<V>::initial_theta() const {
  return V(at::zeros({parameters_ + strengths_}, phi_.options()));
}

/// Which tasks stand in a group follows from the lanes, so that results do not depend on the threads.
template <Vector V>
void TaskPhases<V>::run(const Tensor& center, const Tensor& allowed) {
  const auto& loops = kernels::phase_loops<S>();
  const std::int64_t count = tasks_.size(), groups = room_.size(0);
  const S level = static_cast<S>(4 * std::sqrt(static_cast<double>(count * parameters_)) * unit_roundoff<V>());
  const kernels::Phases<S> phases{sizes_.data(),
                                  static_cast<kernels::Count>(sizes_.size()) - 1,
                                  tasks_.support_x.size(1),
                                  tasks_.query_x.size(1),
                                  center.data_ptr<S>(),
                                  allowed.data_ptr<S>(),
                                  limits_.steps,
                                  static_cast<S>(rate_),
                                  static_cast<S>(limits_.look_every > 0 ? limits_.tolerance : 0),
                                  taskwise_,
                                  static_cast<S>(lengths_agree),
                                  static_cast<S>(length_growth),
                                  products_,
                                  static_cast<S>(tolerance_),
                                  level,
                                  static_cast<S>(1 / static_cast<double>(count))};
  at::parallel_for(0, groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = begin; g < end; ++g) {
      const std::int64_t first = g * loops.lanes;
      const auto of_tasks = [&](const Tensor& all) { return all.data_ptr<S>() + first * all.stride(0); };
      loops.run(phases, {std::min<std::int64_t>(loops.lanes, count - first), of_tasks(tasks_.support_x),
                         of_tasks(tasks_.support_y), of_tasks(tasks_.query_x), of_tasks(tasks_.query_y),
                         of_tasks(phi_), of_tasks(pi_), of_tasks(loss_), of_tasks(residual_), of_tasks(left_),
                         by_center_.data_ptr<S>() + g * parameters_, by_allowed_.data_ptr<S>() + g * parameters_,
                         room_.data_ptr<S>() + g * room_.size(1)});
    }
  });
}

template <Vector V>
Estimate<V> TaskPhases<V>::estimate(const V& prepared, const Warm<V>&) {
  const at::NoGradGuard guard;
  Stopwatch watch;
  const Tensor row = torch::tensor_of(prepared).contiguous();
  const Tensor center = row.narrow(0, 0, parameters_), lengths = row.narrow(0, parameters_, strengths_);
  run(center, lengths.expand({parameters_}).contiguous());

  Estimate<V> e;
  const Tensor by_allowed = by_allowed_.sum(0);
  e.gradient = V(at::cat({by_center_.sum(0), strengths_ == 1 ? by_allowed.sum(0, true) : by_allowed}));
  e.outer_value = loss_.sum(0, false, at::kDouble).template item<double>();
  e.phi = V(phi_.flatten().clone());
  e.pi = V(pi_.flatten().clone());
  const double residual = ended_ = std::sqrt(residual_.sum(0, false, at::kDouble).template item<double>());
  const double left = std::sqrt(left_.max().template item<double>());
  e.certificate.inner_residual = residual;
  e.inner_iterations = limits_.steps;
  e.adjoint_iterations = products_;
  const bool finite = std::isfinite(e.outer_value) && std::isfinite(residual);
  const bool settled = residual <= limits_.tolerance * std::sqrt(static_cast<double>(tasks_.size()));
  e.inner_status = !finite ? Status::not_finite : settled ? Status::converged : Status::iteration_limit;
  e.adjoint_status = !finite              ? Status::not_finite
                     : left <= tolerance_ ? Status::converged
                                          : Status::iteration_limit;
  e.status = settled ? e.adjoint_status : e.inner_status;
  e.message = fmt::format("at most {} steps a task; inner gradient norm {:.3g}, relative residual of phase 2 at most {:.3g}",
                          limits_.steps, residual, left);
  e.cost.inner_gradients = limits_.steps + 1;
  e.cost.outer_gradients = e.cost.linearisations = 1;
  e.cost.hessian_products = products_;
  e.cost.bytes = sizeof(S) * static_cast<std::size_t>(room_.numel() + 2 * phi_.numel());
  e.cost.seconds_inner = watch.seconds();
  return e;
}

template class TaskPhases<Tensor>;
template class TaskPhases<torch::SingleTensor>;

}  // namespace bilevel::learning
