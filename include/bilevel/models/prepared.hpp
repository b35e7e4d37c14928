#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bilevel/problems/penalised_model.hpp>
#include <bilevel/problems/perceptron.hpp>

#include <bilevel/models/tune_options.hpp>

namespace bilevel::models {

using Vec = Eigen::VectorXd;
using bilevel::problems::RowRange;
using bilevel::problems::Standardisation;

/// Rows to train on, rows to judge by, and how the features are standardised: learned on the former alone.
struct Split {
  std::vector<RowRange> training, validation;
  Standardisation standardisation;
};

/// Data that are split, standardised and in memory once: rows are ordered so that every part is a range or
/// two.
struct Prepared {
  Model model = Model::ridge;  ///< never automatic; of a network what its last layer is
  /// Of a network: its hidden layers; else empty.
  std::vector<Index> layers = {};
  bilevel::problems::Activation activation = bilevel::problems::Activation::tanh;
  std::uint64_t start_seed = 1;  ///< of the weights that it begins with
  bool network() const { return !layers.empty(); }
  /// What was asked for, never automatic.
  Model kind() const { return network() ? Model::mlp : model; }
  /// Of a linear model: one layer.
  bilevel::problems::PerceptronShape shape() const {
    return {static_cast<Index>(names.size()), layers, outputs, activation};
  }
  bilevel::problems::Samples samples;
  std::vector<Split> folds;  ///< one for a hold-out
  Split final;  ///< what the model that is kept is trained on; its validation rows are the test's
  bool has_test = false;
  bool intercept = true;
  bool held_out = false;  ///< judged by rows held out instead of folds: `folds` has one element
  bool refits = false;    ///< `final` is trained on other rows than folds[0]

  Index training_rows = 0, validation_rows = 0, test_rows = 0;
  std::vector<Index> source_rows;  ///< of each row, its number in the file it came from, counted from 1

  std::vector<std::string> names;            ///< of the features that are used
  std::vector<Index> columns;                ///< and their places in the schema's features
  std::vector<std::string> constant;         ///< features left out because they never change
  std::vector<std::string> hyperparameters;  ///< a name for each penalty of the map
  bilevel::problems::PenaltyMap penalties;
  Penalty penalty = Penalty::automatic;  ///< what was asked for
  /// θ has one element more for the elastic net, log λ₂, the last.
  bool elastic() const { return model == Model::elastic_net; }
  Index outputs = 1;
  std::vector<std::string>
      classes;  ///< of a classifier, in the order of its outputs (binary: negative first)
  /// stored = (file's value − stored_shift)/stored_scale, for each feature used.
  Vec stored_shift, stored_scale;
  /// Regression: what is learned is (target − shift)/scale, so that losses are of order one.
  double target_shift = 0, target_scale = 1;
  double loss_parameter = 1;  ///< of a loss that has one, in units of the target

  std::string source, format, storage, target, splitting;
  bilevel::data::Schema schema;
  Vec imputed;           ///< means of the training rows, by column of the schema's features
  bool imputes = false;  ///< whether they stand in for missing cells; else those are refused
  Index nonzeros = 0;
  std::optional<std::pair<Index, Index>> image;
  std::vector<std::string> notes;
};

/// Splits the data and makes them ready for `tune`. Throws InvalidInput with what is wrong and what to do.
Prepared prepare(TuningData data, const TuneOptions& options);

/// Throws InvalidInput where the data were not prepared, or by options of another model.
void require_prepared(const Prepared& prepared, const TuneOptions& options);

/// Throws InvalidInput where the model of these data could not be saved, because JSON cannot hold their
/// names: to be asked before the work.
void require_savable(const Prepared& prepared);

/// Everything that makes a run on these data what it is: a run of another identity is not gone on with.
std::string identity_of(const Prepared& prepared, const TuneOptions& options);

}  // namespace bilevel::models
