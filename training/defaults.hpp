#pragma once

#include <string_view>

#include "task.hpp"

namespace training {

/// What a kind of network trains well with (docs/benchmarks.md has the results).
struct Defaults {
  bilevel::networks::Activation activation;
  bilevel::networks::ReadOut read_out;
  std::string_view hidden, estimator;
  double beta;
  int epochs;
  Index batch;                             ///< at most
  double decay, step = 1;                  ///< decay: of the rate in an epoch, were there `epochs` of them
  double descent_rate, descent_upper = 1;  ///< of sgd: of the first layer, and the factor of each further one
  double adam_rate;
  std::string_view optimizer;
  long free_steps;    ///< for each layer of weights; of predictive coding: in all
  long nudged_steps;  ///< at least
};

const Defaults& defaults_of(bilevel::networks::Energy energy, const std::string& activation);

/// What follows from the depth. With one hidden layer it is what the table has.
std::string_view optimizer_for(const bilevel::networks::Architecture& architecture, const Defaults& defaults);
double input_gain_for(const bilevel::networks::Architecture& architecture, double feature_size);
long free_steps_for(const bilevel::networks::Architecture& architecture, const Defaults& defaults);
long nudged_steps_for(const bilevel::networks::Architecture& architecture, const Defaults& defaults);
/// Of the layers' weights, in the first epoch: their ratios, and the rate of the first one.
std::vector<double> rates_for(const bilevel::networks::Architecture& architecture, const Defaults& defaults,
                              bool adam);
/// Small sets get smaller batches, or too few steps would be taken in an epoch.
Index batch_for(const bilevel::networks::Architecture& architecture, const Defaults& defaults, Index rows);

/// Fewest steps after which what is clamped (or, `nudged`, the nudge of the outputs) is felt in every layer.
long steps_to_cross(const bilevel::networks::Architecture& architecture, bilevel::networks::Schedule schedule,
                    bool nudged);

}  // namespace training
