#include <bilevel/learning/tasks.hpp>

#include <cmath>
#include <random>

namespace bilevel::learning {

Violations TaskForm::validate() const {
  Violations v("tasks");
  v.require(input.size() == 1 || input.size() == 3, "input", fmt::format("{}", fmt::join(input, " × ")),
            "must be a number of features, or channels × height × width");
  for (const std::int64_t each : input)
    v.require(each >= 1 && each <= 1 << 20, "input", each, "must lie in 1 … 2²⁰");
  return v.at_least("outputs", outputs, classes ? 2 : 1)
      .at_least("support", support, 1)
      .at_least("query", query, 1);
}

void Tasks::write(const Tasks& others) {
  const at::NoGradGuard guard;
  for (const auto& [to, from] : {std::pair<Tensor&, const Tensor&>{support_x, others.support_x},
                                 {support_y, others.support_y},
                                 {query_x, others.query_x},
                                 {query_y, others.query_y}})
    to.data().copy_(from);  // not counted as a change: graphs that are replayed read what is there
}

Tasks Tasks::to(at::ScalarType type, const at::Device& device) const {
  const auto moved = [&](const Tensor& each) { return each.to(device, type, false, true); };
  return {moved(support_x), moved(support_y), moved(query_x), moved(query_y)};
}

Tasks Tasks::first(long count) const {
  const auto few = [&](const Tensor& each) { return each.narrow(0, 0, count); };
  return {few(support_x), few(support_y), few(query_x), few(query_y)};
}

Violations SinusoidOptions::validate() const {
  Violations v("sinusoids");
  v.at_least("shots", shots, 1).at_least("queries", queries, 1);
  v.positive("reach", reach).not_negative("least_amplitude", least_amplitude);
  v.not_negative("largest_phase", largest_phase);
  v.require(largest_amplitude >= least_amplitude && std::isfinite(largest_amplitude), "largest_amplitude",
            largest_amplitude, fmt::format("must be at least {}", least_amplitude));
  return v;
}

namespace {

class Sinusoids final : public TaskSource {
 public:
  Sinusoids(const SinusoidOptions& options, std::uint64_t stream) : o_(options), stream_(stream) {
    form_ = {.input = {1}, .outputs = 1, .classes = false, .support = o_.shots, .query = o_.queries};
  }
  const TaskForm& form() const override { return form_; }

  Tasks draw(long count, std::uint64_t number) const override {
    std::seed_seq seeds{stream_, number & 0xffffffffU, number >> 32};
    std::mt19937_64 engine(seeds);
    const auto even = [&](double low, double high) {
      return low + (high - low) * static_cast<double>(engine() >> 11) * 0x1p-53;
    };
    // Side by side, and so one way to a device for all.
    Tensor all = at::empty({2 * count * (o_.shots + o_.queries)}, at::TensorOptions().dtype(at::kFloat));
    Tasks tasks = tasks_in(all, count);
    for (long t = 0; t < count; ++t) {
      const double amplitude = even(o_.least_amplitude, o_.largest_amplitude),
                   phase = even(0, o_.largest_phase);
      const auto fill = [&](Tensor& x, Tensor& y, long each) {
        float *const xs = x.data_ptr<float>() + t * each, *const ys = y.data_ptr<float>() + t * each;
        for (long i = 0; i < each; ++i) {
          xs[i] = static_cast<float>(even(-o_.reach, o_.reach));
          ys[i] = static_cast<float>(amplitude * std::sin(xs[i] + phase));
        }
      };
      fill(tasks.support_x, tasks.support_y, o_.shots);
      fill(tasks.query_x, tasks.query_y, o_.queries);
    }
    return o_.device.is_cpu() ? tasks : tasks_in(all.to(o_.device), count);
  }

 private:
  Tasks tasks_in(const Tensor& all, long count) const {
    std::int64_t at = 0;
    const auto take = [&](long each) {
      at += count * each;
      return all.narrow(0, at - count * each, count * each).view({count, each, 1});
    };
    Tasks tasks;
    for (Tensor* each : {&tasks.support_x, &tasks.support_y}) *each = take(o_.shots);
    for (Tensor* each : {&tasks.query_x, &tasks.query_y}) *each = take(o_.queries);
    return tasks;
  }

  SinusoidOptions o_;
  std::uint64_t stream_;
  TaskForm form_;
};

}  // namespace

TaskData sinusoids(const SinusoidOptions& options) {
  options.validate().throw_if_any();
  return {.source = "sinusoids",
          .training = std::make_shared<Sinusoids>(options, 1),
          .test = std::make_shared<Sinusoids>(options, 2),
          .notes = {},
          .fingerprint = fmt::format("sinusoids {} {} {} {} {} {}", options.shots, options.queries,
                                     options.least_amplitude, options.largest_amplitude,
                                     options.largest_phase, options.reach)};
}

}  // namespace bilevel::learning
