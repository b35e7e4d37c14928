#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include <bilevel/data/read.hpp>
#include <bilevel/networks/architecture.hpp>

namespace bilevel::networks {

/// Samples in columns, as the networks want them.
struct LabelledSamples {
  std::string source;
  Eigen::MatrixXf inputs;   ///< features × samples
  std::vector<int> labels;  ///< indices into the classes

  Index rows() const { return inputs.cols(); }
};

/// What is done to features before a network sees them.
enum class Scaling {
  automatic,  ///< unit for pictures, else standard
  none,
  unit,     ///< to at most 1 in size
  standard  ///< mean 0, deviation 1, of the training rows
};
std::string_view name(Scaling scaling);
/// By name; InvalidInput with the list where there is none.
Scaling scaling_of(std::string_view name);

/// How rows become training and test samples.
struct SplitOptions {
  /// Of the rows of every class, drawn by the seed; in (0, 1). Nothing: 0.2, or the test rows that a folder
  /// has.
  std::optional<double> test_share = {};
  Index rows = 0;  ///< train on so many rows at most, drawn by the seed; 0: all
  Scaling scaling = Scaling::automatic;
  bool impute = false;  ///< missing cells get the mean of the training rows; else they are refused
  std::uint64_t seed = 1;

  Violations validate() const;
};

/// What a network learns from, and what it is tested on.
struct TrainingData {
  LabelledSamples train, test;
  std::vector<std::string> classes;
  std::optional<std::pair<Index, Index>> image;  ///< rows × columns of a picture
  std::string scaling;                           ///< what was done to the features, in words
  Eigen::VectorXd shift, factor;                 ///< x ← (x − shift)·factor
  Eigen::VectorXd imputed;                       ///< what stood in for missing cells; empty: none may be
  data::Schema schema;                           ///< of the file; without features where there was none
  bool generated = false;
  std::vector<std::string> notes;

  Index features() const { return train.inputs.rows(); }
  /// What is wrong with data that somebody made by hand; none of what the functions below return.
  Violations validate() const;
  /// Root of the mean square of the training rows' features, scaled.
  double feature_size() const;
};

/// One sample a row with the name of its class. Throws InvalidInput where they cannot be told apart.
TrainingData training_data(const Eigen::MatrixXd& rows, const std::vector<std::string>& labels,
                           const SplitOptions& options = {});
/// Rows that were read, or that somebody made; the target is the class.
TrainingData training_data(data::Dataset rows, const SplitOptions& options = {});
/// The same with test rows of their own.
TrainingData training_data(data::Dataset rows, data::Dataset test, const SplitOptions& options = {});

/// Where the rows are.
struct TrainingFiles {
  /// LIBSVM, CSV, NPY; or a folder with the four IDX files of MNIST's names; or one with a folder of pictures
  /// for each class (`read_class_pictures`), or with two such folders, train and test.
  std::string data = {};
  std::string test = {};  ///< rows to test on; empty: the folder's own, else a share of the data
  std::string test_labels = {};
  data::ReadOptions reading = {};  ///< whose `missing` decides about `impute`
};
TrainingData read_training_data(const TrainingFiles& files, SplitOptions options = {});

/// Small pictures of the ten digits, shifted, thickened and with noise, 12 × 12: something to train on
/// anywhere.
TrainingData drawn_digits(Index train_rows, std::uint64_t seed, Index test_rows = 1000);

}  // namespace bilevel::networks
