#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <bilevel/networks/batch_estimator.hpp>
#include <bilevel/networks/saved_network.hpp>
#include <bilevel/networks/training_data.hpp>
#include <bilevel/networks/training_options.hpp>

namespace bilevel::networks {

/// Gradients that were to be certified while the weights moved, counted by what came out.
struct CertifiedGradients {
  long trusted = 0, doubtful = 0, untrusted = 0;  ///< verdicts
  long cut_short = 0;  ///< attempts that took longer than there was time for, without a verdict
  long rigorous = 0, estimated = 0, none = 0;  ///< what stands behind their bounds; none: those cut short too
  long batches = 0;                            ///< all gradients that moved the weights
  double seconds = 0;                          ///< that certifying took, in vain too

  /// All attempts: shares of verdicts are of these.
  long count() const { return trusted + doubtful + untrusted + cut_short; }
  /// Batches to one attempt.
  double interval() const {
    return count() > 0 ? static_cast<double>(batches) / static_cast<double>(count()) : unknown;
  }
  void add(const Certificate& certificate, bool cut = false);
  CertifiedGradients& operator+=(const CertifiedGradients& other);

  /// visit(name, pointer to the member) for every field: how it is added up, shown and kept follows.
  template <class Visit>
  static void for_each_field(Visit&& visit) {
    visit("trusted", &CertifiedGradients::trusted);
    visit("doubtful", &CertifiedGradients::doubtful);
    visit("untrusted", &CertifiedGradients::untrusted);
    visit("rigorous", &CertifiedGradients::rigorous);
    visit("estimated", &CertifiedGradients::estimated);
    visit("none", &CertifiedGradients::none);
    visit("seconds", &CertifiedGradients::seconds);
    visit("cut_short", &CertifiedGradients::cut_short);
    visit("batches", &CertifiedGradients::batches);
  }
};

/// What one pass over the training rows showed. Errors are shares of the rows in [0, 1].
struct Epoch {
  int epoch = 0;
  double train_error = unknown;  ///< of the free phases as the weights moved
  double test_error = unknown, train_cost = unknown, test_cost = unknown;  ///< not known without test rows
  double samples_per_second = 0;
  double relaxation_residual =
      unknown;                 ///< mean over the samples of the largest movement in the last free step
  double nudged_residual = 0;  ///< the same of the nudged phases; 0 where there are none
  double gradient_cosine = unknown, gradient_error = unknown;  ///< on the probe
  double learning_rate = 0;
  double seconds = 0;  ///< of its batches, without those of testing and certifying
  CertifiedGradients certified;

  /// visit(name, pointer to the member) for every measured number, those of what was certified left out.
  template <class Visit>
  static void for_each_field(Visit&& visit) {
    visit("train_error", &Epoch::train_error);
    visit("test_error", &Epoch::test_error);
    visit("train_cost", &Epoch::train_cost);
    visit("test_cost", &Epoch::test_cost);
    visit("samples_per_second", &Epoch::samples_per_second);
    visit("relaxation_residual", &Epoch::relaxation_residual);
    visit("nudged_residual", &Epoch::nudged_residual);
    visit("gradient_cosine", &Epoch::gradient_cosine);
    visit("gradient_error", &Epoch::gradient_error);
    visit("learning_rate", &Epoch::learning_rate);
    visit("seconds", &Epoch::seconds);
  }
};

/// The gradient that training uses, beside the exact one, on a few test rows.
struct Probe : ExactComparison {
  Index samples = 0;
};

/// How a phase settles, step by step, from step 0: means over the probe's samples.
struct Trace {
  double beta = 0;
  std::vector<double> energy, moved;
};

/// A network that has learned, and how it went.
struct TrainedNetwork {
  Status status = Status::not_run;
  std::string message;
  std::string remedy;    ///< of a run that diverged: the option that may help, as messages name it
  SavedNetwork network;  ///< to predict with, to save, to draw as a circuit
  std::vector<Epoch> epochs;
  CertifiedGradients certified;                 ///< of all epochs and of one that was cut off
  std::optional<Certificate> last_certificate;  ///< of the last attempt; cut short: no bound, and the reason
  std::optional<Probe> probe;
  std::vector<Trace> traces;   ///< the free phase first
  std::vector<int> predicted;  ///< of the test rows
  Eigen::MatrixXf outputs;     ///< of the test rows
  std::vector<std::string> warnings;
  double seconds = 0;
  bool resumed = false;

  const Eigen::VectorXf& theta() const { return network.theta; }
};

/// Who watches a run, and where it is kept.
struct TrainControl {
  /// A file in which the run is kept while it lasts; empty for nowhere. A place that keeps a run already, or
  /// a file of another kind, is refused and left alone.
  std::string checkpoint = {};
  bool resume = false;  ///< go on from there, where something is kept; needs a checkpoint
  /// Once all epochs are done the file is removed; else whoever reads the result does it.
  bool forget = true;
  std::string identity = {};  ///< a kept run with another one is refused; empty: run_identity()
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  /// Called after every epoch; false stops the run with status `interrupted`, as in `solve`.
  std::function<bool(const Epoch&)> callback = [](const Epoch&) { return true; };
  std::function<bool()> interrupted = [] { return false; };  ///< called from several threads
};

/// What a kept run must agree with: the rows of training and test, the network, and what draws and moves its
/// weights: estimator, noise, optimiser, momentum, weight decay, first weights. Rates, β and numbers of steps
/// may change: that is how a run that diverged goes on.
std::string run_identity(const TrainingData& data, const TrainSettings& settings);

/// Options made definite for these data.
TrainSettings resolve_options(const TrainOptions& options, const TrainingData& data);

/// Minimises the mean cost of the training rows by stochastic steps along the gradients of batches. Throws
/// InvalidInput, with everything that does not fit, before any work starts.
TrainedNetwork train(const TrainingData& data, const TrainOptions& options = {},
                     const TrainControl& control = {});
TrainedNetwork train(const TrainingData& data, const TrainSettings& settings,
                     const TrainControl& control = {});

}  // namespace bilevel::networks
