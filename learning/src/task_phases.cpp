#include "task_phases.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#ifdef BILEVEL_TORCH_KERNELS
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels/device_phases.hpp"
#endif

#include <bilevel/torch/algorithms.hpp>

namespace bilevel::learning {

namespace {

/// Bytes that a group of tasks may take: beyond the caches, vectors that hold a task in each lane lose to
/// products of matrices.
constexpr long most_room = 4 << 20;

/// Groups, a third of a millisecond each, that are worth another thread: one that is kept waiting for a busy
/// core keeps all waiting, and for longer.
constexpr int worth_a_thread = 4;

#ifdef BILEVEL_TORCH_KERNELS
constexpr long device_room = kernels::most_device_room;
#else
constexpr long device_room = 0;
#endif

/// Of layers of these sizes; none where there are more than the loops know.
template <class S>
void lay_out(const std::vector<std::int64_t>& sizes, kernels::Phases<S>& p) {
  if (sizes.size() > kernels::most_layers + 1) return;
  for (std::size_t l = 0; l + 1 < sizes.size(); ++l) {
    const int in = static_cast<int>(sizes[l]), out = static_cast<int>(sizes[l + 1]);
    p.layer[p.layers++] = {in, out, p.parameters, p.units};
    p.parameters += out * (in + 1);
    p.units += out;
  }
}

/// Whether there are loops for such tasks, if they are small enough.
bool has_loops(const MetaOptions& o, const TaskForm& form) {
  return o.learner.kind == LearnerKind::center && !form.pictures() && !form.classes &&
         o.learner.unit == Unit::tanh && o.estimator == "implicit-cg" &&
         (o.adaptation.inner == "barzilai-borwein" || o.adaptation.inner == "gradient-descent");
}

}  // namespace

template <Vector V>
std::unique_ptr<TaskPhases<V>> TaskPhases<V>::made_for(const Learner& learner, const MetaOptions& o,
                                                       const Tasks& tasks) {
  if (!has_loops(o, learner.form())) return {};
  for (const Tensor* each : {&tasks.support_x, &tasks.support_y, &tasks.query_x, &tasks.query_y})
    if (each->scalar_type() != Space<V>::type || !each->is_contiguous()) return {};
  std::unique_ptr<TaskPhases> made(new TaskPhases(learner, o, tasks));
  return made->fits() ? std::move(made) : nullptr;
}

template <Vector V>
TaskPhases<V>::TaskPhases(const Learner& learner, const MetaOptions& o, const Tasks& tasks)
    : tasks_(tasks),
      parameters_(learner.adapted_parameters()),
      strengths_(learner.shared_parameters() - parameters_) {
  std::vector<std::int64_t> sizes{tasks.support_x.flatten(2).size(2)};
  sizes.insert(sizes.end(), learner.options().layers.begin(), learner.options().layers.end());
  sizes.push_back(learner.form().outputs);
  kernels::Phases<S>& p = phases_;
  p.support = static_cast<int>(tasks.support_x.size(1));
  p.query = static_cast<int>(tasks.query_x.size(1));
  const StepLimits limits = limits_of(o.adaptation, 1);
  p.steps = static_cast<int>(limits.steps);
  p.settled = static_cast<S>(limits.look_every > 0 ? limits.tolerance : 0);
  tolerance_ = limits.tolerance * std::sqrt(static_cast<double>(tasks.size()));
  p.rate = static_cast<S>(o.adaptation.inner_rate);
  p.taskwise = o.adaptation.inner == "barzilai-borwein";
  p.agree = static_cast<S>(lengths_agree);
  p.growth = static_cast<S>(length_growth);
  p.products = static_cast<int>(o.adjoint_steps);
  p.tolerance = static_cast<S>(o.adjoint_tolerance);
  p.level = static_cast<S>(4 * std::sqrt(static_cast<double>(parameters_)) * unit_roundoff<V>());
  p.share = static_cast<S>(1 / static_cast<double>(tasks.size()));
  if (parameters_ <= most_room) lay_out(sizes, p);
  if (!fits()) return;
  const auto options = tasks.support_x.options();
  const bool host = options.device().is_cpu();
  const std::int64_t count = tasks.size(), lanes = host ? kernels::phase_loops<S>().lanes : 1,
                     groups = (count + lanes - 1) / lanes;
  for (int l = 0; l < p.layers; ++l) {
    const auto [in, out, weights, units] = p.layer[l];
    parts_.insert(parts_.end(), {std::int64_t{out} * in, out});
  }
  room_ = at::empty({groups, host ? lanes * kernels::phase_room(p) : 0}, options);
  phi_ = at::empty({count, parameters_}, options);
  for (Tensor* each : {&loss_, &residual_, &left_}) *each = at::empty({count}, options);
  for (Tensor* each : {&by_center_, &by_allowed_}) *each = at::empty({groups, parameters_}, options);
}

template <Vector V>
bool TaskPhases<V>::fits() const {
  if (phases_.layers == 0) return false;
  const long bytes = kernels::phase_room(phases_) * static_cast<long>(sizeof(S));
  if (tasks_.support_x.is_cuda()) return bytes <= device_room;
  return tasks_.support_x.device().is_cpu() && bytes * kernels::phase_loops<S>().lanes <= most_room;
}

template <Vector V>
V TaskPhases<V>::initial_phi() const {
  return V(at::zeros({phi_.numel()}, phi_.options()));
}
template <Vector V>
V TaskPhases<V>::initial_theta() const {
  return V(at::zeros({parameters_ + strengths_}, phi_.options()));
}

template <Vector V>
kernels::PhaseTasks<typename TaskPhases<V>::S> TaskPhases<V>::group(std::int64_t index,
                                                                    std::int64_t lanes) const {
  const std::int64_t first = index * lanes;
  const auto from = [](const Tensor& all, std::int64_t row) {
    return all.data_ptr<S>() + row * all.stride(0);
  };
  return {.count = static_cast<int>(std::min(lanes, tasks_.size() - first)),
          .support_x = from(tasks_.support_x, first),
          .support_y = from(tasks_.support_y, first),
          .query_x = from(tasks_.query_x, first),
          .query_y = from(tasks_.query_y, first),
          .phi = from(phi_, first),
          .loss = from(loss_, first),
          .residual = from(residual_, first),
          .left = from(left_, first),
          .by_center = from(by_center_, index),
          .by_allowed = from(by_allowed_, index),
          .room = from(room_, index)};
}

/// Which tasks stand in a group follows from the lanes, so that results do not depend on the threads.
template <Vector V>
void TaskPhases<V>::run() {
  std::vector<kernels::PhaseTasks<S>> groups;
  for (std::int64_t g = 0; g < room_.size(0); ++g)
    groups.push_back(group(g, kernels::phase_loops<S>().lanes));
  const int count = static_cast<int>(groups.size());
  kernels::run_groups(phases_, groups.data(), count,
                      std::clamp(count / worth_a_thread, 1, at::get_num_threads()));
}

template <Vector V>
void TaskPhases<V>::run_on_device() {
#ifdef BILEVEL_TORCH_KERNELS
  const c10::DeviceGuard guard(phi_.device());
  const auto stream = c10::cuda::getCurrentCUDAStream(phi_.get_device());
  if (const char* const refused =
          kernels::launch_phases<S>(phases_, group(0, 1), static_cast<int>(tasks_.size()), stream.stream()))
    throw std::runtime_error(
        fmt::format("both phases of {} tasks on the device: {}", tasks_.size(), refused));
#endif
}

/// One number a weight of what is one a strength: for all, for each W and b, or each weight's own.
template <Vector V>
Tensor TaskPhases<V>::spread(const Tensor& strengths) const {
  if (strengths_ == 1) return strengths.expand({parameters_}).contiguous();
  if (strengths_ == parameters_) return strengths;
  Tensors parts;
  for (const std::int64_t size : parts_)
    parts.push_back(strengths.narrow(0, static_cast<std::int64_t>(parts.size()), 1).expand({size}));
  return at::cat(parts);
}

/// The other way: sums.
template <Vector V>
Tensor TaskPhases<V>::gather(const Tensor& weights) const {
  if (strengths_ == 1) return weights.sum(0, true);
  if (strengths_ == parameters_) return weights;
  Tensors sums;
  for (const Tensor& part : weights.split_with_sizes(parts_)) sums.push_back(part.sum(0, true));
  return at::cat(sums);
}

template <Vector V>
Estimate<V> TaskPhases<V>::estimate(const V& theta, const Warm<V>&) {
  const at::NoGradGuard guard;
  Stopwatch watch;
  const Tensor row = torch::tensor_of(theta).contiguous();
  // w = ω + φ/√λ.
  const Tensor allowed = spread(row.narrow(0, parameters_, strengths_).mul(-0.5).exp_());
  phases_.center = row.data_ptr<S>();
  phases_.allowed = allowed.data_ptr<S>();
  phi_ = at::empty_like(phi_);
  phi_.is_cpu() ? run() : run_on_device();

  Estimate<V> e;
  e.gradient = V(at::cat({by_center_.sum(0), gather(by_allowed_.sum(0).mul_(allowed).mul_(-0.5))}));
  // Fetched together: each fetch waits for a device.
  const Tensor said = at::stack({loss_.sum(0, false, at::kDouble), residual_.sum(0, false, at::kDouble),
                                 left_.max().to(at::kDouble)})
                          .cpu();
  const double* const numbers = said.data_ptr<double>();
  ended_ = std::sqrt(numbers[1]);
  const double left = std::sqrt(numbers[2]);
  e.outer_value = numbers[0];
  e.phi = V(phi_.flatten());
  e.certificate.inner_residual = ended_;
  e.inner_iterations = phases_.steps;
  e.adjoint_iterations = phases_.products;
  const bool finite = std::isfinite(e.outer_value) && std::isfinite(ended_);
  e.inner_status = !finite                 ? Status::not_finite
                   : ended_ <= tolerance_ ? Status::converged
                                          : Status::iteration_limit;
  e.adjoint_status = !finite || !std::isfinite(left) ? Status::not_finite
                     : left <= phases_.tolerance     ? Status::converged
                                                     : Status::iteration_limit;
  e.status = succeeded(e.inner_status) ? e.adjoint_status : e.inner_status;
  e.message =
      fmt::format("at most {} steps a task; inner gradient norm {:.3g}, relative residual of phase 2 at most {:.3g}",
                  phases_.steps, ended_, left);
  e.cost.inner_gradients = phases_.steps + 1;
  e.cost.outer_gradients = e.cost.linearisations = 1;
  e.cost.hessian_products = phases_.products;
  e.cost.cross_products = 1;
  e.cost.bytes = sizeof(S) * static_cast<std::size_t>(room_.numel() + 3 * phi_.numel());
  e.cost.seconds_inner = watch.seconds();
  return e;
}

template class TaskPhases<Tensor>;
template class TaskPhases<torch::SingleTensor>;

}  // namespace bilevel::learning
