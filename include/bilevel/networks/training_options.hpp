#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <bilevel/networks/propagation.hpp>
#include <bilevel/networks/saved_network.hpp>

namespace bilevel::networks {

/// Most steps of a free phase. A network's file may ask for no more: whoever wrote it would keep the reader
/// busy.
inline constexpr long most_free_steps = 100'000;

/// How weights move along a gradient: by a step against it, or by Adam's.
enum class WeightOptimizer { sgd, adam };
std::string_view name(WeightOptimizer optimizer);
/// By name; InvalidInput with the list where there is none.
WeightOptimizer weight_optimizer_of(std::string_view name);

/// How a network is trained. What is zero or empty is chosen: what suits the energy, the depth and the data
/// (docs/networks.md has the defaults). Messages name a field `so`.
struct TrainOptions {
  Energy energy = Energy::hopfield;
  std::vector<Index> layers = {};  ///< all sizes, inputs first; or one: that of a hidden layer
  std::optional<Activation> activation = {};
  std::optional<ReadOut> read_out = {};
  double input_gain = 0;  ///< resistive: inputs are multiplied by this
  double gain = 0;        ///< resistive: amplification between layers

  /// ep-central, ep-forward-2 … 4, ep-random-sign and ep-holomorphic at full speed; backpropagation for
  /// predictive coding; any other name that make_estimator knows, in double precision.
  std::string estimator = {};
  double beta = 0;  ///< strength of the nudge
  int points = 0;   ///< on the circle of ep-holomorphic; even, 2 … 64
  int epochs = 0;   ///< passes over the training rows
  Index batch = 0;  ///< rows for one step of the weights
  std::optional<WeightOptimizer> optimizer = {};
  double learning_rate = 0;              ///< of the first layer
  std::vector<double> layer_rates = {};  ///< factors of the learning rate, one a layer
  double decay = 0;                      ///< the rate is multiplied by this after every epoch; at most 1
  double momentum = -1;                  ///< of sgd, in [0, 1); −1: none was asked for
  double weight_decay = 0;               ///< a step also takes rate × this × weight off every weight
  std::optional<Schedule> schedule = {};
  double step = 0;      ///< of a layer towards its minimum, in (0, 1]
  long free_steps = 0;  ///< most steps of the free phase
  long nudged_steps = 0;
  double tolerance = 0;     ///< a sample has settled when no unit moves by more; 0: it takes all steps
  bool persistent = false;  ///< free phases go on from where the sample's last one ended
  double noise = 0;         ///< deviation of noise on everything that a layer receives
  double scale = 0;         ///< of the initial weights
  std::uint64_t seed = 1;   ///< of weights, order, signs and noise
  double seconds = 0;       ///< most seconds of training; 0: no limit
  Index probe = 128;        ///< test rows on which the gradient is compared with the exact one; 0: none
  /// Batches from one certified gradient to the next; 0: as often as takes a tenth of the time; −1: none is.
  long certify_every = 0;
  std::optional<SavedNetwork> start = {};  ///< begin with its weights; it must be such a network

  Violations validate() const;
};

/// How the gradient of a batch is found.
enum class GradientRoute {
  propagation,  ///< equilibrium propagation, holomorphic too, by networks::Propagation, in single precision
  backpropagation,  ///< the feed-forward pass of predictive coding and back
  library           ///< any estimator of the library on networks::NetworkProblem, in double
};

/// The options with every choice made.
struct TrainSettings {
  Architecture architecture;
  PropagationOptions propagation;
  GradientRoute route = GradientRoute::propagation;
  std::string estimator;
  bool nudges = true;  ///< whether the estimator has a β
  WeightOptimizer optimizer = WeightOptimizer::adam;
  int epochs = 0;
  Index batch = 0;
  std::vector<double> learning_rates;  ///< of each layer, in the first epoch
  /// Gradients are taken as those of weights between activities less their middles.
  bool centred = false;
  double decay = 1, momentum = 0, weight_decay = 0;
  bool persistent = false;
  double scale = 1, seconds = 0;
  std::uint64_t seed = 1;
  Index probe = 0;
  long certify_every = 0;
  std::optional<Eigen::VectorXf> start;
};

/// Fills in what the options leave open, for data of so many features, rows and classes, and features of this
/// size (root of the mean square; 0: not known). Throws InvalidInput with everything that does not fit.
TrainSettings resolve_options(const TrainOptions& options, Index features, Index rows, Index classes,
                              double feature_size = 0);

}  // namespace bilevel::networks
