#include <bilevel/learning/meta_learn.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>

#include <bilevel/files/kept_run.hpp>
#include <bilevel/outcome/stop_token.hpp>
#include <bilevel/space/adam_moments.hpp>

#include "kept_learning.hpp"
#include "meta_test.hpp"

namespace bilevel::learning {

namespace {

/// Looks are at other tasks than the final test: who changes options by the curve has not seen those.
constexpr long looks_begin = 1L << 30;
/// A run keeps itself every second, or so seldom that it costs a fiftieth of the time.
constexpr double least_between = 1, most_share = 50;

std::vector<float> numbers_of(const Tensor& row) {
  const Tensor host = row.detach().to(at::kCPU, at::kFloat).contiguous();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

void read_into(const std::vector<float>& numbers, Tensor& row) {
  if (static_cast<std::size_t>(row.numel()) != numbers.size())
    throw InvalidInput("the kept run is of another learner; begin anew without resuming");
  Tensor host = at::empty({row.numel()}, at::kFloat);
  if (!numbers.empty()) std::memcpy(host.data_ptr<float>(), numbers.data(), numbers.size() * sizeof(float));
  row.copy_(host);
}

class LearningRun {
 public:
  LearningRun(const TaskData& data, const MetaOptions& o, const MetaControl& control)
      : data_(data),
        o_(o),
        c_(control),
        stop_(control.interrupted, o.seconds),
        asked_(control.interrupted),
        learner_(o.learner, data.training->form()),
        theta_(begin()),
        first_(at::zeros_like(theta_)),
        second_(at::zeros_like(theta_)),
        gradient_(learner_, o, data.training->draw(o.tasks, training_number(o.seed, 0)), theta_) {}

  MetaLearned run();

 private:
  Tensor begin() const { return in_a_row(learner_.initial_theta(o_.seed)).to(o_.device, at::kFloat); }
  bool step();
  void move(const Tensor& gradient);
  MetaGradient& certified_by();
  void certify();
  bool look();
  void remember();
  void save();
  void take_up();
  void conclude();
  SavedLearner learned() const;
  double elapsed() const { return before_ + watch_.seconds(); }
  bool end(Status status, std::string message) {
    result_.status = status;
    result_.message = std::move(message);
    return false;
  }
  bool diverge(const std::string& why);
  /// Whether the n-th of so many evenly spread events has its turn after this step.
  bool turn(long events) const {
    return events > 0 && kept_.step * events / o_.steps != (kept_.step - 1) * events / o_.steps;
  }

  const TaskData& data_;
  const MetaOptions o_;
  const MetaControl& c_;
  StopToken stop_, asked_;  // the second one knows no time
  const Learner learner_;
  Tensor theta_, first_, second_;
  MetaGradient gradient_;
  std::unique_ptr<MetaGradient> few_;
  KeptLearning kept_;
  MetaLearned result_;
  std::vector<double> step_seconds_;
  Stopwatch watch_;
  double before_ = 0, saved_ = 0, writing_ = 0, shown_ = 0;
};

/// One step of Adam along the gradient, shortened to `clip`; nothing leaves the device.
void LearningRun::move(const Tensor& gradient) {
  constexpr double floor = 1e-8;
  const AdamMoments moments;
  const auto k = static_cast<double>(kept_.step + 1);
  const double rate =
      0.5 * o_.learning_rate *
      (1 + std::cos(std::numbers::pi * static_cast<double>(kept_.step) / static_cast<double>(o_.steps)));
  const Tensor shortened = gradient * (o_.clip / gradient.norm().clamp_min(o_.clip));
  SingleTensor m(first_), v(second_), square(at::empty_like(first_));
  moments.update(SingleTensor(shortened), m, v, square);
  theta_.addcdiv_(first_, (second_ / moments.second_weight(k)).sqrt_().add_(floor),
                  -rate / moments.first_weight(k));
}

bool LearningRun::diverge(const std::string& why) {
  read_into(kept_.good_theta, theta_);
  return end(
      Status::diverged,
      fmt::format("in step {}: {}; θ of step {} is kept. A shorter `inner_rate` ({:.2g}) or `learning_rate` "
                  "({:.2g}) may help",
                  kept_.step + 1, why, kept_.good_step,
                  0.3 * (o_.adaptation.inner_rate > 0 ? o_.adaptation.inner_rate : 1),
                  0.3 * o_.learning_rate));
}

/// False where the run ends here.
bool LearningRun::step() {
  const Stopwatch watch;
  gradient_.set_tasks(data_.training->draw(o_.tasks, training_number(o_.seed, kept_.step)));
  const Estimate<SingleTensor> e = gradient_.estimate(theta_, kept_.step);
  if (stop_.wanted()) return true;  // what was cut short is no gradient
  const double residual = gradient_.residual(), length = norm(e.gradient);
  if (!std::isfinite(e.outer_value) || !std::isfinite(length))
    return diverge(fmt::format("{} ({})", name(e.status), e.message));
  move(e.gradient.tensor);
  ++kept_.step;
  ++kept_.since;
  kept_.loss += e.outer_value;
  kept_.gradient_norm += length;
  if (std::isfinite(residual)) kept_.residual += residual / std::sqrt(static_cast<double>(o_.tasks));
  result_.bytes = std::max(result_.bytes, e.cost.bytes);
  step_seconds_.push_back(watch.seconds());
  return true;
}

/// A reference in double precision passes all pictures dozens of times: four tasks of the step are looked at.
MetaGradient& LearningRun::certified_by() {
  constexpr long most = 4;
  if (!learner_.form().pictures() || o_.tasks <= most) return gradient_;
  const Tasks tasks = gradient_.tasks().first(most);
  if (few_) {
    few_->set_tasks(tasks);
  } else {
    MetaOptions few = o_;
    few.tasks = most;
    few.beta *= static_cast<double>(most) / static_cast<double>(o_.tasks);
    few_ = std::make_unique<MetaGradient>(learner_, few, tasks, theta_);
  }
  return *few_;
}

void LearningRun::certify() {
  const Stopwatch watch;
  if (c_.progress) c_.progress(fmt::format("step {} of {}: certifying its gradient", kept_.step, o_.steps));
  MetaGradient& own = certified_by();
  own.obey(&stop_);
  const Certificate certificate = own.beside_reference(theta_, own.estimate(theta_, kept_.step)).certificate;
  if (stop_.wanted()) return;
  CertifiedMetaGradients& all = kept_.certified;
  long& count = certificate.verdict == Verdict::trusted    ? all.trusted
                : certificate.verdict == Verdict::doubtful ? all.doubtful
                                                           : all.untrusted;
  ++count;
  all.last = certificate;
  all.seconds += watch.seconds();
}

/// A look at the test tasks; θ counts as good from then on.
bool LearningRun::look() {
  const long few = std::max(2L, o_.test_tasks / 10);
  const Tested tested = test_on(gradient_, theta_, *data_.test, few, o_.seed, looks_begin);
  if (tested.cut) return true;
  if (!tested.finite) return diverge("adapting to test tasks gives numbers that are not finite");
  const auto since = static_cast<double>(std::max(1L, kept_.since));
  kept_.curve.push_back({.step = kept_.step,
                         .training_loss = kept_.since > 0 ? kept_.loss / since : unknown,
                         .test = tested.after,
                         .inner_residual = kept_.since > 0 ? kept_.residual / since : unknown,
                         .gradient_norm = kept_.since > 0 ? kept_.gradient_norm / since : unknown,
                         .seconds = elapsed()});
  kept_.loss = kept_.residual = kept_.gradient_norm = 0;
  kept_.since = 0;
  kept_.good_theta = numbers_of(theta_);
  kept_.good_step = kept_.step;
  if (c_.callback) c_.callback(kept_.curve.back());
  return true;
}

void LearningRun::remember() {
  kept_.theta = numbers_of(theta_);
  kept_.first_moment = numbers_of(first_);
  kept_.second_moment = numbers_of(second_);
  kept_.seconds = elapsed();
}

void LearningRun::save() {
  if (c_.checkpoint.empty()) return;
  const Stopwatch watch;
  remember();
  const std::string identity = c_.identity.empty() ? run_identity(data_, o_) : c_.identity;
  if (const std::string problem = write_kept(c_.checkpoint, identity, kept_);
      !problem.empty() && result_.warnings.empty())
    result_.warnings.push_back(fmt::format("the run could not be kept: {}", problem));
  saved_ = elapsed();
  writing_ = watch.seconds();
}

void LearningRun::take_up() {
  kept_ = read_kept(c_.checkpoint, c_.identity.empty() ? run_identity(data_, o_) : c_.identity);
  if (kept_.step > o_.steps)
    throw InvalidInput(
        fmt::format("{}: it has {} steps already, and `steps` is {}", c_.checkpoint, kept_.step, o_.steps));
  if (kept_.good_theta.size() != kept_.theta.size())
    throw InvalidInput(fmt::format("{}: it is damaged; begin anew without resuming", c_.checkpoint));
  read_into(kept_.theta, theta_);
  read_into(kept_.first_moment, first_);
  read_into(kept_.second_moment, second_);
  before_ = kept_.seconds;
  result_.resumed = true;
}

SavedLearner LearningRun::learned() const {
  return {.options = o_.learner,
          .form = learner_.form(),
          .adaptation = o_.adaptation,
          .theta = numbers_of(theta_),
          .source = data_.source,
          .inverted = data_.inverted};
}

/// What the learner is worth: tests, the probe, tasks to look at.
void LearningRun::conclude() {
  result_.learner = learned();
  const bool hurried = result_.status == Status::interrupted;
  const long tests = hurried ? std::max(2L, std::min(o_.test_tasks / 10, o_.tasks)) : o_.test_tasks;
  gradient_.obey(nullptr);
  const Tested tested = test_on(gradient_, theta_, *data_.test, tests, o_.seed);
  result_.test = tested.after;
  result_.test_before = tested.before;
  result_.shown = show(result_.learner, *data_.test, o_.seed);
  if (o_.probe_tasks > 0 && !hurried) {
    result_.probe = probe(learner_, o_, *data_.training, theta_, &asked_);
    if (asked_.wanted()) result_.probe.reset();
  }
  if (kept_.curve.empty())
    kept_.curve.push_back({.step = kept_.step, .test = tested.after, .seconds = elapsed()});
  result_.curve = kept_.curve;
  result_.certified = kept_.certified;
  result_.steps = kept_.step;
  if (!step_seconds_.empty()) {
    const auto middle = step_seconds_.begin() + static_cast<std::ptrdiff_t>(step_seconds_.size() / 2);
    std::nth_element(step_seconds_.begin(), middle, step_seconds_.end());
    result_.seconds_per_step = *middle;
  }
}

MetaLearned LearningRun::run() {
  const at::NoGradGuard guard;
  if (c_.resume && std::filesystem::exists(c_.checkpoint)) take_up();
  result_.status = Status::converged;
  gradient_.obey(&stop_);
  if (kept_.good_theta.empty()) kept_.good_theta = numbers_of(theta_);
  bool going = !kept_.curve.empty() || look();
  while (going && kept_.step < o_.steps) {
    if (const auto why = stop_.wanted()) {
      going = end(
          *why, *why == Status::interrupted
                    ? fmt::format("stopped after step {} of {}", kept_.step, o_.steps)
                    : fmt::format("{:g} s are over, after step {} of {}", o_.seconds, kept_.step, o_.steps));
      break;
    }
    going = step();
    if (going && turn(o_.certify) && kept_.certified.seconds <= 0.1 * elapsed()) certify();
    if (going && turn(o_.looks)) going = look();
    const double now = elapsed();
    if (going && c_.progress && now - shown_ > 0.2) {
      shown_ = now;
      c_.progress(fmt::format("step {} of {}: loss {:.4g}", kept_.step, o_.steps,
                              kept_.since > 0 ? kept_.loss / static_cast<double>(kept_.since) : unknown));
    }
    if (going && now - saved_ > std::max(least_between, most_share * writing_)) save();
  }
  if (result_.status == Status::converged)
    result_.message = o_.steps == 1 ? "the one step is done" : fmt::format("all {} steps are done", o_.steps);
  if (unfinished(result_.status)) save();
  if (c_.progress) c_.progress("looking at the result");
  conclude();
  result_.seconds = elapsed();
  return std::move(result_);
}

}  // namespace

std::optional<Verdict> MetaLearned::verdict() const {
  if (probe) return probe->certificate.verdict;
  if (certified.last) return certified.last->verdict;
  return {};
}

std::string run_identity(const TaskData& data, const MetaOptions& o) {
  const LearnerOptions& l = o.learner;
  return fmt::format(
      "meta {} {} layers={} filters={} blocks={} unit={} strengths={} strength={} embedding={} {} beta={} "
      "adjoint={} {} inner={} {} {} {} tasks={} steps={} rate={} clip={} looks={} test={} seed={}",
      data.fingerprint, name(l.kind), fmt::join(l.layers, "-"), l.filters, l.blocks,
      l.unit ? name(*l.unit) : "", name(l.strengths), l.strength, l.embedding, o.estimator, o.beta,
      o.adjoint_steps, o.adjoint_tolerance, o.adaptation.inner, o.adaptation.inner_steps,
      o.adaptation.inner_tolerance, o.adaptation.inner_rate, o.tasks, o.steps, o.learning_rate, o.clip,
      o.looks, o.test_tasks, o.seed);
}

MetaLearned meta_learn(const TaskData& data, const MetaOptions& options, const MetaControl& control) {
  if (!data.training || !data.test)
    throw InvalidInput("meta_learn: there are no tasks to learn from or to test on");
  const MetaOptions o = resolve(options, data.training->form());
  if (control.resume && control.checkpoint.empty())
    throw InvalidInput("meta_learn: `resume` needs a `checkpoint`, the file that the run is kept in");
  const std::string identity = control.identity.empty() ? run_identity(data, o) : control.identity;
  const KeptRun kept(control.checkpoint);
  kept.require_place(control.resume, identity);
  MetaLearned learned = LearningRun(data, o, control).run();
  if (control.forget && learned.status == Status::converged) kept.forget();
  return learned;
}

}  // namespace bilevel::learning
