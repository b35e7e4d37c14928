#include <bilevel/gradient/automatic.hpp>
#include <bilevel/gradient/make_estimator.hpp>
#include <bilevel/networks/training_options.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "defaults.hpp"
#include "networks/by_name.hpp"

namespace bilevel::networks {
namespace {

constexpr std::array<std::string_view, 2> weight_optimizers{"sgd", "adam"};

/// Of the circle of ep-holomorphic, whose bias is of a higher order: it keeps away from where outputs give
/// way.
constexpr double most_holomorphic_beta = 0.2;
/// Of nudges to both sides: an output's own curvature is 1 as a rule, that of the squared error 1 as well,
/// that of cross-entropy at most ½.
double most_two_sided_beta(ReadOut read_out) {
  return read_out == ReadOut::squared ? 0.5 : 0.8;
}

/// Sizes as given, completed by those of the data where only a hidden layer was named.
std::vector<Index> layers_of(std::vector<Index> sizes, Index features, Index classes) {
  // One size alone is that of a hidden layer.
  if (sizes.size() == 1) sizes = {features, sizes[0], classes};
  if (sizes.front() != features)
    throw InvalidInput(fmt::format("`layers` {}: the data has {} features, the first layer {} units",
                                   fmt::join(sizes, "-"), features, sizes.front()));
  if (sizes.back() != classes)
    throw InvalidInput(fmt::format("`layers` {}: the data has {} classes, the last layer {} units",
                                   fmt::join(sizes, "-"), classes, sizes.back()));
  return sizes;
}

/// Half of what holds the weakest output at first, so that a negative nudge does not outweigh it.
double gentle_beta(const Architecture& a, std::uint64_t seed, double scale) {
  const Eigen::VectorXd theta = initial_parameters(a, seed, scale);
  const LayerParameters p = a.layer(a.depth());
  const Eigen::Map<const Eigen::MatrixXd> to_output(theta.data() + p.weights, p.units,
                                                    (p.end - p.weights) / p.units);
  return 0.5 * std::max(0.02, to_output.rowwise().sum().minCoeff());
}

/// What the nudge and the number of points of an estimator's name are, and which way it takes.
void choose_estimator(TrainSettings& s, int points) {
  const EstimatorChoice* choice = find_estimator(s.estimator);
  const bool holomorphic = choice && std::holds_alternative<HolomorphicOptions>(*choice);
  if (points > 0 && !holomorphic)
    throw InvalidInput(
        fmt::format("`points` are those of `estimator` ep-holomorphic; {} has its number in its name or none",
                    s.estimator));
  if (s.estimator == "backpropagation") {
    if (s.architecture.energy != Energy::predictive_coding)
      throw InvalidInput(
          "`estimator` backpropagation is for `energy` predictive-coding, whose free state is a feed-forward "
          "pass");
    s.route = GradientRoute::backpropagation;
    s.nudges = false;
    return;
  }
  const auto& known = estimator_names();
  if (!choice || std::holds_alternative<AutomaticOptions>(*choice))
    throw InvalidInput(fmt::format("there is no `estimator` {}; known are {}, backpropagation", s.estimator,
                                   fmt::join(known.begin() + (known.front() == "auto"), known.end(), ", ")));
  if (holomorphic && !s.architecture.smooth())
    throw InvalidInput(
        fmt::format("`estimator` ep-holomorphic continues the energy to complex states, and {} units are not "
                    "analytic: use "
                    "`activation` sigmoid or tanh, or another estimator",
                    name(s.architecture.activation)));
  s.route = GradientRoute::library;
  s.nudges = nudges(*choice);
  if (holomorphic) {
    s.propagation.circle = points > 0 ? points : 8;
    s.route = GradientRoute::propagation;
  } else if (const auto* options = std::get_if<EquilibriumPropagationOptions>(choice)) {
    s.propagation.nudge = options->nudge;
    s.propagation.points = options->points;
    s.route = GradientRoute::propagation;
  }
}

/// Phases that end before every layer has felt what should move it teach nothing, or not all layers.
void require_crossing(const TrainOptions& t, const TrainSettings& s) {
  if (s.route != GradientRoute::propagation) return;
  const Architecture& a = s.architecture;
  const Schedule schedule = s.propagation.free.schedule;
  const long free = steps_to_cross(a, schedule, false), nudged = steps_to_cross(a, schedule, true);
  if (s.propagation.free.max_steps < free && !t.persistent)
    throw InvalidInput(
        fmt::format("`free_steps` {}: the inputs would not reach the outputs, which lie {} layers away; with "
                    "`schedule` {} that takes {} steps at least",
                    s.propagation.free.max_steps, a.depth(), name(schedule), free));
  if (s.propagation.nudged.max_steps < nudged)
    throw InvalidInput(
        fmt::format("`nudged_steps` {}: the nudge of the outputs would not reach the first of {} layers, "
                    "which could not learn; with `schedule` {} that takes {} steps at least",
                    s.propagation.nudged.max_steps, a.depth(), name(schedule), nudged));
}

/// The network: layers, units and gains.
void choose_network(const TrainOptions& t, const Defaults& d, Index features, Index classes,
                    double feature_size, Architecture& a) {
  a.energy = t.energy;
  a.layers = layers_of(t.layers.empty() ? std::vector<Index>{d.hidden} : t.layers, features, classes);
  a.activation = t.activation.value_or(d.activation);
  a.read_out = t.read_out.value_or(d.read_out);
  if (a.resistive()) {
    a.input_gain = t.input_gain > 0 ? t.input_gain : input_gain_for(a, feature_size);
    a.gain = t.gain > 0 ? t.gain : 1;
  } else if (t.input_gain > 0 || t.gain > 0) {
    throw InvalidInput("`gain` and `input_gain` belong to `energy` resistive");
  }
  a.validate().throw_if_any();
}

/// The estimator, its nudge, and the phases.
void choose_propagation(const TrainOptions& t, const Defaults& d, TrainSettings& s) {
  const Architecture& a = s.architecture;
  s.estimator = t.estimator.empty() ? std::string(d.estimator) : t.estimator;
  choose_estimator(s, t.points);
  PropagationOptions& p = s.propagation;
  s.scale = t.scale > 0 ? t.scale : 1;
  const bool two_sided = p.circle > 0 || p.nudge != Nudge::forward;
  p.beta = d.beta;
  if (p.circle > 0) p.beta = std::min(p.beta, most_holomorphic_beta);
  if (two_sided) p.beta = std::min(p.beta, most_two_sided_beta(a.read_out));
  if (two_sided && a.resistive()) p.beta = std::min(p.beta, gentle_beta(a, t.seed, s.scale));
  if (t.beta != 0) p.beta = t.beta;
  p.free.schedule = p.nudged.schedule = t.schedule.value_or(Schedule::even_odd);
  p.free.step = p.nudged.step = t.step > 0 ? t.step : d.step;
  p.free.max_steps = t.free_steps > 0 ? t.free_steps : free_steps_for(a, d);
  p.nudged.max_steps = t.nudged_steps > 0 ? t.nudged_steps : nudged_steps_for(a, d);
  p.free.tolerance = t.tolerance;
  p.noise = t.noise;
  p.seed = t.seed;
  p.validate().throw_if_any();
  if (t.noise > 0 && s.route != GradientRoute::propagation)
    throw InvalidInput(
        fmt::format("`noise` goes with the estimators ep-forward, ep-central, ep-random-sign and "
                    "ep-holomorphic, not with {}",
                    s.estimator));

  if (s.route != GradientRoute::propagation && t.nudged_steps > 0)
    throw InvalidInput(
        fmt::format("`nudged_steps` goes with equilibrium propagation, not with {}", s.estimator));
  if (!s.nudges && t.beta != 0)
    throw InvalidInput(fmt::format("`beta` goes with equilibrium propagation, not with {}", s.estimator));
  if (p.free.step > 1) throw InvalidInput(fmt::format("`step` {} must lie in (0, 1]", p.free.step));

  require_crossing(t, s);
}

/// The weights of a network that must be one of the wanted kind: those of another energy would train, to no
/// good.
Eigen::VectorXf weights_of(const SavedNetwork& start, const Architecture& wanted) {
  const auto words = [](const Architecture& n) {
    return fmt::format("{} {} ({}, {})", name(n.energy), fmt::join(n.layers, "-"), name(n.activation),
                       name(n.read_out));
  };
  if (words(start.architecture) != words(wanted))
    throw InvalidInput(fmt::format("`start` is a network {}, and {} is to be trained",
                                   words(start.architecture), words(wanted)));
  if (start.theta.size() != wanted.parameters())
    throw InvalidInput(
        fmt::format("`start` has {} weights, and the network {}", start.theta.size(), wanted.parameters()));
  return start.theta;
}

/// How the weights move.
void choose_learning(const TrainOptions& t, const Defaults& d, Index rows, TrainSettings& s) {
  const Architecture& a = s.architecture;
  s.epochs = t.epochs > 0 ? t.epochs : d.epochs;
  s.batch = std::min(t.batch > 0 ? t.batch : batch_for(a, d, rows), rows);
  // Who asks for momentum asks for the optimiser that has one to choose.
  s.optimizer = t.optimizer.value_or(optimizer_for(a, d));
  if (!t.optimizer && t.momentum >= 0 && a.energy == Energy::hopfield && !a.smooth())
    s.optimizer = WeightOptimizer::sgd;
  const bool adam = s.optimizer == WeightOptimizer::adam;
  if (!t.layer_rates.empty() && static_cast<Index>(t.layer_rates.size()) != a.depth())
    throw InvalidInput(fmt::format("`layer_rates` has {} factors, and there are {} layers of weights",
                                   t.layer_rates.size(), a.depth()));
  // A rate that suits one optimiser suits no other.
  s.learning_rates = rates_for(a, d, adam);
  const double first = s.learning_rates[0], asked = t.learning_rate > 0 ? t.learning_rate : first;
  for (std::size_t k = 0; k < s.learning_rates.size(); ++k)
    s.learning_rates[k] =
        t.layer_rates.empty() ? s.learning_rates[k] * (asked / first) : asked * t.layer_rates[k];
  s.centred = adam && a.energy == Energy::hopfield && middle_of(a.activation) != 0;
  // More epochs than usual end at the same rate, not at none.
  s.decay =
      t.decay > 0 ? t.decay : std::pow(d.decay, std::min(1.0, static_cast<double>(d.epochs) / s.epochs));
  if (t.momentum >= 0 && adam) throw InvalidInput("`momentum` is for `optimizer` sgd; adam has its own");
  s.momentum = t.momentum >= 0 ? t.momentum : 0;
  s.weight_decay = t.weight_decay;
  s.persistent = t.persistent;
  if (s.persistent && s.route != GradientRoute::propagation)
    throw InvalidInput(
        fmt::format("`persistent` goes with equilibrium propagation, not with {}", s.estimator));
  if (s.persistent && a.energy == Energy::predictive_coding)
    throw InvalidInput(
        "`persistent` has no use for `energy` predictive-coding, whose free state is a feed-forward pass");
}

}  // namespace

std::string_view name(WeightOptimizer optimizer) {
  return weight_optimizers[static_cast<std::size_t>(optimizer)];
}
WeightOptimizer weight_optimizer_of(std::string_view name) {
  return by_name<WeightOptimizer>("optimizer", name, weight_optimizers);
}

Violations TrainOptions::validate() const {
  Violations v("train");
  for (const Index size : layers) v.require(size >= 1, "layers", size, "must be sizes of at least 1");
  v.require(epochs >= 0, "epochs", epochs, "must be at least 1");
  v.require(batch >= 0, "batch", batch, "must be at least 1");
  v.require(learning_rate >= 0 && std::isfinite(learning_rate), "learning_rate", learning_rate,
            "must be positive");
  for (const double rate : layer_rates)
    v.require(rate >= 0 && std::isfinite(rate), "layer_rates", rate, "must be zero or more");
  v.require(decay >= 0 && decay <= 1, "decay", decay, "must lie in (0, 1]");
  v.require(momentum == -1 || (momentum >= 0 && momentum < 1), "momentum", momentum, "must lie in [0, 1)");
  v.require(weight_decay >= 0 && std::isfinite(weight_decay), "weight_decay", weight_decay,
            "must be zero or more");
  v.require(points == 0 || (points >= 2 && points <= 64 && points % 2 == 0), "points", points,
            "must be even, from 2 to 64");
  v.require(std::isfinite(beta), "beta", beta, "must be finite");
  v.require(step >= 0 && std::isfinite(step), "step", step, "must be positive");
  v.require(free_steps >= 0, "free_steps", free_steps, "must be at least 1");
  v.require(free_steps <= most_free_steps, "free_steps", free_steps,
            fmt::format("must be at most {}", most_free_steps));
  v.require(nudged_steps >= 0, "nudged_steps", nudged_steps, "must be at least 1");
  v.require(tolerance >= 0 && std::isfinite(tolerance), "tolerance", tolerance, "must be zero or more");
  v.require(noise >= 0 && std::isfinite(noise), "noise", noise, "must be zero or more");
  v.require(scale >= 0 && std::isfinite(scale), "scale", scale, "must be positive");
  v.require(input_gain >= 0 && std::isfinite(input_gain), "input_gain", input_gain, "must be positive");
  v.require(gain >= 0 && std::isfinite(gain), "gain", gain, "must be positive");
  v.require(seconds >= 0, "seconds", seconds, "must be positive");
  v.require(probe >= 0 && probe <= 1000, "probe", probe, "must be from 0 to 1000 samples");
  v.require(certify_every >= -1, "certify_every", certify_every, "must be -1 or more");
  return v;
}

TrainSettings resolve_options(const TrainOptions& t, Index features, Index rows, Index classes,
                              double feature_size) {
  t.validate().throw_if_any();
  const Defaults& d = defaults_of(t.energy, t.activation);
  TrainSettings s;
  choose_network(t, d, features, classes, feature_size, s.architecture);
  choose_propagation(t, d, s);
  choose_learning(t, d, rows, s);
  s.seconds = t.seconds;
  s.seed = t.seed;
  s.probe = t.probe;
  s.certify_every = t.certify_every;
  if (t.start) s.start = weights_of(*t.start, s.architecture);
  return s;
}

}  // namespace bilevel::networks
