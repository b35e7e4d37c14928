#include "task.hpp"

#include <charconv>
#include <cmath>

#include <bilevel/gradient/make_estimator.hpp>

#include "defaults.hpp"

namespace training {
namespace {

namespace networks = bilevel::networks;
using networks::Energy;

/// Of the circle of ep-holomorphic, whose bias is of a higher order: it keeps away from where outputs give
/// way.
constexpr double most_holomorphic_beta = 0.2;
/// Of nudges to both sides: an output's own curvature is 1 as a rule, that of the squared error 1 as well,
/// that of cross-entropy at most ½.
double most_two_sided_beta(networks::ReadOut read_out) {
  return read_out == networks::ReadOut::squared ? 0.5 : 0.8;
}

std::vector<Index> sizes_of(const std::string& text) {
  std::vector<Index> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    long size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || (next < end && (*next != '-' || next + 1 == end)))
      throw InvalidInput(
          fmt::format("--layers {} must be sizes of at least 1 joined by '-', as in 784-512-10, or one "
                      "hidden layer alone, as in 512",
                      text));
    sizes.push_back(size);
    at = next < end ? next + 1 : next;
  }
  return sizes;
}

/// Sizes as given, completed by those of the data where only a hidden layer was named.
std::vector<Index> layers_of(const std::string& text, Index features, Index classes) {
  std::vector<Index> sizes = sizes_of(text);
  // One size alone is that of a hidden layer.
  if (sizes.size() == 1) sizes = {features, sizes[0], classes};
  if (sizes.front() != features)
    throw InvalidInput(fmt::format("--layers {}: the data has {} features, the first layer {} units", text,
                                   features, sizes.front()));
  if (sizes.back() != classes)
    throw InvalidInput(fmt::format("--layers {}: the data has {} classes, the last layer {} units", text,
                                   classes, sizes.back()));
  return sizes;
}

/// Half of what holds the weakest output at first, so that a negative nudge does not outweigh it.
double gentle_beta(const networks::Architecture& a, std::uint64_t seed, double scale) {
  const Eigen::VectorXd theta = networks::initial_parameters(a, seed, scale);
  const networks::LayerParameters p = a.layer(a.depth());
  const Eigen::Map<const Eigen::MatrixXd> to_output(theta.data() + p.weights, p.units,
                                                    (p.end - p.weights) / p.units);
  return 0.5 * std::max(0.02, to_output.rowwise().sum().minCoeff());
}

/// What the nudge and the number of points of an estimator's name are, and which way it takes.
void choose_estimator(Settings& s, int points) {
  if (s.estimator == "backpropagation") {
    if (s.architecture.energy != Energy::predictive_coding)
      throw InvalidInput(
          "--estimator backpropagation is for --energy predictive-coding, whose free state is a feed-forward "
          "pass");
    s.route = Route::backpropagation;
    return;
  }
  const bilevel::EstimatorChoice* choice = bilevel::find_estimator(s.estimator);
  const auto& known = bilevel::estimator_names();
  if (!choice || std::holds_alternative<bilevel::AutomaticOptions>(*choice))
    throw InvalidInput(fmt::format("there is no --estimator {}; known are {}, backpropagation", s.estimator,
                                   fmt::join(known.begin() + (known.front() == "auto"), known.end(), ", ")));
  const bool holomorphic = std::holds_alternative<bilevel::HolomorphicOptions>(*choice);
  if (holomorphic && !s.architecture.smooth())
    throw InvalidInput(
        fmt::format("--estimator ep-holomorphic continues the energy to complex states, and {} units are not "
                    "analytic: use "
                    "--activation sigmoid or tanh, or another estimator",
                    name(s.architecture.activation)));
  s.route = Route::library;
  if (holomorphic) {
    s.propagation.circle = points > 0 ? points : 8;
    s.route = Route::propagation;
  } else if (const auto* options = std::get_if<bilevel::EquilibriumPropagationOptions>(choice)) {
    s.propagation.nudge = options->nudge;
    s.propagation.points = options->points;
    s.route = Route::propagation;
  }
}

/// Phases that end before every layer has felt what should move it teach nothing, or not all layers.
void require_crossing(const TrainTask& t, const Settings& s) {
  if (s.route != Route::propagation) return;
  const networks::Architecture& a = s.architecture;
  const networks::Schedule schedule = s.propagation.free.schedule;
  const long free = steps_to_cross(a, schedule, false), nudged = steps_to_cross(a, schedule, true);
  if (s.propagation.free.max_steps < free && !t.persistent)
    throw InvalidInput(
        fmt::format("--free-steps {}: the inputs would not reach the outputs, which lie {} layers away; with "
                    "--schedule {} that takes {} steps at least",
                    s.propagation.free.max_steps, a.depth(), name(schedule), free));
  if (s.propagation.nudged.max_steps < nudged)
    throw InvalidInput(
        fmt::format("--nudged-steps {}: the nudge of the outputs would not reach the first of {} layers, "
                    "which could not learn; with --schedule {} that takes {} steps at least",
                    s.propagation.nudged.max_steps, a.depth(), name(schedule), nudged));
}

}  // namespace

void TrainTask::validate() const {
  bilevel::WrongOptions wrong;
  wrong.require(scaling == "auto" || scaling == "none" || scaling == "unit" || scaling == "standard",
                "scaling", scaling, "must be auto, none, unit or standard");
  wrong.require(rows >= 0, "rows", rows, "must be at least 1");
  wrong.require(epochs >= 0, "epochs", epochs, "must be at least 1");
  wrong.require(batch >= 0, "batch", batch, "must be at least 1");
  wrong.require(learning_rate >= 0 && std::isfinite(learning_rate), "learning-rate", learning_rate,
                "must be positive");
  for (const double rate : layer_rates)
    wrong.require(rate >= 0 && std::isfinite(rate), "layer-rates", rate, "must be zero or more");
  wrong.require(decay >= 0 && decay <= 1, "decay", decay, "must lie in (0, 1]");
  wrong.require(momentum == -1 || (momentum >= 0 && momentum < 1), "momentum", momentum,
                "must lie in [0, 1)");
  wrong.require(weight_decay >= 0 && std::isfinite(weight_decay), "weight-decay", weight_decay,
                "must be zero or more");
  wrong.require(points == 0 || (points >= 2 && points <= 64 && points % 2 == 0), "points", points,
                "must be even, from 2 to 64");
  wrong.require(optimizer.empty() || optimizer == "sgd" || optimizer == "adam", "optimizer", optimizer,
                "must be sgd or adam");
  wrong.require(std::isfinite(beta), "beta", beta, "must be finite");
  wrong.require(step >= 0 && std::isfinite(step), "step", step, "must be positive");
  wrong.require(free_steps >= 0, "free-steps", free_steps, "must be at least 1");
  wrong.require(free_steps <= most_free_steps, "free-steps", free_steps,
                fmt::format("must be at most {}", most_free_steps));
  wrong.require(nudged_steps >= 0, "nudged-steps", nudged_steps, "must be at least 1");
  wrong.require(tolerance >= 0 && std::isfinite(tolerance), "tolerance", tolerance, "must be zero or more");
  wrong.require(noise >= 0 && std::isfinite(noise), "noise", noise, "must be zero or more");
  wrong.require(scale >= 0 && std::isfinite(scale), "scale", scale, "must be positive");
  wrong.require(input_gain >= 0 && std::isfinite(input_gain), "input-gain", input_gain, "must be positive");
  wrong.require(gain >= 0 && std::isfinite(gain), "gain", gain, "must be positive");
  wrong.require(seconds >= 0, "seconds", seconds, "must be positive");
  wrong.require(probe >= 0 && probe <= 1000, "probe", probe, "must be from 0 to 1000 samples");
  wrong.throw_if_any();
}

Settings settle_task(const TrainTask& t, Index features, Index rows, Index classes, double feature_size) {
  Settings s;
  networks::Architecture& a = s.architecture;
  a.energy = networks::energy_of(t.energy);
  const Defaults& d = defaults_of(a.energy, t.activation);
  a.layers = layers_of(t.layers.empty() ? std::string(d.hidden) : t.layers, features, classes);
  a.activation = t.activation.empty() ? d.activation : networks::activation_of(t.activation);
  a.read_out = t.read_out.empty() ? d.read_out : networks::read_out_of(t.read_out);
  if (a.resistive()) {
    a.input_gain = t.input_gain > 0 ? t.input_gain : input_gain_for(a, feature_size);
    a.gain = t.gain > 0 ? t.gain : 1;
  } else if (t.input_gain > 0 || t.gain > 0) {
    throw InvalidInput("--gain and --input-gain belong to --energy resistive");
  }
  a.validate().throw_if_any();

  s.estimator = t.estimator.empty() ? std::string(d.estimator) : t.estimator;
  if (t.points > 0 && s.estimator != "ep-holomorphic")
    throw InvalidInput(
        fmt::format("--points are those of --estimator ep-holomorphic; {} has its number in its name or none",
                    s.estimator));
  choose_estimator(s, t.points);
  networks::PropagationOptions& p = s.propagation;
  s.scale = t.scale > 0 ? t.scale : 1;
  const bool two_sided = p.circle > 0 || p.nudge != bilevel::Nudge::forward;
  p.beta = d.beta;
  if (p.circle > 0) p.beta = std::min(p.beta, most_holomorphic_beta);
  if (two_sided) p.beta = std::min(p.beta, most_two_sided_beta(a.read_out));
  if (two_sided && a.resistive()) p.beta = std::min(p.beta, gentle_beta(a, t.seed, s.scale));
  if (t.beta != 0) p.beta = t.beta;
  p.free.schedule = p.nudged.schedule =
      t.schedule.empty() ? networks::Schedule::even_odd : networks::schedule_of(t.schedule);
  p.free.step = p.nudged.step = t.step > 0 ? t.step : d.step;
  p.free.max_steps = t.free_steps > 0 ? t.free_steps : free_steps_for(a, d);
  p.nudged.max_steps = t.nudged_steps > 0 ? t.nudged_steps : nudged_steps_for(a, d);
  p.free.tolerance = t.tolerance;
  p.noise = t.noise;
  p.seed = t.seed;
  p.validate().throw_if_any();
  if (t.noise > 0 && s.route != Route::propagation)
    throw InvalidInput(
        fmt::format("--noise goes with the estimators ep-forward, ep-central, ep-random-sign and "
                    "ep-holomorphic, not with {}",
                    s.estimator));

  if (s.route != Route::propagation && t.nudged_steps > 0)
    throw InvalidInput(
        fmt::format("--nudged-steps goes with equilibrium propagation, not with {}", s.estimator));
  const bilevel::EstimatorChoice* choice = bilevel::find_estimator(s.estimator);
  if (!(choice && bilevel::nudges(*choice)) && t.beta != 0)
    throw InvalidInput(fmt::format("--beta goes with equilibrium propagation, not with {}", s.estimator));
  if (p.free.step > 1) throw InvalidInput(fmt::format("--step {} must lie in (0, 1]", p.free.step));

  require_crossing(t, s);

  s.epochs = t.epochs > 0 ? t.epochs : d.epochs;
  s.batch = std::min(t.batch > 0 ? t.batch : batch_for(a, d, rows), rows);
  // Who asks for momentum asks for the optimiser that has one to choose.
  s.optimizer = !t.optimizer.empty() ? t.optimizer : std::string(optimizer_for(a, d));
  if (t.optimizer.empty() && t.momentum >= 0 && a.energy == Energy::hopfield && !a.smooth())
    s.optimizer = "sgd";
  const bool adam = s.optimizer == "adam";
  if (!t.layer_rates.empty() && static_cast<Index>(t.layer_rates.size()) != a.depth())
    throw InvalidInput(fmt::format("--layer-rates has {} factors, and there are {} layers of weights",
                                   t.layer_rates.size(), a.depth()));
  // A rate that suits one optimiser suits no other.
  s.learning_rates = rates_for(a, d, adam);
  const double first = s.learning_rates[0], asked = t.learning_rate > 0 ? t.learning_rate : first;
  for (std::size_t k = 0; k < s.learning_rates.size(); ++k)
    s.learning_rates[k] =
        t.layer_rates.empty() ? s.learning_rates[k] * (asked / first) : asked * t.layer_rates[k];
  s.centred = adam && a.energy == Energy::hopfield && networks::middle_of(a.activation) != 0;
  // More epochs than usual end at the same rate, not at none.
  s.decay =
      t.decay > 0 ? t.decay : std::pow(d.decay, std::min(1.0, static_cast<double>(d.epochs) / s.epochs));
  if (t.momentum >= 0 && adam) throw InvalidInput("--momentum is for --optimizer sgd; adam has its own");
  s.momentum = t.momentum >= 0 ? t.momentum : 0;
  s.weight_decay = t.weight_decay;
  s.persistent = t.persistent;
  if (s.persistent && s.route != Route::propagation)
    throw InvalidInput(
        fmt::format("--persistent goes with equilibrium propagation, not with {}", s.estimator));
  if (s.persistent && a.energy == Energy::predictive_coding)
    throw InvalidInput(
        "--persistent has no use for --energy predictive-coding, whose free state is a feed-forward pass");
  s.seconds = t.seconds;
  s.seed = t.seed;
  s.probe = t.probe;
  return s;
}

}  // namespace training
