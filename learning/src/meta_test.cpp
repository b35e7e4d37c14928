#include "meta_test.hpp"

#include <algorithm>
#include <cmath>

#include <bilevel/torch/algorithms.hpp>

namespace bilevel::learning {

namespace {

constexpr std::uint64_t tests = std::uint64_t{1} << 40, shows = tests + (std::uint64_t{1} << 38),
                        probes = tests + (std::uint64_t{1} << 39);

std::uint64_t own(std::uint64_t seed, std::uint64_t number) {
  return seed * 0x9e3779b97f4a7c15ULL + number;
}

/// One number a task: the mean of squared errors, or the share of rows whose class is right.
Tensor judged(const Tensor& answers, const Tensor& targets, bool classes) {
  if (!classes) return (answers - targets).pow(2).mean(at::IntArrayRef{1, 2});
  return answers.argmax(2).eq(targets.argmax(2)).to(answers.scalar_type()).mean(1);
}

Mean mean_of(const Tensor& each, long count) {
  const Tensor host = each.narrow(0, 0, count).to(at::kDouble).cpu();
  const double mean = host.mean().item<double>();
  const double spread =
      count > 1 ? host.sub(mean).pow(2).sum().item<double>() / static_cast<double>(count - 1) : unknown;
  return {mean, std::sqrt(spread / static_cast<double>(count)), count};
}

}  // namespace

std::uint64_t training_number(std::uint64_t seed, long step) {
  return own(seed, static_cast<std::uint64_t>(step));
}
std::uint64_t test_number(std::uint64_t seed, long batch) {
  return own(seed, tests + static_cast<std::uint64_t>(batch));
}

Tested test_on(MetaGradient& adapting, const Tensor& theta, const TaskSource& source, long tasks,
               std::uint64_t seed, long first) {
  const at::NoGradGuard guard;
  const long at_once = adapting.tasks().size();
  const bool classes = source.form().classes;
  Tensors after, before;
  Tested tested;
  for (long batch = 0; batch * at_once < tasks; ++batch) {
    adapting.set_tasks(source.draw(at_once, test_number(seed, first + batch)));
    const Solution<SingleTensor> solution = adapting.adapt(theta);
    if (solution.status == Status::interrupted || solution.status == Status::time_limit) {
      tested.cut = true;
      return tested;
    }
    tested.finite &= std::isfinite(solution.residual_norm);
    const Tensor& targets = adapting.tasks().query_y;
    after.push_back(judged(adapting.answers(solution.phi), targets, classes));
    before.push_back(judged(adapting.first_answers(), targets, classes));
  }
  tested.after = mean_of(at::cat(after), tasks);
  tested.before = mean_of(at::cat(before), tasks);
  tested.finite &= std::isfinite(tested.after.value);
  return tested;
}

std::vector<ShownTask> show(const SavedLearner& learner, const TaskSource& source, std::uint64_t seed) {
  constexpr long drawn = 4;
  const long count = source.form().classes ? 1 : drawn;
  const Tasks tasks = source.draw(count, own(seed, shows));
  const Adapted answers = learner.adapt(tasks);
  const Tensor wrong_before = judged(answers.before, tasks.query_y.cpu(), source.form().classes),
               wrong_after = judged(answers.after, tasks.query_y.cpu(), source.form().classes);
  Tasks drawing = tasks;
  const bool curve = source.form().input == std::vector<std::int64_t>{1} && !source.form().classes;
  if (curve) {
    const Tensor x = at::cat({tasks.support_x, tasks.query_x}, 1);
    const Tensor grid = at::linspace(x.min().item<double>(), x.max().item<double>(), 101, x.options());
    drawing.query_x = grid.view({1, -1, 1}).repeat({count, 1, 1});
    drawing.query_y = at::zeros_like(drawing.query_x);
  }
  const Adapted line = curve ? learner.adapt(drawing) : answers;
  std::vector<ShownTask> shown;
  for (long t = 0; t < count; ++t) {
    const auto one = [t](const Tensor& all) { return all.narrow(0, t, 1).cpu(); };
    shown.push_back(
        {.task = {one(drawing.support_x), one(drawing.support_y), one(drawing.query_x), one(tasks.query_y)},
         .before = one(line.before),
         .after = one(line.after),
         .judged_before = wrong_before[t].item<double>(),
         .judged_after = wrong_after[t].item<double>()});
    if (t == 0) shown.back().classes = source.class_names(own(seed, shows));
    if (curve) shown.back().points = {one(tasks.query_x), one(tasks.query_y)};
  }
  return shown;
}

GradientProbe probe(const Learner& learner, const MetaOptions& resolved, const TaskSource& source,
                    const Tensor& theta, const StopToken* stop) {
  MetaOptions few = resolved;
  few.beta *= static_cast<double>(few.probe_tasks) / static_cast<double>(few.tasks);
  few.tasks = few.probe_tasks;
  const Tasks tasks = source.draw(few.tasks, own(resolved.seed, probes));
  MetaGradient used(learner, few, tasks, theta);
  used.obey(stop);
  const Estimate<SingleTensor> ours = used.estimate(theta);

  const MetaGradient::Beside beside = used.beside_reference(theta, ours);
  const Estimate<Tensor>& exact = beside.reference;

  GradientProbe p;
  p.tasks = few.tasks;
  p.certificate = beside.certificate;
  p.reference_certificate = exact.certificate;
  p.reference_residual = exact.certificate.inner_residual;
  p.reference_adjoint_residual = exact.certificate.adjoint_residual;
  p.reference = fmt::format("{}; {}", beside.settled, exact.message);
  const Tensor a = ours.gradient.tensor.to(at::kDouble), &b = exact.gradient;
  const double length = norm(b);
  p.cosine = Space<Tensor>::dot(a, b) / (norm(a) * length);
  p.relative_error = beside.distance / length;
  p.gradient_norm = length;
  return p;
}

}  // namespace bilevel::learning
