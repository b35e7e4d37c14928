#include "task.hpp"

#include <charconv>
#include <cmath>

#include <bilevel/gradient/make_estimator.hpp>

namespace training {
namespace {

namespace networks = bilevel::networks;
using networks::Energy;

/// What is known to train well (docs/benchmarks.md has the results); one row a kind of network.
struct Defaults {
  networks::Activation activation;
  networks::ReadOut read_out;
  std::string_view hidden, estimator, optimizer;
  double beta, scale = 1;
  int epochs;
  Index batch;
  double learning_rate, upper_rate = 1;  ///< of the first layer, and the factor of each further one
  double decay, step = 1;
  long free_steps, nudged_steps;
};

constexpr Defaults clipped_hopfield{.activation = networks::Activation::clip,
                                    .read_out = networks::ReadOut::squared,
                                    .hidden = "512",
                                    .estimator = "ep-central",
                                    .optimizer = "sgd",
                                    .beta = 0.5,
                                    .epochs = 25,
                                    .batch = 20,
                                    .learning_rate = 0.1,
                                    .upper_rate = 0.5,
                                    .decay = 0.95,
                                    .free_steps = 20,
                                    .nudged_steps = 4};
constexpr Defaults smooth_hopfield{.activation = networks::Activation::tanh,
                                   .read_out = networks::ReadOut::cross_entropy,
                                   .hidden = "512",
                                   .estimator = "ep-central",
                                   .optimizer = "adam",
                                   .beta = 0.4,
                                   .scale = 0.5,
                                   .epochs = 15,
                                   .batch = 50,
                                   .learning_rate = 3e-3,
                                   .decay = 0.9,
                                   .free_steps = 30,
                                   .nudged_steps = 8};
constexpr Defaults predictive_coding{.activation = networks::Activation::sigmoid,
                                     .read_out = networks::ReadOut::cross_entropy,
                                     .hidden = "1000",
                                     .estimator = "ep-forward-2",
                                     .optimizer = "adam",
                                     .beta = 1,
                                     .epochs = 30,
                                     .batch = 100,
                                     .learning_rate = 3e-3,
                                     .decay = 0.88,
                                     .step = 0.2,
                                     .free_steps = 1,
                                     .nudged_steps = 20};
constexpr Defaults resistive{.activation = networks::Activation::diode,
                             .read_out = networks::ReadOut::squared,
                             .hidden = "100",
                             .estimator = "ep-central",
                             .optimizer = "sgd",
                             .beta = 0.5,
                             .epochs = 10,
                             .batch = 4,
                             .learning_rate = 0.006,
                             .decay = 0.9,
                             .free_steps = 4,
                             .nudged_steps = 4};
/// Of the circle of ep-holomorphic, whose bias is of a higher order: it keeps away from where outputs give
/// way.
constexpr double most_holomorphic_beta = 0.2;
/// Of nudges to both sides: an output's own curvature is 1 as a rule.
constexpr double most_two_sided_beta = 0.5;

const Defaults& defaults_of(Energy energy, const std::string& activation) {
  if (energy == Energy::predictive_coding) return predictive_coding;
  if (energy == Energy::resistive) return resistive;
  return activation.empty() || activation == "clip" ? clipped_hopfield : smooth_hopfield;
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
  const auto& known = bilevel::estimator_names();
  if (std::find(known.begin(), known.end(), s.estimator) == known.end() || s.estimator == "auto")
    throw InvalidInput(fmt::format("there is no --estimator {}; known are {}, backpropagation", s.estimator,
                                   fmt::join(known.begin() + (known.front() == "auto"), known.end(), ", ")));
  const bool holomorphic = s.estimator == "ep-holomorphic";
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
  } else if (s.estimator != "ep-agnostic" && s.estimator.starts_with("ep-")) {
    const auto options = bilevel::equilibrium_propagation_options(s.estimator);
    s.propagation.nudge = options.nudge;
    s.propagation.points = options.points;
    s.route = Route::propagation;
  }
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
    // Voltages fall with the number of neighbours that a unit averages over: published gains, for pictures
    // with grey values up to 1, are 100 at 100 units and 480 at 1024. Steps of the conductances go with the
    // square of what comes in, so larger features (standardised ones have size 1) want a smaller gain.
    const double published = 100 * std::pow(static_cast<double>(a.width(1)) / 100, 2.0 / 3),
                 smaller = feature_size > 0 ? std::min(1.0, std::pow(0.45 / feature_size, 2)) : 1;
    a.input_gain = t.input_gain > 0 ? t.input_gain : std::max(1.0, std::round(published * smaller));
    a.gain = t.gain > 0 ? t.gain : a.depth() > 2 ? 4 : 1;
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
  s.scale = t.scale > 0 ? t.scale : d.scale;
  const bool two_sided = p.circle > 0 || p.nudge != bilevel::Nudge::forward;
  p.beta = d.beta;
  if (p.circle > 0) p.beta = std::min(p.beta, most_holomorphic_beta);
  if (two_sided) p.beta = std::min(p.beta, most_two_sided_beta);
  if (two_sided && a.resistive()) p.beta = std::min(p.beta, gentle_beta(a, t.seed, s.scale));
  if (t.beta != 0) p.beta = t.beta;
  p.free.schedule = p.nudged.schedule =
      t.schedule.empty() ? networks::Schedule::even_odd : networks::schedule_of(t.schedule);
  p.free.step = p.nudged.step = t.step > 0 ? t.step : d.step;
  // With more layers a signal takes more steps from one end to the other and back.
  const long depth = static_cast<long>(a.depth());
  p.free.max_steps =
      t.free_steps > 0 ? t.free_steps : d.free_steps * (a.energy == Energy::hopfield ? depth - 1 : 1);
  p.nudged.max_steps = t.nudged_steps > 0 ? t.nudged_steps : std::max(d.nudged_steps, 2 * depth);
  if (p.free.max_steps < 1) p.free.max_steps = 1;
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
  if (!s.estimator.starts_with("ep-") && t.beta != 0)
    throw InvalidInput(fmt::format("--beta goes with equilibrium propagation, not with {}", s.estimator));
  if (p.free.step > 1) throw InvalidInput(fmt::format("--step {} must lie in (0, 1]", p.free.step));

  s.epochs = t.epochs > 0 ? t.epochs : d.epochs;
  s.batch = std::min(t.batch > 0 ? t.batch : d.batch, rows);
  s.optimizer = t.optimizer.empty() ? std::string(d.optimizer) : t.optimizer;
  const bool adam = s.optimizer == "adam";
  // A rate that suits one optimiser suits no other.
  double rate = d.learning_rate;
  if (adam && d.optimizer != "adam") rate = 1e-3;
  if (!adam && d.optimizer == "adam") rate = 0.05;
  if (t.learning_rate > 0) rate = t.learning_rate;
  if (!t.layer_rates.empty() && static_cast<Index>(t.layer_rates.size()) != a.depth())
    throw InvalidInput(fmt::format("--layer-rates has {} factors, and there are {} layers of weights",
                                   t.layer_rates.size(), a.depth()));
  for (Index k = 1; k <= a.depth(); ++k)
    s.learning_rates.push_back(rate * (!t.layer_rates.empty() ? t.layer_rates[static_cast<std::size_t>(k - 1)]
                                       : adam                 ? 1
                                              : std::pow(d.upper_rate, static_cast<double>(k - 1))));
  s.decay = t.decay > 0 ? t.decay : d.decay;
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
