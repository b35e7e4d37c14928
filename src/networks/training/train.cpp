#include <bilevel/networks/train.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include <bilevel/files/kept_run.hpp>
#include <bilevel/outcome/cost.hpp>

#include "certificate_sampler.hpp"
#include "gradient_probe.hpp"
#include "kept_training.hpp"
#include "weights.hpp"

namespace bilevel::networks {
namespace {

/// Seconds that a last look at the test rows may take once a run was to end.
constexpr double grace = 0.6;

/// A run in the middle of an epoch keeps itself every second, or so seldom that it costs a fiftieth of the
/// time; at the end of one in any case.
constexpr double least_between = 1, most_share = 50;

/// The order of an epoch's rows: from the seed and the epoch alone, so that a resumed run knows it again.
std::vector<Index> shuffled(Index rows, std::uint64_t seed, int epoch) {
  std::vector<Index> order(static_cast<std::size_t>(rows));
  for (Index i = 0; i < rows; ++i) order[static_cast<std::size_t>(i)] = i;
  std::mt19937_64 engine(seed * 1000003 + static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[engine() % i]);
  return order;
}

TrainSettings obedient(TrainSettings s, const StopToken* stop) {
  s.propagation.free.stop = s.propagation.nudged.stop = stop;
  return s;
}

class TrainingRun {
 public:
  TrainingRun(const TrainSettings& s, const TrainingData& d, const TrainControl& c)
      : stop_(c.interrupted, s.seconds),
        s_(obedient(s, &stop_)),
        d_(d),
        c_(c),
        identity_(c.identity),
        estimator_(make_batch_estimator(s_)),
        weights_(s, estimator_->initial_theta()),
        certifier_(*estimator_, s.certify_every, stop_),
        look_([this] { return stop_.wanted().has_value(); }),
        evaluation_(s.architecture, obedient(s, &look_).propagation),
        probe_(s_, d),
        inputs_(d.features(), s.batch),
        targets_(s.architecture.outputs(), s.batch) {
    if (s.persistent) {
      kept_.states = Eigen::VectorXf::Zero(s.architecture.states() * d.train.rows());
      states_.resize(s.architecture.states(), s.batch);
    }
    require_parameters(s.architecture, weights_.theta().cast<double>());
  }

  TrainedNetwork run();

 private:
  bool epoch();
  bool batch(const std::vector<Index>& order, Index first, double factor);
  bool certify();
  bool finish_epoch();
  std::string fault_of(const BatchOutcome& outcome);
  bool diverge(const std::string& where);
  bool stop_here();
  void remember();
  void save();
  void write(const KeptTraining& kept);
  BatchOutcome conclude();
  void take_up();
  void look_at_result();
  double elapsed() const { return before_ + watch_.seconds(); }
  bool stop(Status status, std::string message) {
    result_.status = status;
    result_.message = std::move(message);
    return false;
  }

  StopToken stop_;
  const TrainSettings s_;
  const TrainingData& d_;
  const TrainControl c_;
  const std::string identity_;
  std::unique_ptr<BatchEstimator> estimator_;
  Weights weights_;
  CertificateSampler certifier_;
  StopToken look_;  // of the test rows
  Propagation<float> evaluation_;
  GradientProbe probe_;
  Estimate<Eigen::VectorXf> estimate_;
  Eigen::MatrixXf inputs_, targets_, states_;
  KeptTraining kept_, good_;  // good_: the run as it was when the last epoch ended well
  bool concluded_ = false;    // the result's outputs are those of the weights at hand
  TrainedNetwork result_;
  Stopwatch watch_;
  std::string fault_;  // why a batch or an epoch ended the run
  std::string good_at_ = "the start";
  double writing_ = 0;  // seconds that it took to keep the run, the last time
  double before_ = 0, saved_ = 0, epoch_began_ = 0;
  double trained_before_ = 0;  // seconds of the epochs before this one
  bool sent_away_ = false;     // the callback wants no further epoch
};

void TrainingRun::remember() {
  kept_.theta = weights_.theta();
  kept_.first_moment = weights_.first_moment;
  kept_.second_moment = weights_.second_moment;
  kept_.steps = weights_.steps;
  kept_.seconds = elapsed();
  kept_.epochs = result_.epochs;
}

/// The run so far goes to its file.
void TrainingRun::save() {
  if (c_.checkpoint.empty()) return;
  remember();
  write(kept_);
}

void TrainingRun::write(const KeptTraining& kept) {
  if (c_.checkpoint.empty()) return;
  const Stopwatch watch;
  if (const std::string problem = write_kept(c_.checkpoint, identity_, kept); !problem.empty())
    if (result_.warnings.empty())
      result_.warnings.push_back(fmt::format("the run could not be kept: {}", problem));
  saved_ = elapsed();
  writing_ = watch.seconds();
}

/// Why a run must not go on after this; empty: it may.
std::string TrainingRun::fault_of(const BatchOutcome& outcome) {
  if (!estimator_->complaint().empty()) return estimator_->complaint();
  if (outcome.stiffness <= 0) {
    result_.remedy =
        fmt::format("`beta` {:.2g}", 0.5 * std::max(0.0, s_.propagation.beta + outcome.stiffness));
    return fmt::format("a negative nudge outweighs an output by {:.3g}, so that it settles nowhere",
                       std::abs(outcome.stiffness));
  }
  if (!outcome.finite) return "a state or a gradient is not finite";
  // Squashed states stay finite however large the weights are: their cost does not.
  const double blind = s_.architecture.read_out == ReadOut::squared
                           ? 0.5
                           : std::log(static_cast<double>(s_.architecture.outputs()));
  if (outcome.cost > 1000 * blind) return fmt::format("the mean cost is {:.3g}", outcome.cost);
  return {};
}

bool TrainingRun::diverge(const std::string& where) {
  if (result_.remedy.empty())
    result_.remedy = fmt::format("`learning_rate` {:.2g}", 0.3 * s_.learning_rates[0]);
  return stop(Status::diverged, fmt::format("{}: {}; the weights of {} are kept. {} may help", where, fault_,
                                            good_at_, result_.remedy));
}

bool TrainingRun::batch(const std::vector<Index>& order, Index first, double factor) {
  const Index count = std::min(s_.batch, d_.train.rows() - first);
  for (Index n = 0; n < count; ++n) {
    const Index row = order[static_cast<std::size_t>(first + n)];
    inputs_.col(n) = d_.train.inputs.col(row);
    targets_.col(n).setZero();
    targets_(d_.train.labels[static_cast<std::size_t>(row)], n) = 1;
    if (s_.persistent)
      states_.col(n) = kept_.states.segment(row * s_.architecture.states(), s_.architecture.states());
  }
  estimator_->seek(static_cast<std::uint64_t>(weights_.steps));
  estimator_->set_batch(inputs_.data(), targets_.data(), count, s_.persistent ? states_.data() : nullptr);
  estimator_->estimate_into(weights_.theta(), estimate_);
  const BatchOutcome& outcome = estimator_->outcome();
  fault_.clear();
  if (stop_.wanted()) return false;
  fault_ = fault_of(outcome);
  if (!fault_.empty()) return false;
  if (!certify()) return false;
  if (s_.persistent)
    for (Index n = 0; n < count; ++n)
      kept_.states.segment(order[static_cast<std::size_t>(first + n)] * s_.architecture.states(),
                           s_.architecture.states()) = states_.col(n);
  weights_.step(estimate_.gradient, factor);
  concluded_ = false;
  const auto share = static_cast<double>(count);
  kept_.cost += share * outcome.cost;
  kept_.wrong += static_cast<double>(outcome.wrong);
  kept_.residual += share * outcome.residual;
  kept_.nudged_residual += share * outcome.nudged_residual;
  kept_.samples += count;
  ++kept_.certified.batches;
  return true;
}

/// Certifies the gradient at hand where it is its turn. False where the run was to end meanwhile: the batch
/// is repeated then, and so is this.
bool TrainingRun::certify() {
  const double spent = certifier_.seconds();
  const auto attempt = certifier_.certify(weights_.theta(), estimate_, weights_.steps,
                                          trained_before_ + elapsed() - epoch_began_);
  if (certifier_.seconds() == spent) return true;
  // Not a part of the time that training took.
  kept_.certified.seconds += certifier_.seconds() - spent;
  epoch_began_ += certifier_.seconds() - spent;
  if (stop_.wanted()) return false;
  if (attempt) {
    kept_.certified.add(attempt->certificate, attempt->cut_short);
    result_.last_certificate = attempt->certificate;
  }
  return true;
}

/// Keeps the run as it stands, where it was to end.
bool TrainingRun::stop_here() {
  save();
  return stop_.wanted() == Status::interrupted
             ? stop(Status::interrupted, fmt::format("stopped in epoch {}", kept_.epoch + 1))
             : stop(Status::time_limit, fmt::format("{:g} s are over, in epoch {} of {}", s_.seconds,
                                                    kept_.epoch + 1, s_.epochs));
}

/// False where the run ends here.
bool TrainingRun::epoch() {
  const std::vector<Index> order = shuffled(d_.train.rows(), s_.seed, kept_.epoch);
  const double factor = std::pow(s_.decay, kept_.epoch);
  const Index batches = (d_.train.rows() + s_.batch - 1) / s_.batch;
  epoch_began_ = elapsed() - kept_.epoch_seconds;
  trained_before_ = 0;
  for (const Epoch& e : result_.epochs) trained_before_ += e.seconds;
  double shown = 0;
  while (kept_.batch < batches) {
    if (!batch(order, kept_.batch * s_.batch, factor))
      return fault_.empty() ? stop_here()
                            : diverge(fmt::format("in epoch {}, batch {} of {}", kept_.epoch + 1,
                                                  kept_.batch + 1, batches));
    ++kept_.batch;
    const double now = elapsed();
    kept_.epoch_seconds = now - epoch_began_;
    if (now - shown > 0.2) {
      shown = now;
      c_.progress(fmt::format("epoch {} of {}, batch {} of {}: train error {:.2f} %, {:.0f} samples/s",
                              kept_.epoch + 1, s_.epochs, kept_.batch, batches,
                              100 * kept_.wrong / static_cast<double>(kept_.samples),
                              static_cast<double>(kept_.samples) / kept_.epoch_seconds));
    }
    if (stop_.wanted() && kept_.batch < batches) return stop_here();
    if (now - saved_ > std::max(least_between, most_share * writing_)) save();
  }
  if (finish_epoch()) return true;
  return fault_.empty() ? stop_here() : diverge(fmt::format("at the end of epoch {}", kept_.epoch));
}

bool TrainingRun::finish_epoch() {
  const auto samples = static_cast<double>(kept_.samples);
  Epoch e;
  e.epoch = ++kept_.epoch;
  e.train_error = kept_.wrong / samples;
  e.train_cost = kept_.cost / samples;
  e.relaxation_residual = kept_.residual / samples;
  e.nudged_residual = kept_.nudged_residual / samples;
  e.seconds = kept_.epoch_seconds;
  e.samples_per_second = samples / e.seconds;
  e.learning_rate = s_.learning_rates[0] * std::pow(s_.decay, e.epoch - 1);
  const auto test = conclude();
  // All rows were learned from, and the test is repeated once the run goes on.
  const auto cut = [&] {
    if (!stop_.wanted()) return false;
    --kept_.epoch;
    concluded_ = false;
    return true;
  };
  fault_.clear();
  if (cut()) return false;
  fault_ = weights_.theta().allFinite() ? fault_of(test) : "a weight is not finite";
  if (!fault_.empty()) return false;
  if (const Index rows = d_.test.rows(); rows > 0) {
    e.test_error = static_cast<double>(test.wrong) / static_cast<double>(rows);
    e.test_cost = test.cost;
  }
  if (s_.probe > 0) {
    const Probe probe = probe_.compare(*estimator_, weights_.theta(), false);
    if (cut()) return false;
    e.gradient_cosine = probe.cosine;
    e.gradient_error = probe.relative_error;
  }
  e.certified = kept_.certified;
  result_.epochs.push_back(e);
  kept_.certified = {};
  kept_.batch = 0;
  kept_.cost = kept_.wrong = kept_.residual = kept_.nudged_residual = kept_.epoch_seconds = 0;
  kept_.samples = 0;
  sent_away_ = !c_.callback(e);
  remember();
  good_ = kept_;
  good_at_ = fmt::format("the end of epoch {}", kept_.epoch);
  write(good_);
  return true;
}

/// What the network at hand says of the test rows.
BatchOutcome TrainingRun::conclude() {
  concluded_ = true;
  const Index classes = s_.architecture.outputs(), rows = d_.test.rows();
  if (rows == 0) return {};
  result_.outputs.resize(classes, rows);
  const Eigen::MatrixXf targets = one_hot(d_.test.labels, classes).cast<float>();
  const auto outcome = evaluation_.settle(weights_.theta().data(), d_.test.inputs.data(), targets.data(),
                                          rows, result_.outputs.data());
  result_.predicted.resize(static_cast<std::size_t>(rows));
  for (Index n = 0; n < rows; ++n)
    result_.outputs.col(n).maxCoeff(&result_.predicted[static_cast<std::size_t>(n)]);
  return outcome;
}

/// The network, its answers to the test rows, its gradient on the probe, and what to warn of.
void TrainingRun::look_at_result() {
  result_.network = {s_.architecture, s_.propagation.free, weights_.theta(), d_.classes,
                     d_.shift,        d_.factor,           d_.imputed,       d_.schema};
  result_.network.free.stop = nullptr;
  result_.certified = kept_.certified;
  for (const Epoch& e : result_.epochs) result_.certified += e.certified;
  if (!concluded_) {
    // Who stops a run wants it to stop. The token that an epoch's test obeyed may have said so for good.
    if (stop_.wanted()) look_ = StopToken(nullptr, grace);
    conclude();
    if (look_.wanted()) {
      result_.outputs.resize(0, 0);
      result_.predicted.clear();
      result_.warnings.push_back("there was no time to look at the test rows once more");
    }
  }
  if (s_.probe > 0 && !stop_.wanted()) {
    result_.probe = probe_.compare(*estimator_, result_.theta(), true);
    result_.traces = probe_.traces(result_.theta());
    if (stop_.wanted()) result_.probe.reset(), result_.traces.clear();
  }
  if (!result_.epochs.empty()) {
    // Outputs that answer to nothing any more: clipped units that all sit at a bound.
    std::vector<Index> counts(d_.classes.size());
    for (const int label : d_.train.labels) ++counts[static_cast<std::size_t>(label)];
    const double blind = 1 - static_cast<double>(*std::max_element(counts.begin(), counts.end())) /
                                 static_cast<double>(d_.train.rows());
    if (result_.epochs.back().train_error >= 0.97 * blind)
      result_.warnings.push_back(
          fmt::format("the network has learned nothing: its train error is {:.1f} %, and naming the most "
                      "frequent class every time gives {:.1f} %; another `learning_rate` or `scale`, or more "
                      "units or epochs may help",
                      100 * result_.epochs.back().train_error, 100 * blind));
  }
}

/// Goes on with what was kept.
void TrainingRun::take_up() {
  kept_ = read_kept(c_.checkpoint, identity_);
  if (kept_.theta.size() != weights_.theta().size() ||
      kept_.first_moment.size() != weights_.first_moment.size() ||
      kept_.second_moment.size() != weights_.second_moment.size() ||
      (s_.persistent && kept_.states.size() != s_.architecture.states() * d_.train.rows()))
    throw InvalidInput(
        fmt::format("{}: it keeps a run with another optimiser or other states; begin anew without resuming",
                    c_.checkpoint));
  if (kept_.epoch > s_.epochs)
    throw InvalidInput(fmt::format("{}: it has {} epochs already, and `epochs` is {}", c_.checkpoint,
                                   kept_.epoch, s_.epochs));
  if (kept_.batch > (d_.train.rows() + s_.batch - 1) / s_.batch)
    throw InvalidInput(fmt::format("{}: it is damaged; begin anew without resuming", c_.checkpoint));
  good_at_ = "where the run was resumed";
  weights_.set_theta(kept_.theta);
  weights_.first_moment = kept_.first_moment;
  weights_.second_moment = kept_.second_moment;
  weights_.steps = kept_.steps;
  result_.epochs = kept_.epochs;
  before_ = kept_.seconds;
  result_.resumed = true;
  double certifying = kept_.certified.seconds;
  for (const Epoch& e : kept_.epochs) certifying += e.certified.seconds;
  certifier_.set_seconds(certifying);
}

TrainedNetwork TrainingRun::run() {
  // Where nothing is kept, a run that should go on begins.
  if (c_.resume && std::filesystem::exists(c_.checkpoint)) take_up();
  remember();
  good_ = kept_;
  saved_ = elapsed();
  result_.status = Status::converged;
  while (kept_.epoch < s_.epochs && epoch()) {
    if (kept_.epoch < s_.epochs && (sent_away_ || c_.interrupted())) {
      stop(Status::interrupted, fmt::format("stopped after epoch {}", kept_.epoch));
      break;
    }
    if (kept_.epoch < s_.epochs && s_.seconds > 0 && watch_.seconds() >= s_.seconds) {
      stop(Status::time_limit,
           fmt::format("{:g} s are over, after epoch {} of {}", s_.seconds, kept_.epoch, s_.epochs));
      break;
    }
  }
  if (result_.status == Status::converged) result_.message = fmt::format("all {} epochs are done", s_.epochs);
  if (result_.status == Status::diverged) {
    // The file may hold a state from the middle of the epoch that failed.
    weights_.set_theta(good_.theta);
    concluded_ = false;
    write(good_);
  }
  if (!estimator_->warning().empty()) result_.warnings.push_back(estimator_->warning());
  c_.progress("looking at the result");
  look_at_result();
  result_.seconds = elapsed();
  return std::move(result_);
}

/// What does not fit each other; all of it is said at once.
void require_fit(const TrainingData& d, const TrainSettings& s, const TrainControl& c) {
  Violations v("train");
  v.add(d.validate()).add(s.architecture.validate());
  if (!s.architecture.layers.empty()) {
    const std::string layers = fmt::format("{}", fmt::join(s.architecture.layers, "-"));
    v.require(s.architecture.inputs() == d.features(), "layers", layers,
              fmt::format("must begin with the {} features of the data", d.features()));
    v.require(s.architecture.outputs() == static_cast<Index>(d.classes.size()), "layers", layers,
              fmt::format("must end with the {} classes of the data", d.classes.size()));
    v.require(static_cast<Index>(s.learning_rates.size()) == s.architecture.depth(), "learning_rates",
              fmt::format("{}", fmt::join(s.learning_rates, ", ")), "must be one for each layer of weights");
  }
  v.at_least("epochs", s.epochs, 1).at_least("batch", s.batch, 1);
  v.require(s.probe == 0 || d.test.rows() > 0, "probe", s.probe, "must be 0 where there are no test rows");
  v.require(!c.resume || !c.checkpoint.empty(), "resume", c.resume,
            "needs a `checkpoint`, the file that the run is kept in");
  v.throw_if_any();
}

}  // namespace

TrainSettings resolve_options(const TrainOptions& options, const TrainingData& data) {
  data.validate().throw_if_any();
  return resolve_options(options, data.features(), data.train.rows(), static_cast<Index>(data.classes.size()),
                         data.feature_size());
}

TrainedNetwork train(const TrainingData& data, const TrainOptions& options, const TrainControl& control) {
  return train(data, resolve_options(options, data), control);
}

TrainedNetwork train(const TrainingData& data, const TrainSettings& settings, const TrainControl& control) {
  require_fit(data, settings, control);
  TrainControl begun = control;
  if (!begun.progress) begun.progress = TrainControl{}.progress;
  if (!begun.callback) begun.callback = TrainControl{}.callback;
  if (!begun.interrupted) begun.interrupted = TrainControl{}.interrupted;
  if (begun.identity.empty()) begun.identity = run_identity(data, settings);
  const KeptRun kept(begun.checkpoint);
  // Whether it is this run that would go on, reading it says.
  begun.resume ? kept.require_ours() : kept.require_place(false, begun.identity);
  TrainedNetwork trained = TrainingRun(settings, data, begun).run();
  if (begun.forget && trained.status == Status::converged) kept.forget();
  return trained;
}

}  // namespace bilevel::networks
