#include "defaults.hpp"

#include <algorithm>
#include <cmath>

namespace bilevel::networks {
namespace {

constexpr Defaults clipped_hopfield{.activation = Activation::clip,
                                    .read_out = ReadOut::squared,
                                    .hidden = 512,
                                    .estimator = "ep-central",
                                    .beta = 0.5,
                                    .epochs = 25,
                                    .batch = 20,
                                    .decay = 0.9,
                                    .descent_rate = 0.1,
                                    .descent_upper = 0.5,
                                    .adam_rate = 1.5e-3,
                                    .optimizer = WeightOptimizer::adam,
                                    .free_steps = 6,
                                    .nudged_steps = 4};
constexpr Defaults smooth_hopfield{.activation = Activation::tanh,
                                   .read_out = ReadOut::cross_entropy,
                                   .hidden = 512,
                                   .estimator = "ep-central",
                                   .beta = 0.4,
                                   .epochs = 15,
                                   .batch = 50,
                                   .decay = 0.85,
                                   .descent_rate = 0.05,
                                   .adam_rate = 3e-3,
                                   .optimizer = WeightOptimizer::adam,
                                   .free_steps = 4,
                                   .nudged_steps = 6};
constexpr Defaults predictive_coding{.activation = Activation::sigmoid,
                                     .read_out = ReadOut::cross_entropy,
                                     .hidden = 1000,
                                     .estimator = "ep-forward-2",
                                     .beta = 1,
                                     .epochs = 30,
                                     .batch = 100,
                                     .decay = 0.88,
                                     .step = 0.2,
                                     .descent_rate = 0.05,
                                     .adam_rate = 3e-3,
                                     .optimizer = WeightOptimizer::adam,
                                     .free_steps = 1,
                                     .nudged_steps = 20};
constexpr Defaults resistive{.activation = Activation::diode,
                             .read_out = ReadOut::squared,
                             .hidden = 100,
                             .estimator = "ep-central",
                             .beta = 0.5,
                             .epochs = 10,
                             .batch = 4,
                             .decay = 0.9,
                             .descent_rate = 0.006,
                             .adam_rate = 0.011,
                             .optimizer = WeightOptimizer::sgd,
                             .free_steps = 2,
                             .nudged_steps = 4};

long hidden_layers(const Architecture& a) {
  return static_cast<long>(a.depth()) - 1;
}

}  // namespace

const Defaults& defaults_of(Energy energy, std::optional<Activation> activation) {
  if (energy == Energy::predictive_coding) return predictive_coding;
  if (energy == Energy::resistive) return resistive;
  return activation.value_or(Activation::clip) == Activation::clip ? clipped_hopfield : smooth_hopfield;
}

WeightOptimizer optimizer_for(const Architecture& a, const Defaults& d) {
  // A nudge fades on its way down, most of all in a circuit: one rate cannot suit gradients of which each
  // layer's are a fraction of those above. Adam asks for their signs alone.
  return hidden_layers(a) > 1 ? WeightOptimizer::adam : d.optimizer;
}

double input_gain_for(const Architecture& a, double feature_size) {
  // Voltages fall with the number of neighbours that a unit averages over: published gains, for pictures
  // with grey values up to 1, are 100 at 100 units and 480 at 1024. Steps of the conductances go with the
  // square of what comes in, so larger features (standardised ones have size 1) want a smaller gain.
  const double published = 100 * std::pow(static_cast<double>(a.width(1)) / 100, 2.0 / 3),
               smaller = feature_size > 0 ? std::min(1.0, std::pow(0.45 / feature_size, 2)) : 1;
  // In a further layer the mean over m neighbours falls by √m, and diodes hold half of the units: √2. The
  // amplifiers between layers could make up for it as well: with conductances scaled to them they are the
  // same network in other units of voltage.
  const double further = std::pow(2.0 * Architecture::few_neighbours,
                                  0.5 * static_cast<double>(std::max(0l, hidden_layers(a) - 1)));
  return std::max(1.0, std::round(published * smaller * further));
}

long free_steps_for(const Architecture& a, const Defaults& d) {
  if (a.energy == Energy::predictive_coding) return d.free_steps;
  // In half a step for each layer a signal has crossed the network. That of a circuit hardly comes back;
  // Hopfield layers answer one another, and settle for their answers in a few crossings. More steps bring
  // them nearer to rest, and were seen to fit the training rows better and others worse.
  return std::max(d.nudged_steps, d.free_steps * static_cast<long>(a.depth()));
}

long nudged_steps_for(const Architecture& a, const Defaults& d) {
  return std::max(d.nudged_steps, 2 * static_cast<long>(a.depth()));
}

std::vector<double> rates_for(const Architecture& a, const Defaults& d, bool adam) {
  const long hidden = std::max(1l, hidden_layers(a));
  double width = 0;
  for (Index k = 1; k < a.depth(); ++k)
    width += static_cast<double>(a.width(k)) / static_cast<double>(hidden);
  std::vector<double> rates;
  for (Index k = 1; k <= a.depth(); ++k) {
    double rate = adam ? d.adam_rate : d.descent_rate * std::pow(d.descent_upper, static_cast<double>(k - 1));
    // A step of Adam moves every weight alike. In a circuit that is a share of what conductances begin with;
    // in a Hopfield network, whose layers answer one another, it is less the more units and layers there are.
    if (adam && a.resistive())
      rate /= std::sqrt(static_cast<double>((k == 1 ? 2 : 1) * a.width(k - 1)));
    else if (adam && a.energy == Energy::hopfield)
      rate *= weight_size(a, k) / static_cast<double>(hidden) * (width > 0 ? std::sqrt(128 / width) : 1);
    rates.push_back(rate);
  }
  return rates;
}

Index batch_for(const Architecture& a, const Defaults& d, Index rows) {
  constexpr Index least = 4, steps = 100;
  // The small batches of a circuit with one hidden layer go with its sgd. Hopfield layers that answer one
  // another want gradients with less noise, and larger batches keep more cores busy.
  const bool deep = hidden_layers(a) > 1;
  const Index most = deep && a.resistive() ? 20 : deep ? std::max<Index>(100, d.batch) : d.batch;
  return std::clamp(rows / steps, std::min(least, most), most);
}

long steps_to_cross(const Architecture& a, Schedule schedule, bool nudged) {
  const long depth = static_cast<long>(a.depth());
  const bool predictive = a.energy == Energy::predictive_coding;
  // The free phase of predictive coding begins with the forward pass.
  if (predictive && !nudged) return 1;
  switch (schedule) {
    case Schedule::even_odd:
      return nudged ? depth / 2 + 1 : (depth + 1) / 2;
    // Upwards first; predictive coding downwards first.
    case Schedule::sweep:
      return nudged && !predictive && depth > 1 ? 2 : 1;
    case Schedule::synchronous:
    case Schedule::gradient:
      return depth;
  }
  return depth;
}

}  // namespace bilevel::networks
