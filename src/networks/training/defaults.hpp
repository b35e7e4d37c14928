#pragma once

#include <string_view>

#include <optional>

#include <bilevel/networks/training_options.hpp>

namespace bilevel::networks {

/// What a kind of network trains well with (docs/benchmarks.md has the results).
struct Defaults {
  Activation activation;
  ReadOut read_out;
  Index hidden;
  std::string_view estimator;
  double beta;
  int epochs;
  Index batch;                             ///< at most
  double decay, step = 1;                  ///< decay: of the rate in an epoch, were there `epochs` of them
  double descent_rate, descent_upper = 1;  ///< of sgd: of the first layer, and the factor of each further one
  double adam_rate;
  WeightOptimizer optimizer;
  long free_steps;    ///< for each layer of weights; of predictive coding: in all
  long nudged_steps;  ///< at least
};

const Defaults& defaults_of(Energy energy, std::optional<Activation> activation);

/// What follows from the depth. With one hidden layer it is what the table has.
WeightOptimizer optimizer_for(const Architecture& architecture, const Defaults& defaults);
double input_gain_for(const Architecture& architecture, double feature_size);
long free_steps_for(const Architecture& architecture, const Defaults& defaults);
long nudged_steps_for(const Architecture& architecture, const Defaults& defaults);
/// Of the layers' weights, in the first epoch: their ratios, and the rate of the first one.
std::vector<double> rates_for(const Architecture& architecture, const Defaults& defaults, bool adam);
/// Small sets get smaller batches, or too few steps would be taken in an epoch.
Index batch_for(const Architecture& architecture, const Defaults& defaults, Index rows);

/// Fewest steps after which what is clamped (or, `nudged`, the nudge of the outputs) is felt in every layer.
long steps_to_cross(const Architecture& architecture, Schedule schedule, bool nudged);

}  // namespace bilevel::networks
